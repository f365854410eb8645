//! Kernels that communicate, from the smallest to fused operators.

pub mod all_gather_matmul;
pub mod all_to_all;
pub mod all_to_all_v;
pub mod matmul_all_reduce;
pub mod reduce_scatter;
pub mod vadd;
pub mod weighted_sum;

use hccl::f16;
use hccl::kernel::symbol::CubeMember;
use hccl::kernel::*;

/// Divides a product among the cube cores. They take the pieces of `c = a * b` in turn, down each column of pieces.
#[kernel(inline)]
fn share_product<T>(
    k: Kernel<T>,
    cube: &CubeMember,
    product: &Matmul<f16, f16, f16>,
    a: Input<f16>,
    b: Input<f16>,
    c: Output<f16>,
) {
    let depth = cube.ka.cast::<u64>();
    let width = cube.n.cast::<u64>();
    let down = cube.m.div_ceil(cube.single_core_m);
    let pieces = down * cube.n.div_ceil(cube.single_core_n);
    let first = k.block_index().cast::<i32>();
    let cores = k.block_count().cast::<i32>();
    k.range_by(first..pieces, cores, |piece| {
        let row = piece % down * cube.single_core_m;
        let column = piece / down * cube.single_core_n;
        let rows = cube.single_core_m.min(cube.m - row);
        let columns = cube.single_core_n.min(cube.n - column);
        let start = row.cast::<u64>();
        product.multiply(
            a.at(start * depth).matrix(depth),
            b.at(column).matrix(width),
            c.at(start * width).at(column).matrix(width),
            (rows, columns, depth),
        );
    });
}
