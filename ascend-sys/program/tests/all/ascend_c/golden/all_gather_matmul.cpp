// Printed from the kernel all_gather_matmul in src/kernels.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "lib/matmul_intf.h"
#include "all_gather_matmul_tiling.h"

using namespace AscendC;

using AType = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using BType = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using CType = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using MatmulOp = MatmulImpl<AType, BType, CType, CType, CFG_MDL>;

template <typename T>
__aicore__ inline T Smaller(T a, T b)
{
    return b < a ? b : a;
}

// The second unit of the event waits for all that the first one has been given.
template <HardEvent event>
__aicore__ inline void SyncUnits(TPipe& pipe)
{
    const event_t id = static_cast<event_t>(pipe.FetchEventID(event));
    SetFlag<event>(id);
    WaitFlag<event>(id);
}

extern "C" __global__ __aicore__ void all_gather_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR gatherOut,
    GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
    REGISTER_TILING_DEFAULT(AllGatherMatmulTilingData);
    GET_TILING_DATA_WITH_STRUCT(AllGatherMatmulTilingData, tilingData, tiling);
    TPipe pipe;

    GlobalTensor<half> aGm;
    aGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(a));
    GlobalTensor<half> bGm;
    bGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b));
    GlobalTensor<half> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y));
    GlobalTensor<half> gatherOutGm;
    gatherOutGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(gatherOut));

    if ASCEND_IS_AIC {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(AllGatherMatmulTilingData, allGatherCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const uint64_t n = tilingData.n;
        const uint64_t k = tilingData.k;
        const uint64_t tileRows = tilingData.tileRows;
        const uint64_t tileCount = tilingData.tileCount;
        const uint64_t tailRows = tilingData.tailRows;
        const uint64_t tailCount = tilingData.tailCount;
        const uint64_t m = tilingData.m;
        const uint64_t rank = hccl.GetRankId();
        const uint64_t ranks = hccl.GetRankDim();
        const uint64_t stride = m * k;
        const uint64_t done = tileCount * tileRows;
        const HcclHandle tiles = hccl.AllGather<true>(a, gatherOut, tileRows * k, HcclDataType::HCCL_DATA_TYPE_FP16,
            stride, static_cast<uint8_t>(tileCount));
        if (tiles == INVALID_HANDLE_ID) {
            return;
        }
        const bool hasTail = tailCount > 0;
        HcclHandle tail = INVALID_HANDLE_ID;
        if (hasTail) {
            tail = hccl.AllGather<true>(a + done * k * sizeof(half), gatherOut + done * k * sizeof(half), tailRows * k,
                HcclDataType::HCCL_DATA_TYPE_FP16, stride, static_cast<uint8_t>(tailCount));
            if (tail == INVALID_HANDLE_ID) {
                return;
            }
        }

        // The own rows need nobody.
        const uint64_t baseRows = tilingData.local.baseM;
        const uint64_t baseColumns = tilingData.local.baseN;
        const uint64_t down = (m + baseRows - 1) / baseRows;
        MatmulOp local;
        local.SetSubBlockIdx(0);
        local.Init(&tilingData.local, &pipe);
        for (uint64_t block = GetBlockIdx(); block < down * ((n + baseColumns - 1) / baseColumns);
            block += GetBlockNum()) {
            const uint64_t row = block % down * baseRows;
            const uint64_t column = block / down * baseColumns;
            local.SetOrgShape(Smaller<uint64_t>(baseRows, m - row), n, k);
            local.SetSingleShape(Smaller<uint64_t>(baseRows, m - row), Smaller<uint64_t>(baseColumns, n - column), k);
            local.SetTensorA(aGm[row * k]);
            local.SetTensorB(bGm[column]);
            while (local.Iterate()) {
                local.GetTensorC(yGm[rank * m * n + row * n + column]);
                SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
            }
        }
        local.End();

        // Those of the others, tile by tile.
        MatmulOp tile;
        tile.SetSubBlockIdx(0);
        tile.Init(&tilingData.tile, &pipe);
        for (uint64_t turn = 0; turn < tileCount; ++turn) {
            hccl.Wait(tiles);
            for (uint64_t other = 0; other < ranks; ++other) {
                if (other != rank) {
                    const uint64_t first = other * m + turn * tileRows;
                    const uint64_t baseRows2 = tilingData.tile.baseM;
                    const uint64_t baseColumns2 = tilingData.tile.baseN;
                    const uint64_t down2 = (tileRows + baseRows2 - 1) / baseRows2;
                    for (uint64_t block = GetBlockIdx(); block < down2 * ((n + baseColumns2 - 1) / baseColumns2);
                        block += GetBlockNum()) {
                        const uint64_t row = block % down2 * baseRows2;
                        const uint64_t column = block / down2 * baseColumns2;
                        tile.SetOrgShape(Smaller<uint64_t>(baseRows2, tileRows - row), n, k);
                        tile.SetSingleShape(Smaller<uint64_t>(baseRows2, tileRows - row),
                            Smaller<uint64_t>(baseColumns2, n - column), k);
                        tile.SetTensorA(gatherOutGm[first * k + row * k]);
                        tile.SetTensorB(bGm[column]);
                        while (tile.Iterate()) {
                            tile.GetTensorC(yGm[first * n + row * n + column]);
                            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
                        }
                    }
                }
            }
        }
        if (hasTail) {
            hccl.Wait(tail);
            for (uint64_t other = 0; other < ranks; ++other) {
                if (other != rank) {
                    const uint64_t first = other * m + done;
                    const uint64_t baseRows2 = tilingData.tile.baseM;
                    const uint64_t baseColumns2 = tilingData.tile.baseN;
                    const uint64_t down2 = (tailRows + baseRows2 - 1) / baseRows2;
                    for (uint64_t block = GetBlockIdx(); block < down2 * ((n + baseColumns2 - 1) / baseColumns2);
                        block += GetBlockNum()) {
                        const uint64_t row = block % down2 * baseRows2;
                        const uint64_t column = block / down2 * baseColumns2;
                        tile.SetOrgShape(Smaller<uint64_t>(baseRows2, tailRows - row), n, k);
                        tile.SetSingleShape(Smaller<uint64_t>(baseRows2, tailRows - row),
                            Smaller<uint64_t>(baseColumns2, n - column), k);
                        tile.SetTensorA(gatherOutGm[first * k + row * k]);
                        tile.SetTensorB(bGm[column]);
                        while (tile.Iterate()) {
                            tile.GetTensorC(yGm[first * n + row * n + column]);
                            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
                        }
                    }
                }
            }
        }
        tile.End();
        CrossCoreSetFlag<0, PIPE_FIX>(8); // no core waits any longer when the counters are cleared
        CrossCoreWaitFlag(8);
        hccl.Finalize();
    }
}
