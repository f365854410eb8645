// Printed from the kernel reduce_scatter_custom in src/kernels.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "reduce_scatter_custom_tiling.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void reduce_scatter_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(ReduceScatterCustomTilingData);
    GET_TILING_DATA_WITH_STRUCT(ReduceScatterCustomTilingData, tilingData, tiling);

    constexpr uint8_t tileNum = 2;
    constexpr uint64_t tileLen = 128;
    constexpr uint8_t tailNum = 1;
    constexpr uint64_t tailLen = 44;

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(ReduceScatterCustomTilingData, reduceScatterCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        constexpr uint64_t strideCount = tileLen * tileNum + tailLen * tailNum;

        // The tiles of one length.
        const HcclHandle tiles = hccl.ReduceScatter<true>(x, y, tileLen, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, strideCount, tileNum);
        if (tiles == INVALID_HANDLE_ID) {
            return;
        }

        // The tail behind them.
        const HcclHandle tail = hccl.ReduceScatter<true>(x + tileLen * tileNum * sizeof(half),
            y + tileLen * tileNum * sizeof(half), tailLen, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, strideCount, tailNum);
        if (tail == INVALID_HANDLE_ID) {
            return;
        }

        // One wait for each turn.
        for (uint8_t turn = 0; turn < tileNum; ++turn) {
            hccl.Wait(tiles);
        }
        hccl.Wait(tail);
        SyncAll<true>(); // no core waits any longer when the counters are cleared
        hccl.Finalize();
    }
}
