// Printed from the kernel vadd in src/kernels.rs.
#include "kernel_operator.h"
#include "vadd_tiling.h"

using namespace AscendC;

template <typename T>
__aicore__ inline T Smaller(T a, T b)
{
    return b < a ? b : a;
}

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

    const uint64_t total = tilingData.total;
    const uint64_t tile = tilingData.tile;
    TQue<TPosition::VECIN, 1> inX;
    pipe.InitBuffer(inX, 2, tile * sizeof(half));
    TQue<TPosition::VECIN, 1> inY;
    pipe.InitBuffer(inY, 2, tile * sizeof(half));
    TQue<TPosition::VECOUT, 1> outZ;
    pipe.InitBuffer(outZ, 2, tile * sizeof(half));
    for (uint64_t start = GetBlockIdx() * tile; start < total; start += GetBlockNum() * tile) {
        const uint64_t length = Smaller<uint64_t>(total - start, tile);
        LocalTensor<half> xPart = inX.AllocTensor<half>();
        DataCopyPad(xPart, xGm[start], DataCopyExtParams(1, length * sizeof(half), 0, 0, 0),
            DataCopyPadExtParams<half>());
        inX.EnQue(xPart);
        LocalTensor<half> yPart = inY.AllocTensor<half>();
        DataCopyPad(yPart, yGm[start], DataCopyExtParams(1, length * sizeof(half), 0, 0, 0),
            DataCopyPadExtParams<half>());
        inY.EnQue(yPart);
        LocalTensor<half> a = inX.DeQue<half>();
        LocalTensor<half> c = inY.DeQue<half>();
        LocalTensor<half> sum = outZ.AllocTensor<half>();
        Add(sum, a, c, length);
        outZ.EnQue(sum);
        inX.FreeTensor(a);
        inY.FreeTensor(c);
        LocalTensor<half> done = outZ.DeQue<half>();
        DataCopyPad(zGm[start], done, DataCopyExtParams(1, length * sizeof(half), 0, 0, 0));
        outZ.FreeTensor(done);
    }
}
