// Made from the tiling struct in Rust, which is the one to change. Layout hash 0xb4e2050c00c3a8a7.
#ifndef ALL_TO_ALL_CUSTOM_TILING_DATA_H
#define ALL_TO_ALL_CUSTOM_TILING_DATA_H

#include <cstddef>
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"

static_assert(sizeof(Mc2InitTiling) == 64, "this release of CANN has another Mc2InitTiling");
static_assert(sizeof(Mc2CcTiling) == 512, "this release of CANN has another Mc2CcTiling");

// The struct of a kernel that communicates, with the names of the documents.
struct AllToAllCustomTilingData {
    Mc2InitTiling init;           // at 0, 64 bytes
    Mc2CcTiling alltoallCcTiling; // at 64, 512 bytes
    uint32_t tileNum;             // at 576, 4 bytes
    uint32_t tailNum;             // at 580, 4 bytes
    uint64_t tileLen;             // at 584, 8 bytes
};
static_assert(sizeof(AllToAllCustomTilingData) == 592, "AllToAllCustomTilingData: size");
static_assert(offsetof(AllToAllCustomTilingData, init) == 0, "AllToAllCustomTilingData: offset of init");
static_assert(offsetof(AllToAllCustomTilingData, alltoallCcTiling) == 64,
    "AllToAllCustomTilingData: offset of alltoallCcTiling");
static_assert(offsetof(AllToAllCustomTilingData, tileNum) == 576, "AllToAllCustomTilingData: offset of tileNum");
static_assert(offsetof(AllToAllCustomTilingData, tailNum) == 580, "AllToAllCustomTilingData: offset of tailNum");
static_assert(offsetof(AllToAllCustomTilingData, tileLen) == 584, "AllToAllCustomTilingData: offset of tileLen");

#endif // ALL_TO_ALL_CUSTOM_TILING_DATA_H
