// Products of matrices on a cube core.
#pragma once
#include "kernel_operator.h"
#include "kernel_tiling/kernel_tiling.h"

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 8 };

namespace AscendC {
struct MatmulConfig {};
inline constexpr MatmulConfig CFG_NORM{};
inline constexpr MatmulConfig CFG_MDL{};

template <TPosition position, CubeFormat form, typename Type, bool transposed = false>
struct MatmulType {
    static_assert(position == TPosition::GM && form == CubeFormat::ND, "matrices in global memory, row by row");
    using T = Type;
    static constexpr bool isTrans = transposed;
};

namespace detail {
template <typename T, typename U>
constexpr bool SAME = std::is_same<T, U>::value;
template <typename A, typename B, typename C>
constexpr bool IS_MULTIPLIED = SAME<A, B> &&
    ((SAME<A, half> && (SAME<C, half> || SAME<C, float> || SAME<C, bfloat16_t>)) ||
        (SAME<A, bfloat16_t> && (SAME<C, half> || SAME<C, float> || SAME<C, bfloat16_t>)) ||
        (SAME<A, float> && SAME<C, float>) || (SAME<A, int8_t> && (SAME<C, int32_t> || SAME<C, half>)));
} // namespace detail

template <class A, class B, class C, class Bias = C, const auto& config = CFG_NORM>
class MatmulImpl {
    static_assert(detail::IS_MULTIPLIED<typename A::T, typename B::T, typename C::T>, "matrices of types that are not multiplied");

public:
    void SetSubBlockIdx(uint8_t) {}
    void Init(const TCubeTiling* tiling, TPipe* = nullptr)
    {
        Mine();
        host::Require(!Busy(), "another product has not ended yet");
        Busy() = true;
        host::Require(tiling->baseM > 0 && tiling->baseN > 0, "a tiling without base blocks");
        tiling_ = tiling;
        SetOrgShape(tiling->M, tiling->N, tiling->Ka, tiling->Kb);
        SetSingleShape(tiling->singleCoreM, tiling->singleCoreN, tiling->singleCoreK);
    }
    void SetOrgShape(int m, int n, int k) { SetOrgShape(m, n, k, k); }
    void SetOrgShape(int m, int n, int ka, int kb, int kc = 0)
    {
        Ready();
        m_ = m;
        n_ = n;
        ka_ = ka;
        kb_ = kb;
        kc_ = kc == 0 ? n : kc;
    }
    void SetSingleShape(int m, int n, int k)
    {
        Ready();
        rows_ = m;
        columns_ = n;
        depth_ = k;
        next_ = 0;
    }
    void SetTensorA(const GlobalTensor<typename A::T>& a, bool transposed = false)
    {
        Ready();
        host::Require(!transposed || A::isTrans, "the type of A is not a transposed one");
        a_ = a;
        transposedA_ = transposed;
        next_ = 0;
    }
    void SetTensorB(const GlobalTensor<typename B::T>& b, bool transposed = false)
    {
        Ready();
        host::Require(!transposed || B::isTrans, "the type of B is not a transposed one");
        b_ = b;
        transposedB_ = transposed;
        next_ = 0;
    }
    void SetBias(const GlobalTensor<typename Bias::T>& bias)
    {
        Ready();
        host::Require(tiling_->isBias == 1, "a bias, but the tiling has none");
        bias_ = bias;
        hasBias_ = true;
    }
    // The next block; false when there is none.
    template <bool sync = true>
    bool Iterate(bool = false)
    {
        Ready();
        const int64_t down = (rows_ + tiling_->baseM - 1) / tiling_->baseM;
        const int64_t across = (columns_ + tiling_->baseN - 1) / tiling_->baseN;
        if (next_ == down * across) {
            return false;
        }
        row_ = next_ % down * tiling_->baseM;
        column_ = next_ / down * tiling_->baseN;
        ++next_;
        return true;
    }
    // Stores that block where it belongs in what begins here.
    template <bool sync = true>
    void GetTensorC(const GlobalTensor<typename C::T>& c, uint8_t atomic = 0, bool = false)
    {
        Ready();
        host::Require(atomic == 0, "this product only stores");
        for (int64_t i = row_; i < rows_ && i < row_ + tiling_->baseM; ++i) {
            for (int64_t j = column_; j < columns_ && j < column_ + tiling_->baseN; ++j) {
                Sum sum = hasBias_ ? static_cast<Sum>(bias_.GetValue(j)) : Sum(0);
                for (int64_t k = 0; k < depth_; ++k) {
                    const auto a = a_.GetValue(transposedA_ ? k * m_ + i : i * ka_ + k);
                    const auto b = b_.GetValue(transposedB_ ? j * kb_ + k : k * n_ + j);
                    sum += static_cast<Sum>(a) * static_cast<Sum>(b);
                }
                GlobalTensor<typename C::T> result = c;
                result.SetValue(i * kc_ + j, static_cast<typename C::T>(sum));
            }
        }
    }
    void End()
    {
        Ready();
        Busy() = false;
        tiling_ = nullptr;
    }

private:
    using Sum = std::conditional_t<std::is_integral<typename A::T>::value, int32_t, float>;
    static bool& Busy()
    {
        static thread_local bool busy = false;
        return busy;
    }
    static void Mine() { host::Require(host::Me()->kind == host::AIC, "products are for cube cores"); }
    void Ready()
    {
        Mine();
        host::Require(tiling_ != nullptr, "a product before Init or behind End");
    }
    const TCubeTiling* tiling_ = nullptr;
    GlobalTensor<typename A::T> a_;
    GlobalTensor<typename B::T> b_;
    GlobalTensor<typename Bias::T> bias_;
    int64_t m_ = 0, n_ = 0, ka_ = 0, kb_ = 0, kc_ = 0, rows_ = 0, columns_ = 0, depth_ = 0;
    int64_t row_ = 0, column_ = 0, next_ = 0;
    bool transposedA_ = false, transposedB_ = false, hasBias_ = false;
};
} // namespace AscendC
