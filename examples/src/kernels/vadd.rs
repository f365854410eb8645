//! The sum of two vectors: a kernel that computes and does not communicate.

use hccl::f16;
use hccl::kernel::*;

/// Sizes of [`vadd()`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
pub struct VaddTiling {
    /// The number of all elements.
    pub total: u64,
    /// The number of elements that fit into one buffer of the local memory.
    pub tile: u64,
}

/// `z = x + y`. The cores take tiles in turn. A queue has two buffers, so that a tile is copied while another is added.
#[kernel(mix = "aiv_only")]
pub fn vadd(k: Kernel<VaddTiling>, x: Input<f16>, y: Input<f16>, z: Output<f16>) {
    let t = k.tiling();
    let in_x = k.queue::<f16>(Position::VecIn, 2, t.tile);
    let in_y = k.queue::<f16>(Position::VecIn, 2, t.tile);
    let out_z = k.queue::<f16>(Position::VecOut, 2, t.tile);
    let first = k.block_index().cast::<u64>() * t.tile;
    let step = k.block_count().cast::<u64>() * t.tile;
    k.range_by(first..t.total, step, |offset| {
        let count = t.tile.min(t.total - offset);

        let a = in_x.alloc();
        let b = in_y.alloc();
        k.copy_in(&a, x.at(offset), count);
        k.copy_in(&b, y.at(offset), count);
        in_x.enqueue(a);
        in_y.enqueue(b);

        let a = in_x.dequeue();
        let b = in_y.dequeue();
        let sum = out_z.alloc();
        k.add(&sum, &a, &b, count);
        in_x.free(a);
        in_y.free(b);
        out_z.enqueue(sum);

        let sum = out_z.dequeue();
        k.copy_out(z.at(offset), &sum, count);
        out_z.free(sum);
    });
}
