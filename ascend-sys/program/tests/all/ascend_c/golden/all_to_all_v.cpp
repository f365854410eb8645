// Printed from the kernel alltoallv_custom in src/kernels.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "alltoallv_custom_tiling.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void alltoallv_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(AllToAllVCustomTilingData);
    GET_TILING_DATA_WITH_STRUCT(AllToAllVCustomTilingData, tilingData, tiling);

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(AllToAllVCustomTilingData, alltoallvCcTiling)) != HCCL_SUCCESS) {
            return;
        }
        const HcclHandle blocks = hccl.AlltoAllV<true>(x, const_cast<uint64_t*>(tilingData.sendCounts),
            const_cast<uint64_t*>(tilingData.sdispls), HcclDataType::HCCL_DATA_TYPE_FP16, y,
            const_cast<uint64_t*>(tilingData.recvCounts), const_cast<uint64_t*>(tilingData.rdispls),
            HcclDataType::HCCL_DATA_TYPE_FP16);
        if (blocks == INVALID_HANDLE_ID) {
            return;
        }
        hccl.Wait(blocks);
        SyncAll<true>(); // no core waits any longer when the counters are cleared
        hccl.Finalize();
    }
}
