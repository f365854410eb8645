//! `TCubeTiling::for_shape`. The tests of the rules cover its results for many shapes.

use hccl::kernel::TCubeTiling;
use hccl::prelude::*;

#[test]
fn a_shape_is_divided_for_its_product_types_and_cores() {
    let large = |product| TCubeTiling::for_shape::<f16, f16, f32>(product, 4096, 4096, 1024);
    let a3 = large(Product::A3).bias::<f32>().build().unwrap();
    assert_eq!((a3.m, a3.n, a3.ka, a3.kb, a3.single_core_k), (4096, 4096, 1024, 1024, 1024));
    assert_eq!((a3.used_core_num, a3.is_bias), (24, 1));
    assert_eq!((a3.base_m, a3.base_n, a3.base_k, a3.db_l0c), (256, 128, 64, 1));
    assert_eq!((a3.step_ka, a3.step_kb, a3.depth_a1, a3.depth_b1), (4, 4, 8, 8));
    let new = large(Product::Ascend950).build().unwrap();
    assert_eq!((new.used_core_num, new.is_bias), (32, 0));
    assert_eq!(4 * new.base_m * new.base_n * new.db_l0c, 256 << 10);
    assert_eq!(large(Product::A2).cores(1).build().unwrap().used_core_num, 1);
    let bytes = TCubeTiling::for_shape::<i8, i8, i32>(Product::A2, 4096, 4096, 1024);
    assert_eq!(bytes.build().unwrap().base_k, 128);
}

#[test]
fn a_shape_that_cannot_be_divided_is_refused() {
    let half = |m, n, k| TCubeTiling::for_shape::<f16, f16, f16>(Product::A3, m, n, k);
    let told = |of: hccl::kernel::tiling::TCubeTilingBuilder| of.build().unwrap_err().to_string();
    assert_eq!(
        told(half(16, 0, 16)),
        "tiling setting `n` is 0, but a matrix has 1 to 2147483647 rows and columns"
    );
    assert_eq!(
        told(half(16, 16, 16).cores(25)),
        "tiling setting `cores` is 25, but the chip has 1 to 24 cube cores to use"
    );
    assert_eq!(
        told(half(16, 16, 16).bias::<i32>()),
        "tiling setting `types` is f16 * f16 + i32 -> f16, but cube cores multiply, for example, \
         `f16, f16, f16` with a bias of `f32`"
    );
}
