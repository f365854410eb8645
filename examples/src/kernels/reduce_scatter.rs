//! The sum of what all ranks have, each rank a part of it, from inside of a kernel: at once, and in rounds.

use hccl::f16;
use hccl::kernel::*;

/// Sizes of [`reduce_scatter_custom()`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "ReduceScatterCustomTilingData")]
pub struct ReduceScatterTiling {
    /// Where the next one is.
    pub init: Mc2InitTiling,
    /// Group and algorithm.
    #[tiling(name = "reduceScatterCcTiling")]
    pub reduce_scatter: Mc2CcTiling,
    /// Elements that each rank gets.
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
        k.comment("Core 0 clears what the others look at while they wait, so nobody may still wait when it finalises.");
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Sizes of [`reduce_scatter_rounds()`]: each block is cut into tiles, of which the last is shorter.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "ReduceScatterRoundsTilingData")]
pub struct ReduceScatterRoundsTiling {
    /// Where the next one is.
    pub init: Mc2InitTiling,
    /// Group and algorithm.
    #[tiling(name = "reduceScatterCcTiling")]
    pub reduce_scatter: Mc2CcTiling,
    /// Tiles of `tile_len` elements.
    #[tiling(range = 1..=255)]
    pub tile_num: u64,
    /// Elements of such a tile.
    pub tile_len: u64,
    /// Tiles of `tail_len` elements.
    #[tiling(range = 1..=255)]
    pub tail_num: u64,
    /// Elements of such a tile.
    pub tail_len: u64,
}

/// The same as [`reduce_scatter_custom()`], tile by tile: the second task does what is left over by the first.
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
