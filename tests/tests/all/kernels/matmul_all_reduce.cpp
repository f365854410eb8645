// Printed from the kernel matmul_all_reduce in examples/src/kernels/matmul_all_reduce.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "lib/matmul_intf.h"
#include "matmul_all_reduce_tiling.h"

using namespace AscendC;

using AType = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using BType = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using CType = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using MatmulOp = MatmulImpl<AType, BType, CType, CType, CFG_MDL>;

template <typename T>
__aicore__ inline T Smaller(T a, T b)
{
    return b < a ? b : a;
}

// The second unit of the event waits for all that the first one has been given.
template <HardEvent event>
__aicore__ inline void SyncUnits(TPipe& pipe)
{
    const event_t id = static_cast<event_t>(pipe.FetchEventID(event));
    SetFlag<event>(id);
    WaitFlag<event>(id);
}

// Divides a product among the cube cores. They take the pieces of `c = a * b` in turn, down each column of pieces.
__aicore__ inline void MatmulAllReduceShareProduct(const MatmulAllReduceTiling& tilingData, MatmulOp& tileProduct,
    const uint64_t width, const uint64_t depth, GlobalTensor<half>& aGm, const uint64_t row, GlobalTensor<half>& bGm,
    GlobalTensor<half>& yGm, TPipe& pipe)
{
    const int32_t down = (tilingData.tile.M + tilingData.tile.singleCoreM - 1) / tilingData.tile.singleCoreM;
    const int32_t pieces = down * ((tilingData.tile.N + tilingData.tile.singleCoreN - 1) / tilingData.tile.singleCoreN);
    const int32_t first = static_cast<int32_t>(GetBlockIdx());
    const int32_t cores = static_cast<int32_t>(GetBlockNum());
    for (int32_t piece = first; piece < pieces; piece += cores) {
        const int32_t row2 = piece % down * tilingData.tile.singleCoreM;
        const int32_t column = piece / down * tilingData.tile.singleCoreN;
        const int32_t rows2 = Smaller<int32_t>(tilingData.tile.singleCoreM, tilingData.tile.M - row2);
        const int32_t columns = Smaller<int32_t>(tilingData.tile.singleCoreN, tilingData.tile.N - column);
        const uint64_t start = row2;
        tileProduct.SetOrgShape(rows2, width, depth);
        tileProduct.SetSingleShape(rows2, columns, depth);
        tileProduct.SetTensorA(aGm[row * depth + start * depth]);
        tileProduct.SetTensorB(bGm[column]);
        while (tileProduct.Iterate()) {
            tileProduct.GetTensorC(yGm[row * width + start * width + column]);
            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
        }
    }
}

// Divides a product among the cube cores. They take the pieces of `c = a * b` in turn, down each column of pieces.
__aicore__ inline void MatmulAllReduceShareProduct2(const MatmulAllReduceTiling& tilingData, MatmulOp& tailProduct,
    GlobalTensor<half>& aGm, const uint64_t tailRow, const uint64_t depth, GlobalTensor<half>& bGm,
    GlobalTensor<half>& yGm, const uint64_t width, TPipe& pipe)
{
    const uint64_t depth2 = tilingData.tail.Ka;
    const uint64_t width2 = tilingData.tail.N;
    const int32_t down = (tilingData.tail.M + tilingData.tail.singleCoreM - 1) / tilingData.tail.singleCoreM;
    const int32_t pieces = down * ((tilingData.tail.N + tilingData.tail.singleCoreN - 1) / tilingData.tail.singleCoreN);
    const int32_t first = static_cast<int32_t>(GetBlockIdx());
    const int32_t cores = static_cast<int32_t>(GetBlockNum());
    for (int32_t piece = first; piece < pieces; piece += cores) {
        const int32_t row = piece % down * tilingData.tail.singleCoreM;
        const int32_t column = piece / down * tilingData.tail.singleCoreN;
        const int32_t rows2 = Smaller<int32_t>(tilingData.tail.singleCoreM, tilingData.tail.M - row);
        const int32_t columns = Smaller<int32_t>(tilingData.tail.singleCoreN, tilingData.tail.N - column);
        const uint64_t start = row;
        tailProduct.SetOrgShape(rows2, width2, depth2);
        tailProduct.SetSingleShape(rows2, columns, depth2);
        tailProduct.SetTensorA(aGm[tailRow * depth + start * depth2]);
        tailProduct.SetTensorB(bGm[column]);
        while (tailProduct.Iterate()) {
            tailProduct.GetTensorC(yGm[tailRow * width + start * width2 + column]);
            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
        }
    }
}

