// Printed from the kernel all_to_all_custom in examples/src/kernels/all_to_all.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "all_to_all_custom_tiling.h"

using namespace AscendC;

// Block `j` of rank `i` becomes block `i` of rank `j`.
extern "C" __global__ __aicore__ void all_to_all_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(AllToAllCustomTilingData);
    GET_TILING_DATA_WITH_STRUCT(AllToAllCustomTilingData, tilingData, tiling);

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(AllToAllCustomTilingData, alltoallCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const HcclHandle task = hccl.AlltoAll<true>(x, y, tilingData.dataCount, HcclDataType::HCCL_DATA_TYPE_FP16);
        if (task == INVALID_HANDLE_ID) {
            return;
        }
        hccl.Wait(task);

        // Core 0 clears the counters on which the other cores wait, so all waits must end before it finalises.
        SyncAll<true>();
        hccl.Finalize();
    }
}
