// Printed from the kernel matmul_all_reduce in src/kernels.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "lib/matmul_intf.h"
#include "matmul_all_reduce_tiling.h"

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

extern "C" __global__ __aicore__ void matmul_all_reduce(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR workspace,
    GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
    REGISTER_TILING_DEFAULT(MatmulAllReduceTilingData);
    GET_TILING_DATA_WITH_STRUCT(MatmulAllReduceTilingData, tilingData, tiling);
    TPipe pipe;

    GlobalTensor<half> aGm;
    aGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(a));
    GlobalTensor<half> bGm;
    bGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b));
    GlobalTensor<half> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y));

    if ASCEND_IS_AIC {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(MatmulAllReduceTilingData, allReduceCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const uint64_t n = tilingData.n;
        const uint64_t k = tilingData.k;
        const uint64_t tileRows = tilingData.tileRows;
        const uint64_t tileCount = tilingData.tileCount;
        const uint64_t tailRows = tilingData.tailRows;
        const uint64_t tailCount = tilingData.tailCount;
        const uint64_t done = tileCount * tileRows;

        // Everything is prepared; each tile is committed when it is there.
        const HcclHandle tiles = hccl.AllReduce(y, y, tileRows * n, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, static_cast<uint8_t>(tileCount));
        if (tiles == INVALID_HANDLE_ID) {
            return;
        }
        const bool hasTail = tailCount > 0;
        HcclHandle tail = INVALID_HANDLE_ID;
        if (hasTail) {
            tail = hccl.AllReduce(y + done * n * sizeof(half), y + done * n * sizeof(half), tailRows * n,
                HcclDataType::HCCL_DATA_TYPE_FP16, HcclReduceOp::HCCL_REDUCE_SUM, static_cast<uint8_t>(tailCount));
            if (tail == INVALID_HANDLE_ID) {
                return;
            }
        }
        MatmulOp product;
        product.SetSubBlockIdx(0);
        product.Init(&tilingData.tile, &pipe);
        for (uint64_t turn = 0; turn < tileCount; ++turn) {
            const uint64_t baseRows = tilingData.tile.baseM;
            const uint64_t baseColumns = tilingData.tile.baseN;
            const uint64_t down = (tileRows + baseRows - 1) / baseRows;
            for (uint64_t block = GetBlockIdx(); block < down * ((n + baseColumns - 1) / baseColumns);
                block += GetBlockNum()) {
                const uint64_t row = block % down * baseRows;
                const uint64_t column = block / down * baseColumns;
                product.SetOrgShape(Smaller<uint64_t>(baseRows, tileRows - row), n, k);
                product.SetSingleShape(Smaller<uint64_t>(baseRows, tileRows - row),
                    Smaller<uint64_t>(baseColumns, n - column), k);
                product.SetTensorA(aGm[turn * tileRows * k + row * k]);
                product.SetTensorB(bGm[column]);
                while (product.Iterate()) {
                    product.GetTensorC(yGm[turn * tileRows * n + row * n + column]);
                    SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
                }
            }
            CrossCoreSetFlag<0, PIPE_FIX>(8); // tiles sends what all cores have written to y
            CrossCoreWaitFlag(8);
            hccl.Commit(tiles);
        }
        if (hasTail) {
            const uint64_t baseRows = tilingData.tile.baseM;
            const uint64_t baseColumns = tilingData.tile.baseN;
            const uint64_t down = (tailRows + baseRows - 1) / baseRows;
            for (uint64_t block = GetBlockIdx(); block < down * ((n + baseColumns - 1) / baseColumns);
                block += GetBlockNum()) {
                const uint64_t row = block % down * baseRows;
                const uint64_t column = block / down * baseColumns;
                product.SetOrgShape(Smaller<uint64_t>(baseRows, tailRows - row), n, k);
                product.SetSingleShape(Smaller<uint64_t>(baseRows, tailRows - row),
                    Smaller<uint64_t>(baseColumns, n - column), k);
                product.SetTensorA(aGm[done * k + row * k]);
                product.SetTensorB(bGm[column]);
                while (product.Iterate()) {
                    product.GetTensorC(yGm[done * n + row * n + column]);
                    SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
                }
            }
            CrossCoreSetFlag<0, PIPE_FIX>(8); // tail sends what all cores have written to y
            CrossCoreWaitFlag(8);
            hccl.Commit(tail);
        }
        product.End();
        for (uint64_t turn = 0; turn < tileCount; ++turn) {
            hccl.Wait(tiles);
        }
        if (hasTail) {
            hccl.Wait(tail);
        }
        CrossCoreSetFlag<0, PIPE_FIX>(8); // no core waits any longer when the counters are cleared
        CrossCoreWaitFlag(8);
        hccl.Finalize();
    }
}
