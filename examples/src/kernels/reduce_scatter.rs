//! Kernels in which every rank gets its part of the sum over all ranks: in one task, or in rounds.

use hccl::f16;
use hccl::kernel::*;

/// Sizes of [`reduce_scatter_custom()`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "ReduceScatterCustomTilingData")]
pub struct ReduceScatterTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    #[tiling(name = "reduceScatterCcTiling")]
    pub reduce_scatter: Mc2CcTiling,
    /// The number of elements that each rank gets.
    pub recv_count: u64,
}

/// Rank `r` gets the sum of block `r` of all ranks.
#[kernel(mix = "aiv_1_0")]
pub fn reduce_scatter_custom(k: Kernel<ReduceScatterTiling>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.reduce_scatter);
        let task = hccl.reduce_scatter(x, y, t.recv_count, Sum).commit_all();
        hccl.wait(&task);
        k.comment("Core 0 clears the counters on which the other cores wait, so all waits must end before it finalises.");
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Sizes of [`reduce_scatter_rounds()`]: each block is cut into `tile_num` long tiles and `tail_num` short ones.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "ReduceScatterRoundsTilingData")]
pub struct ReduceScatterRoundsTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    #[tiling(name = "reduceScatterCcTiling")]
    pub reduce_scatter: Mc2CcTiling,
    /// The number of tiles of `tile_len` elements.
    #[tiling(range = 1..=255)]
    pub tile_num: u64,
    /// The number of elements of a long tile.
    pub tile_len: u64,
    /// The number of tiles of `tail_len` elements.
    #[tiling(range = 1..=255)]
    pub tail_num: u64,
    /// The number of elements of a short tile.
    pub tail_len: u64,
}

/// The same as [`reduce_scatter_custom()`], tile by tile. The first task has the long tiles, the second the short ones.
#[kernel(mix = "aiv_1_0")]
pub fn reduce_scatter_rounds(k: Kernel<ReduceScatterRoundsTiling>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.reduce_scatter);
        let done = t.tile_len * t.tile_num;
        let stride = done + t.tail_len * t.tail_num;
        let tiles = hccl
            .reduce_scatter(x, y, t.tile_len, Sum)
            .stride(stride)
            .repeat(t.tile_num)
            .commit_all();
        let tails = hccl
            .reduce_scatter(x.at(done), y.at(done), t.tail_len, Sum)
            .stride(stride)
            .repeat(t.tail_num)
            .commit_all();
        hccl.wait_all(&tiles);
        hccl.wait_all(&tails);
        k.sync_all_aiv();
        hccl.finalise();
    });
}
