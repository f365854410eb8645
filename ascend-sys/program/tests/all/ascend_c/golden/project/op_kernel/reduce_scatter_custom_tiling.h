// Made from the tiling struct in Rust, which is the one to change. Layout hash 0x6a69d932a3bad94f.
#ifndef REDUCE_SCATTER_CUSTOM_TILING_DATA_H
#define REDUCE_SCATTER_CUSTOM_TILING_DATA_H

#include <cstddef>
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"

static_assert(sizeof(Mc2InitTiling) == 64, "this release of CANN has another Mc2InitTiling");
static_assert(sizeof(Mc2CcTiling) == 512, "this release of CANN has another Mc2CcTiling");

struct ReduceScatterCustomTilingData {
    Mc2InitTiling mc2InitTiling;       // at 0, 64 bytes
    Mc2CcTiling reduceScatterCcTiling; // at 64, 512 bytes
};
static_assert(sizeof(ReduceScatterCustomTilingData) == 576, "ReduceScatterCustomTilingData: size");
static_assert(offsetof(ReduceScatterCustomTilingData, mc2InitTiling) == 0,
    "ReduceScatterCustomTilingData: offset of mc2InitTiling");
static_assert(offsetof(ReduceScatterCustomTilingData, reduceScatterCcTiling) == 64,
    "ReduceScatterCustomTilingData: offset of reduceScatterCcTiling");

#endif // REDUCE_SCATTER_CUSTOM_TILING_DATA_H
