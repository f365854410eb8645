// Printed from the kernel reduce_scatter_rounds in examples/src/kernels/reduce_scatter.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "reduce_scatter_rounds_tiling.h"

using namespace AscendC;

// The same as `reduce_scatter_custom()`, tile by tile. The first task has the long tiles, the second the short ones.
extern "C" __global__ __aicore__ void reduce_scatter_rounds(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(ReduceScatterRoundsTilingData);
    GET_TILING_DATA_WITH_STRUCT(ReduceScatterRoundsTilingData, tilingData, tiling);

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(ReduceScatterRoundsTilingData, reduceScatterCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const uint64_t done = tilingData.tileLen * tilingData.tileNum;
        const uint64_t stride = done + tilingData.tailLen * tilingData.tailNum;
        const HcclHandle tiles = hccl.ReduceScatter<true>(x, y, tilingData.tileLen, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, stride, tilingData.tileNum);
        if (tiles == INVALID_HANDLE_ID) {
            return;
        }
        const HcclHandle tails = hccl.ReduceScatter<true>(x + done * sizeof(half), y + done * sizeof(half),
            tilingData.tailLen, HcclDataType::HCCL_DATA_TYPE_FP16, HcclReduceOp::HCCL_REDUCE_SUM, stride,
            tilingData.tailNum);
        if (tails == INVALID_HANDLE_ID) {
            return;
        }
        for (uint64_t i = 0; i < tilingData.tileNum; ++i) {
            hccl.Wait(tiles);
        }
        for (uint64_t i = 0; i < tilingData.tailNum; ++i) {
            hccl.Wait(tails);
        }
        SyncAll<true>(); // no core waits any longer when the counters are cleared
        hccl.Finalize();
    }
}
