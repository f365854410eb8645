//! Sums one matrix product of each rank over the ranks. Tiles that are ready are reduced while the next tiles are computed.

use hccl::f16;
use hccl::kernel::*;

use super::share_product;

/// Sizes of [`matmul_all_reduce()`]: `tile_num` tiles of `tile.m` rows, then one of `tail.m` rows.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
pub struct MatmulAllReduceTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    pub all_reduce: Mc2CcTiling,
    /// The division of a tile among the cores.
    pub tile: TCubeTiling,
    /// The division of the last tile among the cores.
    pub tail: TCubeTiling,
    /// The number of tiles before the last one.
    #[tiling(range = 1..=255)]
    pub tile_num: u64,
}

/// `y = sum of a * b over the ranks`, with `a` of `m` by `k` and `b` of `k` by `n` elements.
///
/// Each tile of `y` is computed in place, committed, and reduced in place while the cores compute the next one.
#[kernel(mix = "aic_1_0")]
pub fn matmul_all_reduce(
    k: Kernel<MatmulAllReduceTiling>,
    a: Input<f16>,
    b: Input<f16>,
    y: Output<f16>,
) {
    /// The flag by which the cube cores wait for each other.
    const READY: u16 = 8;
    let t = k.tiling();
    k.on_aic(|| {
        let hccl = k.hccl(0).init().configure(&t.all_reduce);
        let rows = t.tile.m.cast::<u64>();
        let depth = t.tile.ka.cast::<u64>();
        let width = t.tile.n.cast::<u64>();
        let tail_row = rows * t.tile_num;
        let y_tail = y.at(tail_row * width);
        let tiles = hccl.all_reduce(y, y, rows * width, Sum).repeat(t.tile_num).prepare();
        let tail = hccl.all_reduce(y_tail, y_tail, t.tail.m.cast::<u64>() * width, Sum).prepare();

        let tile_product = k.matmul::<f16, f16, f16>(&t.tile);
        k.range(..t.tile_num, |tile| {
            let row = tile * rows;
            share_product(k, &t.tile, &tile_product, a.at(row * depth), b, y.at(row * width));
            k.comment("The server reads what all cores have written.");
            k.sync_all_aic(READY);
            hccl.commit(&tiles);
        });
        let tail_product = k.matmul::<f16, f16, f16>(&t.tail);
        share_product(k, &t.tail, &tail_product, a.at(tail_row * depth), b, y_tail);
        k.sync_all_aic(READY);
        hccl.commit(&tail);

        hccl.wait_all(&tiles);
        hccl.wait_all(&tail);
        k.sync_all_aic(READY);
        hccl.finalise();
    });
}