// `y = sum of a * b over the ranks`, with `a` of `m` by `k` and `b` of `k` by `n` elements.
//
// Each tile of `y` is computed in place, committed, and reduced in place while the cores compute the next one.
extern "C" __global__ __aicore__ void matmul_all_reduce(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR workspace,
    GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
    REGISTER_TILING_DEFAULT(MatmulAllReduceTiling);
    GET_TILING_DATA_WITH_STRUCT(MatmulAllReduceTiling, tilingData, tiling);
    TPipe pipe;

    GlobalTensor<half> aGm;
    aGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(a));
    GlobalTensor<half> bGm;
    bGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b));
    GlobalTensor<half> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y));

    if ASCEND_IS_AIC {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(MatmulAllReduceTiling, allReduce)) != HCCL_SUCCESS) {
            return;
        }
        const uint64_t rows = tilingData.tile.M;
        const uint64_t depth = tilingData.tile.Ka;
        const uint64_t width = tilingData.tile.N;
        const uint64_t tailRow = rows * tilingData.tileNum;
        const HcclHandle tiles = hccl.AllReduce(y, y, rows * width, HcclDataType::HCCL_DATA_TYPE_FP16,
            HcclReduceOp::HCCL_REDUCE_SUM, tilingData.tileNum);
        if (tiles == INVALID_HANDLE_ID) {
            return;
        }
        const HcclHandle tail = hccl.AllReduce(y + tailRow * width * sizeof(half), y + tailRow * width * sizeof(half),
            tilingData.tail.M * width, HcclDataType::HCCL_DATA_TYPE_FP16, HcclReduceOp::HCCL_REDUCE_SUM);
        if (tail == INVALID_HANDLE_ID) {
            return;
        }
        MatmulOp tileProduct;
        tileProduct.SetSubBlockIdx(0);
        tileProduct.Init(&tilingData.tile, &pipe);
        for (uint64_t tile = 0; tile < tilingData.tileNum; ++tile) {
            const uint64_t row = tile * rows;
            MatmulAllReduceShareProduct(tilingData, tileProduct, width, depth, aGm, row, bGm, yGm, pipe);

            // The server reads what all cores have written.
            CrossCoreSetFlag<0, PIPE_FIX>(8);
            CrossCoreWaitFlag(8);
            hccl.Commit(tiles);
        }
        tileProduct.End();
        MatmulOp tailProduct;
        tailProduct.SetSubBlockIdx(0);
        tailProduct.Init(&tilingData.tail, &pipe);
        MatmulAllReduceShareProduct2(tilingData, tailProduct, aGm, tailRow, depth, bGm, yGm, width, pipe);
        tailProduct.End();
        CrossCoreSetFlag<0, PIPE_FIX>(8); // tail sends what all cores have written to y
        CrossCoreWaitFlag(8);
        hccl.Commit(tail);
        for (uint64_t i = 0; i < tilingData.tileNum; ++i) {
            hccl.Wait(tiles);
        }
        hccl.Wait(tail);
        CrossCoreSetFlag<0, PIPE_FIX>(8); // no core waits any longer when the counters are cleared
        CrossCoreWaitFlag(8);
        hccl.Finalize();
    }
}
