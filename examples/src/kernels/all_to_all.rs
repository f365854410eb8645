//! Every rank sends a block to every rank, from inside of a kernel: at once, and in rounds.

use hccl::f16;
use hccl::kernel::*;

/// Sizes of [`all_to_all_custom()`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "AllToAllCustomTilingData")]
pub struct AllToAllTiling {
    /// Where the next one is.
    pub init: Mc2InitTiling,
    /// Group and algorithm.
    #[tiling(name = "alltoallCcTiling")]
    pub all_to_all: Mc2CcTiling,
    /// Elements for each rank.
    pub data_count: u64,
}

/// Block `j` of rank `i` becomes block `i` of rank `j`.
#[kernel(mix = "aiv_1_0")]
pub fn all_to_all_custom(k: Kernel<AllToAllTiling>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.all_to_all);
        let task = hccl.all_to_all(x, y, t.data_count).commit_all();
        hccl.wait(&task);
        k.comment("Core 0 clears what the others look at while they wait, so nobody may still wait when it finalises.");
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Sizes of [`all_to_all_rounds()`]: each block is cut into tiles, of which the last is shorter.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "AllToAllRoundsTilingData")]
pub struct AllToAllRoundsTiling {
    /// Where the next one is.
    pub init: Mc2InitTiling,
    /// Group and algorithm.
    #[tiling(name = "alltoallCcTiling")]
    pub all_to_all: Mc2CcTiling,
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

/// The same as [`all_to_all_custom()`], tile by tile: the second task does what is left over by the first.
#[kernel(mix = "aiv_1_0")]
pub fn all_to_all_rounds(k: Kernel<AllToAllRoundsTiling>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.all_to_all);
        let done = t.tile_len * t.tile_num;
        let stride = done + t.tail_len * t.tail_num;
        let tiles =
            hccl.all_to_all(x, y, t.tile_len).stride(stride).repeat(t.tile_num).commit_all();
        let tails = hccl
            .all_to_all(x.at(done), y.at(done), t.tail_len)
            .stride(stride)
            .repeat(t.tail_num)
            .commit_all();
        hccl.wait_all(&tiles);
        hccl.wait_all(&tails);
        k.sync_all_aiv();
        hccl.finalise();
    });
}
