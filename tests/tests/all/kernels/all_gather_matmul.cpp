// Printed from the kernel all_gather_matmul in examples/src/kernels/all_gather_matmul.rs.
#include "kernel_operator.h"
#include "lib/hccl/hccl.h"
#include "lib/matmul_intf.h"
#include "all_gather_matmul_tiling.h"

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
__aicore__ inline void AllGatherMatmulShareProduct(const AllGatherMatmulTiling& tilingData, MatmulOp& localProduct,
    GlobalTensor<half>& xGm, GlobalTensor<half>& bGm, GlobalTensor<half>& yGm, const uint32_t rank,
    const uint64_t rankRows, const uint64_t width, TPipe& pipe)
{
    const uint64_t depth = tilingData.local.Ka;
    const uint64_t width2 = tilingData.local.N;
    const int32_t down = (tilingData.local.M + tilingData.local.singleCoreM - 1) / tilingData.local.singleCoreM;
    const int32_t pieces = down
        * ((tilingData.local.N + tilingData.local.singleCoreN - 1) / tilingData.local.singleCoreN);
    const int32_t first = static_cast<int32_t>(GetBlockIdx());
    const int32_t cores = static_cast<int32_t>(GetBlockNum());
    for (int32_t piece = first; piece < pieces; piece += cores) {
        const int32_t row = piece % down * tilingData.local.singleCoreM;
        const int32_t column = piece / down * tilingData.local.singleCoreN;
        const int32_t rows2 = Smaller<int32_t>(tilingData.local.singleCoreM, tilingData.local.M - row);
        const int32_t columns = Smaller<int32_t>(tilingData.local.singleCoreN, tilingData.local.N - column);
        const uint64_t start = row;
        localProduct.SetOrgShape(rows2, width2, depth);
        localProduct.SetSingleShape(rows2, columns, depth);
        localProduct.SetTensorA(xGm[start * depth]);
        localProduct.SetTensorB(bGm[column]);
        while (localProduct.Iterate()) {
            localProduct.GetTensorC(yGm[rank * rankRows * width + start * width2 + column]);
            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
        }
    }
}

// Divides a product among the cube cores. They take the pieces of `c = a * b` in turn, down each column of pieces.
__aicore__ inline void AllGatherMatmulShareProduct2(const AllGatherMatmulTiling& tilingData, MatmulOp& tileProduct,
    const uint64_t width, const uint64_t depth, GlobalTensor<half>& gatheredGm, const uint64_t row,
    GlobalTensor<half>& bGm, GlobalTensor<half>& yGm, TPipe& pipe)
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
        tileProduct.SetTensorA(gatheredGm[row * depth + start * depth]);
        tileProduct.SetTensorB(bGm[column]);
        while (tileProduct.Iterate()) {
            tileProduct.GetTensorC(yGm[row * width + start * width + column]);
            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
        }
    }
}

// Divides a product among the cube cores. They take the pieces of `c = a * b` in turn, down each column of pieces.
__aicore__ inline void AllGatherMatmulShareProduct3(const AllGatherMatmulTiling& tilingData, MatmulOp& tailProduct,
    GlobalTensor<half>& gatheredGm, const uint64_t row, const uint64_t depth, GlobalTensor<half>& bGm,
    GlobalTensor<half>& yGm, const uint64_t width, TPipe& pipe)
{
    const uint64_t depth2 = tilingData.tail.Ka;
    const uint64_t width2 = tilingData.tail.N;
    const int32_t down = (tilingData.tail.M + tilingData.tail.singleCoreM - 1) / tilingData.tail.singleCoreM;
    const int32_t pieces = down * ((tilingData.tail.N + tilingData.tail.singleCoreN - 1) / tilingData.tail.singleCoreN);
    const int32_t first = static_cast<int32_t>(GetBlockIdx());
    const int32_t cores = static_cast<int32_t>(GetBlockNum());
    for (int32_t piece = first; piece < pieces; piece += cores) {
        const int32_t row2 = piece % down * tilingData.tail.singleCoreM;
        const int32_t column = piece / down * tilingData.tail.singleCoreN;
        const int32_t rows2 = Smaller<int32_t>(tilingData.tail.singleCoreM, tilingData.tail.M - row2);
        const int32_t columns = Smaller<int32_t>(tilingData.tail.singleCoreN, tilingData.tail.N - column);
        const uint64_t start = row2;
        tailProduct.SetOrgShape(rows2, width2, depth2);
        tailProduct.SetSingleShape(rows2, columns, depth2);
        tailProduct.SetTensorA(gatheredGm[row * depth + start * depth2]);
        tailProduct.SetTensorB(bGm[column]);
        while (tailProduct.Iterate()) {
            tailProduct.GetTensorC(yGm[row * width + start * width2 + column]);
            SyncUnits<HardEvent::FIX_M>(pipe); // the next block overwrites what FIX reads
        }
    }
}

