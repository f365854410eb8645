// Printed from the kernel alltoall_custom in src/kernels.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "alltoall_custom_tiling.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void alltoall_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(AllToAllCustomTilingData);
    GET_TILING_DATA_WITH_STRUCT(AllToAllCustomTilingData, tilingData, tiling);

    constexpr uint64_t dataCount = 128;

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(AllToAllCustomTilingData, alltoallCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const HcclHandle handleId = hccl.AlltoAll<true>(x, y, dataCount, HcclDataType::HCCL_DATA_TYPE_FP16);
        if (handleId == INVALID_HANDLE_ID) {
            return;
        }
        hccl.Wait(handleId);

        // No core may be waiting any more when core 0 finalises.
        SyncAll<true>();
        hccl.Finalize();
    }
}
