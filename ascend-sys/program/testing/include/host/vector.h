// Arithmetic of the vector unit, with the types that A2 and A3 have.
#pragma once
#include "memory.h"

namespace AscendC {
enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };

namespace detail {
template <typename T>
constexpr bool IS_FLOAT = std::is_same<T, half>::value || std::is_same<T, float>::value;
template <typename T>
constexpr bool IS_COMPUTED = IS_FLOAT<T> || std::is_same<T, int16_t>::value || std::is_same<T, int32_t>::value;

// Whole numbers wrap, and 16-bit floats are computed as float.
template <typename T>
using Wide = std::conditional_t<std::is_integral<T>::value, int64_t, float>;

// A NaN stays, and -0 is less than +0.
template <typename T>
T Larger(T a, T b)
{
    if (a == b) {
        return std::signbit(a) ? b : a;
    }
    return a < b || b != b ? b : a;
}
template <typename T>
T Smaller(T a, T b)
{
    if (a == b) {
        return std::signbit(a) ? a : b;
    }
    return b < a || b != b ? b : a;
}

template <typename T, typename F>
void Elementwise(const LocalTensor<T>& to, int32_t count, F value)
{
    host::Require(count >= 0, "fewer than no elements");
    T* elements = to.Elements(0, static_cast<uint64_t>(count));
    for (int32_t at = 0; at < count; ++at) {
        elements[at] = static_cast<T>(value(at));
    }
}
} // namespace detail

#define HOST_BINARY(NAME, TYPES, RESULT)                                                                              \
    template <typename T>                                                                                             \
    void NAME(const LocalTensor<T>& to, const LocalTensor<T>& x, const LocalTensor<T>& y, const int32_t& count)        \
    {                                                                                                                 \
        static_assert(detail::TYPES<T>, #NAME " has no such type");                                                   \
        const T *left = x.Elements(0, count), *right = y.Elements(0, count);                                          \
        detail::Elementwise(to, count, [=](int32_t at) {                                                              \
            const detail::Wide<T> a = left[at], b = right[at];                                                        \
            return RESULT;                                                                                            \
        });                                                                                                           \
    }
#define HOST_SCALAR(NAME, RESULT)                                                                                     \
    template <typename T>                                                                                             \
    void NAME(const LocalTensor<T>& to, const LocalTensor<T>& x, const T& scalar, const int32_t& count)               \
    {                                                                                                                 \
        static_assert(detail::IS_COMPUTED<T>, #NAME " has no such type");                                             \
        const T* left = x.Elements(0, count);                                                                         \
        const detail::Wide<T> b = scalar;                                                                             \
        detail::Elementwise(to, count, [=](int32_t at) {                                                              \
            const detail::Wide<T> a = left[at];                                                                       \
            return RESULT;                                                                                            \
        });                                                                                                           \
    }
#define HOST_UNARY(NAME, TYPES, RESULT)                                                                               \
    template <typename T>                                                                                             \
    void NAME(const LocalTensor<T>& to, const LocalTensor<T>& x, const int32_t& count)                                \
    {                                                                                                                 \
        static_assert(detail::TYPES<T>, #NAME " has no such type");                                                   \
        const T* left = x.Elements(0, count);                                                                         \
        detail::Elementwise(to, count, [=](int32_t at) {                                                              \
            const detail::Wide<T> a = left[at];                                                                       \
            return RESULT;                                                                                            \
        });                                                                                                           \
    }

HOST_BINARY(Add, IS_COMPUTED, a + b)
HOST_BINARY(Sub, IS_COMPUTED, a - b)
HOST_BINARY(Mul, IS_COMPUTED, a * b)
HOST_BINARY(Div, IS_FLOAT, a / b)
HOST_BINARY(Max, IS_COMPUTED, detail::Larger(a, b))
HOST_BINARY(Min, IS_COMPUTED, detail::Smaller(a, b))
HOST_SCALAR(Adds, a + b)
HOST_SCALAR(Muls, a * b)
HOST_SCALAR(Maxs, detail::Larger(a, b))
HOST_SCALAR(Mins, detail::Smaller(a, b))
HOST_UNARY(Relu, IS_COMPUTED, detail::Larger(a, detail::Wide<T>{}))
HOST_UNARY(Exp, IS_FLOAT, std::exp(a))
HOST_UNARY(Sqrt, IS_FLOAT, std::sqrt(a))

template <typename T>
void Duplicate(const LocalTensor<T>& to, const T& value, const int32_t& count)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Duplicate has no such type");
    const T copy = value;
    detail::Elementwise(to, count, [=](int32_t) { return copy; });
}

template <typename T, typename U>
void Cast(const LocalTensor<T>& to, const LocalTensor<U>& from, const RoundMode& round, const uint32_t count)
{
    constexpr bool halves = std::is_same<T, half>::value && std::is_same<U, bfloat16_t>::value;
    constexpr bool bfloats = std::is_same<T, bfloat16_t>::value && std::is_same<U, half>::value;
    static_assert(!halves && !bfloats, "half and bfloat16_t are converted by way of float");
    const U* source = from.Elements(0, count);
    detail::Elementwise(to, static_cast<int32_t>(count), [=](int32_t at) {
        const double value = source[at];
        if (!std::is_integral<T>::value) {
            return value;
        }
        switch (round) {
            case RoundMode::CAST_FLOOR:
                return std::floor(value);
            case RoundMode::CAST_CEIL:
                return std::ceil(value);
            case RoundMode::CAST_ROUND:
                return std::round(value);
            case RoundMode::CAST_TRUNC:
                return std::trunc(value);
            default:
                return std::nearbyint(value);
        }
    });
}

template <typename T>
void ReduceSum(const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>&, const int32_t count)
{
    static_assert(detail::IS_FLOAT<T>, "ReduceSum has no such type");
    const T* source = from.Elements(0, count);
    float sum = 0.0f;
    for (int32_t at = 0; at < count; ++at) {
        sum += static_cast<float>(source[at]);
    }
    *to.Elements(0, 1) = static_cast<T>(sum);
}

template <typename T>
void ReduceMax(const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>&, const int32_t count,
    bool calIndex = 0)
{
    static_assert(detail::IS_FLOAT<T>, "ReduceMax has no such type");
    host::Require(!calIndex, "this ReduceMax gives no index");
    const T* source = from.Elements(0, count);
    T largest = source[0];
    for (int32_t at = 1; at < count; ++at) {
        largest = detail::Larger<float>(largest, source[at]);
    }
    *to.Elements(0, 1) = largest;
}
} // namespace AscendC
