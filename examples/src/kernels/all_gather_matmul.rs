//! The product of what all ranks have together with one matrix: each tile is multiplied when it has arrived, the own ones first.

use hccl::f16;
use hccl::kernel::*;

use super::share_product;

/// Sizes of [`all_gather_matmul()`]: each rank has `tile_num` tiles of `tile.m` rows, then one of `tail.m` rows; `local.m` rows together.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
pub struct AllGatherMatmulTiling {
    /// Where the next one is.
    pub init: Mc2InitTiling,
    /// Group and algorithm.
    pub all_gather: Mc2CcTiling,
    /// How all rows of a rank are divided among the cores.
    pub local: TCubeTiling,
    /// How a tile is.
    pub tile: TCubeTiling,
    /// How the last one is.
    pub tail: TCubeTiling,
    /// Tiles before the last one.
    #[tiling(range = 1..=255)]
    pub tile_num: u64,
}

/// `y = gathered * b`, with `gathered` the `x` of all ranks, one below the other: `m` by `k` elements a rank.
#[kernel(mix = "aic_1_0")]
pub fn all_gather_matmul(
    k: Kernel<AllGatherMatmulTiling>,
    x: Input<f16>,
    b: Input<f16>,
    y: Output<f16>,
    gathered: Output<f16>,
) {
    let t = k.tiling();
    k.on_aic(|| {
        let hccl = k.hccl(0).init().configure(&t.all_gather);
        let rows = t.tile.m.cast::<u64>();
        let depth = t.tile.ka.cast::<u64>();
        let width = t.tile.n.cast::<u64>();
        let tail_row = rows * t.tile_num;
        let rank_rows = t.local.m.cast::<u64>();
        let stride = rank_rows * depth;
        let tiles = hccl
            .all_gather(x, gathered, rows * depth)
            .stride(stride)
            .repeat(t.tile_num)
            .commit_all();
        let done = tail_row * depth;
        let tail = hccl
            .all_gather(x.at(done), gathered.at(done), t.tail.m.cast::<u64>() * depth)
            .stride(stride)
            .commit_all();

        k.comment("What this rank has needs no waiting.");
        let rank = hccl.rank();
        let local_product = k.matmul::<f16, f16, f16>(&t.local);
        let own = y.at(rank.cast::<u64>() * rank_rows * width);
        share_product(k, &t.local, &local_product, x, b, own);

        let tile_product = k.matmul::<f16, f16, f16>(&t.tile);
        k.range(..t.tile_num, |tile| {
            hccl.wait(&tiles);
            k.range(..hccl.ranks(), |other| {
                k.when(other.ne(rank), || {
                    let row = other.cast::<u64>() * rank_rows + tile * rows;
                    let from = gathered.at(row * depth).as_input();
                    share_product(k, &t.tile, &tile_product, from, b, y.at(row * width));
                });
            });
        });
        let tail_product = k.matmul::<f16, f16, f16>(&t.tail);
        hccl.wait(&tail);
        k.range(..hccl.ranks(), |other| {
            k.when(other.ne(rank), || {
                let row = other.cast::<u64>() * rank_rows + tail_row;
                let from = gathered.at(row * depth).as_input();
                share_product(k, &t.tail, &tail_product, from, b, y.at(row * width));
            });
        });
        k.sync_all_aic(8);
        hccl.finalise();
    });
}
