//! Multiplies the gathered rows of all ranks by one matrix. A rank multiplies its own tiles first, and every other tile when it has arrived.

use hccl::f16;
use hccl::kernel::*;

use super::share_product;

/// Sizes of [`all_gather_matmul()`]: each rank has `tile_num` tiles of `tile.m` rows, then one of `tail.m` rows. Together these are `local.m` rows.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
pub struct AllGatherMatmulTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    pub all_gather: Mc2CcTiling,
    /// The division of all rows of a rank among the cores.
    pub local: TCubeTiling,
    /// The division of a tile among the cores.
    pub tile: TCubeTiling,
    /// The division of the last tile among the cores.
    pub tail: TCubeTiling,
    /// The number of tiles before the last one.
    #[tiling(range = 1..=255)]
    pub tile_num: u64,
}

/// `y = gathered * b`. `gathered` has the `x` of all ranks, one below the other: `m` by `k` elements of each rank.
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

        k.comment("The rank does not wait for its own rows.");
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
