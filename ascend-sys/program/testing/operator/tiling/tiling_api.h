// What makes tilings of CANN's libraries.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "kernel_tiling/kernel_tiling.h"
#include "tiling/platform/platform_ascendc.h"

namespace AscendC {
class Mc2CcTilingConfig {
public:
    Mc2CcTilingConfig(const std::string& group, uint32_t operation, const std::string& algorithm, uint32_t reduce = 0,
        uint8_t to = 0, uint8_t from = 0, uint8_t engine = 0)
        : group_(group), algorithm_(algorithm), operation_(operation), reduce_(reduce), to_(to), from_(from), engine_(engine)
    {}
    uint32_t GetTiling(Mc2InitTiling& tiling)
    {
        std::memset(&tiling, 0, sizeof(tiling));
        Put(tiling.reserved, 0, uint32_t(100));
        Put(tiling.reserved, 40, debug_);
        Put(tiling.reserved, 42, queues_);
        Put(tiling.reserved, 44, blocks_);
        init_ = &tiling;
        return 0;
    }
    uint32_t GetTiling(Mc2CcTiling& tiling)
    {
        uint32_t count;
        if (init_ == nullptr || group_.size() >= 128 || algorithm_.size() >= 128 || operation_ == 0) {
            return 1;
        }
        std::memcpy(&count, init_->reserved + 4, sizeof(count));
        if (count == 8) {
            return 1;
        }
        std::memset(&tiling, 0, sizeof(tiling));
        const auto offset = static_cast<uint32_t>(tiling.reserved - init_->reserved);
        Put(init_->reserved, 8 + 4 * count, offset);
        Put(init_->reserved, 4, count + 1);
        uint8_t* bytes = tiling.reserved;
        bytes[0] = skipLocal_;
        bytes[1] = skipWindow_;
        bytes[2] = step_;
        bytes[3] = 1;
        bytes[13] = engine_;
        bytes[14] = from_;
        bytes[15] = to_;
        std::copy(group_.begin(), group_.end(), bytes + 16);
        std::copy(algorithm_.begin(), algorithm_.end(), bytes + 144);
        Put(bytes, 272, operation_);
        Put(bytes, 276, reduce_);
        return 0;
    }
    uint32_t SetOpType(uint32_t operation) { return Set(operation_, operation); }
    uint32_t SetGroupName(const std::string& group) { return Set(group_, group); }
    uint32_t SetAlgConfig(const std::string& algorithm) { return Set(algorithm_, algorithm); }
    uint32_t SetReduceType(uint32_t reduce, uint8_t to = 0, uint8_t from = 0)
    {
        to_ = to;
        from_ = from;
        return Set(reduce_, reduce);
    }
    uint32_t SetStepSize(uint8_t step) { return Set(step_, step); }
    uint32_t SetSkipLocalRankCopy(uint8_t skip) { return Set(skipLocal_, skip); }
    uint32_t SetSkipBufferWindowCopy(uint8_t skip) { return Set(skipWindow_, skip); }
    uint32_t SetCommEngine(uint8_t engine) { return Set(engine_, engine); }
    uint32_t SetDebugMode(uint8_t mode) { return Set(debug_, mode); }
    uint32_t SetQueueNum(uint16_t count) { return Set(queues_, count); }
    uint32_t SetCommBlockNum(uint16_t count) { return Set(blocks_, count); }

private:
    template <typename T>
    static uint32_t Set(T& to, const T& value)
    {
        to = value;
        return 0;
    }
    template <typename T>
    static void Put(uint8_t* bytes, size_t at, T value)
    {
        std::memcpy(bytes + at, &value, sizeof(value));
    }
    std::string group_, algorithm_;
    uint32_t operation_, reduce_;
    uint8_t to_, from_, engine_, step_ = 0, skipLocal_ = 0, skipWindow_ = 0, debug_ = 0;
    uint16_t queues_ = 0, blocks_ = 0;
    Mc2InitTiling* init_ = nullptr;
};
} // namespace AscendC

namespace matmul_tiling {
enum class TPosition : int32_t { GM };
enum class CubeFormat : int32_t { ND };
enum class DataType : int32_t { DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_BF16 = 27 };

// Fills in only what it is told.
class MultiCoreMatmulTiling {
public:
    explicit MultiCoreMatmulTiling(const platform_ascendc::PlatformAscendC&) { std::memset(&tiling_, 0, sizeof(tiling_)); }
    int32_t SetDim(int32_t cores) { return Set(tiling_.usedCoreNum, cores); }
    int32_t SetAType(TPosition, CubeFormat, DataType, bool = false) { return 0; }
    int32_t SetBType(TPosition, CubeFormat, DataType, bool = false) { return 0; }
    int32_t SetCType(TPosition, CubeFormat, DataType) { return 0; }
    int32_t SetBiasType(TPosition, CubeFormat, DataType) { return 0; }
    int32_t SetShape(int32_t, int32_t, int32_t) { return 0; }
    int32_t SetOrgShape(int32_t m, int32_t n, int32_t k)
    {
        tiling_.M = m;
        tiling_.N = n;
        tiling_.Kb = k;
        return Set(tiling_.Ka, k);
    }
    int32_t EnableBias(bool bias) { return Set(tiling_.isBias, bias ? 1 : 0); }
    int32_t SetFixSplit(int32_t m, int32_t n, int32_t)
    {
        tiling_.baseM = m;
        return Set(tiling_.baseN, n);
    }
    int32_t SetMatmulConfigParams(int32_t) { return 0; }
    int32_t SetBufferSpace(int32_t, int32_t, int32_t) { return 0; }
    int64_t GetTiling(TCubeTiling& tiling)
    {
        tiling = tiling_;
        return 0;
    }

private:
    static int32_t Set(int32_t& to, int32_t value)
    {
        to = value;
        return 0;
    }
    TCubeTiling tiling_;
};
} // namespace matmul_tiling
