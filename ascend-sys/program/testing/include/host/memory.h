// Tensors in global and local memory, queues of buffers, and copies between them.
#pragma once
#include <deque>
#include <vector>

#include "core.h"

namespace AscendC {
enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, C2PIPE2GM,
    C2PIPE2LOCAL, MAX
};
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;
    void SetGlobalBuffer(__gm__ T* address) { address_ = address; }
    void SetGlobalBuffer(__gm__ T* address, uint64_t) { address_ = address; }
    __gm__ T* GetPhyAddr(uint64_t offset) const { return address_ + offset; }
    const __gm__ T* GetPhyAddr() const { return address_; }
    T GetValue(uint64_t offset) const
    {
        host::CheckGlobal(address_ + offset, sizeof(T));
        return address_[offset];
    }
    void SetValue(uint64_t offset, T value)
    {
        host::CheckGlobal(address_ + offset, sizeof(T));
        address_[offset] = value;
    }
    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor part;
        part.address_ = address_ + offset;
        return part;
    }

private:
    __gm__ T* address_ = nullptr;
};

template <typename T>
class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(unsigned char* start, unsigned char* end) : start_(start), end_(end) {}
    T GetValue(uint32_t at) const { return *Elements(at, 1, false); }
    template <typename S>
    void SetValue(uint32_t at, S value) const
    {
        static_assert(std::is_same<S, T>::value, "a value of another type");
        *Elements(at, 1, false) = value;
    }
    LocalTensor operator[](uint32_t offset) const
    {
        return LocalTensor(start_ + offset * sizeof(T), end_);
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const { return LocalTensor<U>(start_, end_); }
    uint32_t GetSize() const { return static_cast<uint32_t>((end_ - start_) / sizeof(T)); }

    // For the implementation: so many elements, which have to be there and to begin where vectors may begin.
    T* Elements(uint64_t at, uint64_t count, bool aligned = true) const
    {
        host::Require(start_ != nullptr, "a local tensor without memory");
        host::Require(start_ + (at + count) * sizeof(T) <= end_, "beyond a local tensor");
        host::Require(!aligned || (start_ - host::Me()->local) % 32 == 0, "a tensor begins beside a block of 32 bytes");
        return reinterpret_cast<T*>(start_) + at;
    }
    unsigned char* Start() const { return start_; }
    unsigned char* End() const { return end_; }

private:
    unsigned char* start_ = nullptr;
    unsigned char* end_ = nullptr;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue {
    static_assert(pos == TPosition::VECIN || pos == TPosition::VECOUT, "into or out of the vector unit");
    static_assert(depth == 1, "one EnQue, one DeQue");

public:
    static constexpr TPosition position = pos;
    template <typename T>
    LocalTensor<T> AllocTensor()
    {
        host::Require(!free_.empty(), "AllocTensor waits for a buffer that nobody frees");
        auto [start, end] = free_.front();
        free_.pop_front();
        held_.push_back({start, end});
        return LocalTensor<T>(start, end);
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor)
    {
        Give(tensor.Start(), free_);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor)
    {
        host::Require(queued_.size() < depth, "EnQue again before DeQue");
        Give(tensor.Start(), queued_);
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue()
    {
        host::Require(!queued_.empty(), "DeQue waits for what nobody puts in");
        auto [start, end] = queued_.front();
        queued_.pop_front();
        held_.push_back({start, end});
        return LocalTensor<T>(start, end);
    }
    void Add(unsigned char* start, unsigned char* end) { free_.push_back({start, end}); }

private:
    using Buffers = std::deque<std::pair<unsigned char*, unsigned char*>>;
    void Give(unsigned char* start, Buffers& to)
    {
        for (auto held = held_.begin(); held != held_.end(); ++held) {
            if (held->first == start) {
                to.push_back(*held);
                held_.erase(held);
                return;
            }
        }
        host::Fail("a tensor that is not from this queue");
    }
    Buffers free_, queued_, held_;
};

template <TPosition pos = TPosition::LCM>
class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get() { return LocalTensor<T>(start_, end_); }
    template <typename T>
    LocalTensor<T> Get(uint32_t length) { return LocalTensor<T>(start_, start_ + length * sizeof(T)); }
    void Add(unsigned char* start, unsigned char* end)
    {
        start_ = start;
        end_ = end;
    }

private:
    unsigned char* start_ = nullptr;
    unsigned char* end_ = nullptr;
};

class TPipe {
public:
    TPipe() { host::Me()->used = 0; }
    TPipe(const TPipe&) = delete;
    template <TPosition pos, int32_t depth, auto mask>
    bool InitBuffer(TQue<pos, depth, mask>& queue, uint8_t count, uint32_t bytes)
    {
        int& all = pos == TPosition::VECIN ? in_ : out_;
        all += count;
        host::Require(all <= 8, "more than 8 buffers in the queues of a position");
        for (uint8_t at = 0; at < count; ++at) {
            unsigned char* start = Take(bytes);
            queue.Add(start, start + bytes);
        }
        return true;
    }
    template <TPosition pos>
    bool InitBuffer(TBuf<pos>& buffer, uint32_t bytes)
    {
        unsigned char* start = Take(bytes);
        buffer.Add(start, start + bytes);
        return true;
    }
    TEventID FetchEventID(HardEvent) { return 0; }

private:
    unsigned char* Take(uint32_t bytes)
    {
        host::Core& me = *host::Me();
        unsigned char* start = me.local + me.used;
        me.used += (bytes + 31) / 32 * 32;
        host::Require(me.used <= 184 * 1024, "more than 184 KiB of local memory");
        return start;
    }
    int in_ = 0;
    int out_ = 0;
};

struct DataCopyExtParams {
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t bytes, uint32_t source, uint32_t target, uint32_t)
        : blockCount(count), blockLen(bytes), srcStride(source), dstStride(target)
    {}
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
};

