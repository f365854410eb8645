// CANN's tiling structs as its documents describe them, for compilers of the host.
#ifndef KERNEL_TILING_H
#define KERNEL_TILING_H

#include <cstdint>

#ifndef CC_TILING_BYTES
#define CC_TILING_BYTES 512
#endif

#pragma pack(push, 8)

struct Mc2InitTiling {
    uint8_t reserved[64];
};

struct Mc2CcTiling {
    uint8_t reserved[CC_TILING_BYTES];
};

struct TCubeTiling {
    int32_t usedCoreNum, M, N, Ka, Kb;
    int32_t singleCoreM, singleCoreN, singleCoreK;
    int32_t baseM, baseN, baseK;
    int32_t depthA1, depthB1, stepM, stepN;
    int32_t isBias, transLength, iterateOrder;
    int32_t shareMode, shareL1Size, shareL0CSize, shareUbSize;
    int32_t batchM, batchN, singleBatchM, singleBatchN;
    int32_t stepKa, stepKb, depthAL1CacheUB, depthBL1CacheUB;
    int32_t dbL0A, dbL0B, dbL0C;
    int32_t ALayoutInfoB, ALayoutInfoS, ALayoutInfoN, ALayoutInfoG, ALayoutInfoD;
    int32_t BLayoutInfoB, BLayoutInfoS, BLayoutInfoN, BLayoutInfoG, BLayoutInfoD;
    int32_t CLayoutInfoB, CLayoutInfoS1, CLayoutInfoN, CLayoutInfoG, CLayoutInfoS2;
    int32_t BatchNum, mxTypePara;
};

#pragma pack(pop)

#endif // KERNEL_TILING_H
