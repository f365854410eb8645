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

    constexpr uint64_t recvCount = 300;
    constexpr uint64_t strideCount = 0;

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(ReduceScatterCustomTilingData, reduceScatterCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const HcclHandle handleId = hccl.ReduceScatter<true>(x, y, recvCount, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, strideCount);
        if (handleId == INVALID_HANDLE_ID) {
            return;
        }
        hccl.Wait(handleId);
        SyncAll<true>(); // no core waits any longer when the counters are cleared
        hccl.Finalize();
    }
}
