// Printed from the kernel vadd in examples/src/kernels/vadd.rs.
#include "kernel_operator.h"
#include "vadd_tiling.h"

using namespace AscendC;

template <typename T>
__aicore__ inline T Smaller(T a, T b)
{
    return b < a ? b : a;
}

// `z = x + y`. The cores take tiles in turn. A queue has two buffers, so that a tile is copied while another is added.
extern "C" __global__ __aicore__ void vadd(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(VaddTiling);
    GET_TILING_DATA_WITH_STRUCT(VaddTiling, tilingData, tiling);
    TPipe pipe;

    GlobalTensor<half> xGm;
    xGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x));
    GlobalTensor<half> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y));
    GlobalTensor<half> zGm;
    zGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(z));

    TQue<TPosition::VECIN, 1> inX;
    pipe.InitBuffer(inX, 2, tilingData.tile * sizeof(half));
    TQue<TPosition::VECIN, 1> inY;
    pipe.InitBuffer(inY, 2, tilingData.tile * sizeof(half));
    TQue<TPosition::VECOUT, 1> outZ;
    pipe.InitBuffer(outZ, 2, tilingData.tile * sizeof(half));
    const uint64_t first = GetBlockIdx() * tilingData.tile;
    const uint64_t step = GetBlockNum() * tilingData.tile;
    for (uint64_t offset = first; offset < tilingData.total; offset += step) {
        const uint64_t count = Smaller<uint64_t>(tilingData.tile, tilingData.total - offset);
        LocalTensor<half> a = inX.AllocTensor<half>();
        LocalTensor<half> b = inY.AllocTensor<half>();
        DataCopyPad(a, xGm[offset], DataCopyExtParams(1, count * sizeof(half), 0, 0, 0), DataCopyPadExtParams<half>());
        DataCopyPad(b, yGm[offset], DataCopyExtParams(1, count * sizeof(half), 0, 0, 0), DataCopyPadExtParams<half>());
        inX.EnQue(a);
        inY.EnQue(b);
        a = inX.DeQue<half>();
        b = inY.DeQue<half>();
        LocalTensor<half> sum = outZ.AllocTensor<half>();
        Add(sum, a, b, count);
        inX.FreeTensor(a);
        inY.FreeTensor(b);
        outZ.EnQue(sum);
        sum = outZ.DeQue<half>();
        DataCopyPad(zGm[offset], sum, DataCopyExtParams(1, count * sizeof(half), 0, 0, 0));
        outZ.FreeTensor(sum);
    }
}
