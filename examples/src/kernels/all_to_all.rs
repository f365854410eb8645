//! Kernels in which every rank sends a block to every rank: in one task, or in rounds.

use hccl::f16;
use hccl::kernel::*;

/// Sizes of [`all_to_all_custom()`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "AllToAllCustomTilingData")]
pub struct AllToAllTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    #[tiling(name = "alltoallCcTiling")]
    pub all_to_all: Mc2CcTiling,
    /// The number of elements for each rank.
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
        k.comment("Core 0 clears the counters on which the other cores wait, so all waits must end before it finalises.");
        k.sync_all_aiv();
        hccl.finalise();
    });
}

/// Sizes of [`all_to_all_rounds()`]: each block is cut into `tile_num` long tiles and `tail_num` short ones.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "AllToAllRoundsTilingData")]
pub struct AllToAllRoundsTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    #[tiling(name = "alltoallCcTiling")]
    pub all_to_all: Mc2CcTiling,
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

/// The same as [`all_to_all_custom()`], tile by tile. The first task has the long tiles, the second the short ones.
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
