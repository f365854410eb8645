// Made from the tiling struct in Rust, which is the one to change. Layout hash 0xb4e2050c00c3a8a7.
#ifndef ALL_TO_ALL_CUSTOM_TILING_DATA_MACROS_H
#define ALL_TO_ALL_CUSTOM_TILING_DATA_MACROS_H

#include <cstddef>
#include <cstdint>

#include "register/tilingdata_base.h"
#include "tiling/tiling_api.h"

namespace optiling {
// The struct of a kernel that communicates, with the names of the documents.
BEGIN_TILING_DATA_DEF(AllToAllCustomTilingData)
    TILING_DATA_FIELD_DEF_STRUCT(Mc2InitTiling, init);
    TILING_DATA_FIELD_DEF_STRUCT(Mc2CcTiling, alltoallCcTiling);
    TILING_DATA_FIELD_DEF(uint32_t, tileNum);
    TILING_DATA_FIELD_DEF(uint32_t, tailNum);
    TILING_DATA_FIELD_DEF(uint64_t, tileLen);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(AllToAllCustom, AllToAllCustomTilingData)

// What the framework lays out for the kernel.
namespace layout {
// The struct of a kernel that communicates, with the names of the documents.
struct AllToAllCustomTilingData {
    uint8_t init[64];              // at 0, 64 bytes
    uint8_t alltoallCcTiling[512]; // at 64, 512 bytes
    uint32_t tileNum;              // at 576, 4 bytes
    uint32_t tailNum;              // at 580, 4 bytes
    uint64_t tileLen;              // at 584, 8 bytes
};
static_assert(sizeof(AllToAllCustomTilingData) == 592, "AllToAllCustomTilingData: size");
static_assert(offsetof(AllToAllCustomTilingData, init) == 0, "AllToAllCustomTilingData: offset of init");
static_assert(offsetof(AllToAllCustomTilingData, alltoallCcTiling) == 64,
    "AllToAllCustomTilingData: offset of alltoallCcTiling");
static_assert(offsetof(AllToAllCustomTilingData, tileNum) == 576, "AllToAllCustomTilingData: offset of tileNum");
static_assert(offsetof(AllToAllCustomTilingData, tailNum) == 580, "AllToAllCustomTilingData: offset of tailNum");
static_assert(offsetof(AllToAllCustomTilingData, tileLen) == 584, "AllToAllCustomTilingData: offset of tileLen");
} // namespace layout
} // namespace optiling

#endif // ALL_TO_ALL_CUSTOM_TILING_DATA_MACROS_H
