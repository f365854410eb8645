// Tiling structs of CANN's libraries.
#pragma once
#include <cstddef>
#include <cstdint>

struct Mc2InitTiling {
    uint8_t reserved[64];
};

struct Mc2CcTiling {
    uint8_t reserved[512];
};

struct TCubeTiling {
    int32_t usedCoreNum, M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, depthA1, depthB1, stepM,
        stepN, isBias, transLength, iterateOrder, shareMode, shareL1Size, shareL0CSize, shareUbSize, batchM, batchN,
        singleBatchM, singleBatchN, stepKa, stepKb, depthAL1CacheUB, depthBL1CacheUB, dbL0A, dbL0B, dbL0C, ALayoutInfoB,
        ALayoutInfoS, ALayoutInfoN, ALayoutInfoG, ALayoutInfoD, BLayoutInfoB, BLayoutInfoS, BLayoutInfoN, BLayoutInfoG,
        BLayoutInfoD, CLayoutInfoB, CLayoutInfoS1, CLayoutInfoN, CLayoutInfoG, CLayoutInfoS2, BatchNum, mxTypePara;
};
static_assert(sizeof(TCubeTiling) == 200 && offsetof(TCubeTiling, stepKa) == 104, "TCubeTiling");