template <typename T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool, uint8_t, uint8_t, T) {}
};

namespace detail {
template <typename T>
constexpr bool IS_MOVED = std::is_arithmetic<T>::value || std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value;

inline bool& Adds()
{
    static thread_local bool adds = false;
    return adds;
}

inline uint32_t Blocks(uint32_t bytes)
{
    return (bytes + 31) / 32 * 32;
}
} // namespace detail

template <typename T>
void DataCopyPad(const LocalTensor<T>& to, const GlobalTensor<T>& from, const DataCopyExtParams& copy,
    const DataCopyPadExtParams<T>&)
{
    static_assert(detail::IS_MOVED<T>, "a type that is not copied");
    host::Require(copy.blockLen % sizeof(T) == 0, "a part of an element");
    const unsigned char* source = reinterpret_cast<const unsigned char*>(from.GetPhyAddr());
    unsigned char* target = reinterpret_cast<unsigned char*>(to.Elements(0, 0));
    for (uint32_t piece = 0; piece < copy.blockCount && copy.blockLen != 0; ++piece) {
        host::CheckGlobal(source, copy.blockLen);
        host::Require(target + copy.blockLen <= to.End(), "a copy beyond a local tensor");
        std::memcpy(target, source, copy.blockLen);
        source += copy.blockLen + copy.srcStride;
        target += detail::Blocks(copy.blockLen) + 32 * copy.dstStride;
    }
}

template <typename T>
void DataCopyPad(const GlobalTensor<T>& to, const LocalTensor<T>& from, const DataCopyExtParams& copy)
{
    static_assert(detail::IS_MOVED<T>, "a type that is not copied");
    host::Require(copy.blockLen % sizeof(T) == 0, "a part of an element");
    T* target = to.GetPhyAddr(0);
    const unsigned char* source = reinterpret_cast<const unsigned char*>(from.Elements(0, 0));
    // Cores may add to the same elements at the same time.
    std::lock_guard<std::mutex> held(host::TheMachine().lock);
    for (uint32_t piece = 0; piece < copy.blockCount && copy.blockLen != 0; ++piece) {
        host::CheckGlobal(target, copy.blockLen);
        host::Require(source + copy.blockLen <= from.End(), "a copy beyond a local tensor");
        const T* elements = reinterpret_cast<const T*>(source);
        for (uint32_t at = 0; at < copy.blockLen / sizeof(T); ++at) {
            target[at] = detail::Adds() ? static_cast<T>(target[at] + elements[at]) : elements[at];
        }
        target += (copy.blockLen + copy.dstStride) / sizeof(T);
        source += detail::Blocks(copy.blockLen) + 32 * copy.srcStride;
    }
}

template <typename T>
void SetAtomicAdd()
{
    static_assert(std::is_same<T, int8_t>::value || std::is_same<T, int16_t>::value || std::is_same<T, int32_t>::value ||
        std::is_same<T, float>::value || std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value,
        "a type that is not added");
    detail::Adds() = true;
}

inline void DisableDmaAtomic() { detail::Adds() = false; }

template <typename T, CacheLine line, DcciDst where>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&)
{}
} // namespace AscendC
