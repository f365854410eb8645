// Printed from the kernel all_to_all_v_custom in examples/src/kernels/all_to_all_v.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "all_to_all_v_custom_tiling.h"

using namespace AscendC;

// `send_counts[j]` elements go to rank `j`.
extern "C" __global__ __aicore__ void all_to_all_v_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    REGISTER_TILING_DEFAULT(AllToAllVCustomTilingData);
    GET_TILING_DATA_WITH_STRUCT(AllToAllVCustomTilingData, tilingData, tiling);

    if ASCEND_IS_AIV {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(AllToAllVCustomTilingData, allToAllV)) != HCCL_SUCCESS) {
            return;
        }
        const HcclHandle task = hccl.AlltoAllV<true>(x, const_cast<uint64_t*>(tilingData.sendCounts),
            const_cast<uint64_t*>(tilingData.sendDispls), HcclDataType::HCCL_DATA_TYPE_FP16, y,
            const_cast<uint64_t*>(tilingData.recvCounts), const_cast<uint64_t*>(tilingData.recvDispls),
            HcclDataType::HCCL_DATA_TYPE_FP16);
        if (task == INVALID_HANDLE_ID) {
            return;
        }
        hccl.Wait(task);
        SyncAll<true>(); // no core waits any longer when the counters are cleared
        hccl.Finalize();
    }
}