// `y = gathered * b`. `gathered` has the `x` of all ranks, one below the other: `m` by `k` elements of each rank.
extern "C" __global__ __aicore__ void all_gather_matmul(GM_ADDR x, GM_ADDR b, GM_ADDR y, GM_ADDR gathered,
    GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
    REGISTER_TILING_DEFAULT(AllGatherMatmulTiling);
    GET_TILING_DATA_WITH_STRUCT(AllGatherMatmulTiling, tilingData, tiling);
    TPipe pipe;

    GlobalTensor<half> xGm;
    xGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x));
    GlobalTensor<half> bGm;
    bGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b));
    GlobalTensor<half> yGm;
    yGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y));
    GlobalTensor<half> gatheredGm;
    gatheredGm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(gathered));

    if ASCEND_IS_AIC {
        Hccl hccl;
        hccl.InitV2(GetHcclContext<0>(), &tilingData);
        if (hccl.SetCcTilingV2(offsetof(AllGatherMatmulTiling, allGather)) != HCCL_SUCCESS) {
            return;
        }
        const uint64_t rows = tilingData.tile.M;
        const uint64_t depth = tilingData.tile.Ka;
        const uint64_t width = tilingData.tile.N;
        const uint64_t tailRow = rows * tilingData.tileNum;
        const uint64_t rankRows = tilingData.local.M;
        const uint64_t stride = rankRows * depth;
        const HcclHandle tiles = hccl.AllGather<true>(x, gathered, rows * depth, HcclDataType::HCCL_DATA_TYPE_FP16,
            stride, tilingData.tileNum);
        if (tiles == INVALID_HANDLE_ID) {
            return;
        }
        const uint64_t done = tailRow * depth;
        const HcclHandle tail = hccl.AllGather<true>(x + done * sizeof(half), gathered + done * sizeof(half),
            tilingData.tail.M * depth, HcclDataType::HCCL_DATA_TYPE_FP16, stride);
        if (tail == INVALID_HANDLE_ID) {
            return;
        }

        // The rank does not wait for its own rows.
        const uint32_t rank = hccl.GetRankId();
        MatmulOp localProduct;
        localProduct.SetSubBlockIdx(0);
        localProduct.Init(&tilingData.local, &pipe);
        AllGatherMatmulShareProduct(tilingData, localProduct, xGm, bGm, yGm, rank, rankRows, width, pipe);
        localProduct.End();
        MatmulOp tileProduct;
        tileProduct.SetSubBlockIdx(0);
        tileProduct.Init(&tilingData.tile, &pipe);
        for (uint64_t tile = 0; tile < tilingData.tileNum; ++tile) {
            hccl.Wait(tiles);
            for (uint32_t other = 0; other < hccl.GetRankDim(); ++other) {
                if (other != rank) {
                    const uint64_t row = other * rankRows + tile * rows;
                    AllGatherMatmulShareProduct2(tilingData, tileProduct, width, depth, gatheredGm, row, bGm, yGm,
                        pipe);
                }
            }
        }
        tileProduct.End();
        hccl.Wait(tail);
        MatmulOp tailProduct;
        tailProduct.SetSubBlockIdx(0);
        tailProduct.Init(&tilingData.tail, &pipe);
        for (uint32_t other = 0; other < hccl.GetRankDim(); ++other) {
            if (other != rank) {
                const uint64_t row = other * rankRows + tailRow;
                AllGatherMatmulShareProduct3(tilingData, tailProduct, gatheredGm, row, depth, bGm, yGm, width, pipe);
            }
        }
        tailProduct.End();
        CrossCoreSetFlag<0, PIPE_FIX>(8); // no core waits any longer when the counters are cleared
        CrossCoreWaitFlag(8);
        hccl.Finalize();
    }
}
