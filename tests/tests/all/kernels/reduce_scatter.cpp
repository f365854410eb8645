// Printed from the kernel reduce_scatter_custom in examples/src/kernels/reduce_scatter.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "reduce_scatter_custom_tiling.h"

using namespace AscendC;

// Rank `r` gets the sum of block `r` of all ranks.
extern "C" __global__ __aicore__ void reduce_scatter_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(ReduceScatterCustomTilingData);
    GET_TILING_DATA_WITH_STRUCT(ReduceScatterCustomTilingData, tilingData, tiling);

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(ReduceScatterCustomTilingData, reduceScatterCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const HcclHandle task = hccl.ReduceScatter<true>(x, y, tilingData.recvCount, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, 0);
        if (task == INVALID_HANDLE_ID) {
            return;
        }
        hccl.Wait(task);

        // Core 0 clears the counters on which the other cores wait, so all waits must end before it finalises.
        SyncAll<true>();
        hccl.Finalize();
    }
}
