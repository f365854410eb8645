//! Tests that the example learns to read, and that divided steps equal the steps of one rank.

use hccl_tensor_digits::{EPOCHS, furthest, split};

#[path = "../../examples/digits/train.rs"]
mod train;

#[test]
fn digits_are_read_on_1_2_and_4_ranks_with_one_curve_however_the_model_is_divided() {
    let split = split().unwrap();
    let mut curves = Vec::new();
    for ranks in [1, 2, 4] {
        curves.push(train::data_parallel(ranks, &split).unwrap());
        curves.push(train::tensor_parallel(ranks, &split).unwrap());
    }
    for curve in &curves {
        assert_eq!(curve.losses.len(), EPOCHS);
        let (way, ranks, accuracy) = (curve.way, curve.ranks, curve.accuracy);
        assert!(accuracy >= 0.97, "{way} on {ranks} ranks reads {accuracy} of the rows held out");
    }
    // The sums of f32 are made in another order, so they are rounded differently.
    assert!(furthest(&curves) <= 1e-4, "the curves differ by {}", furthest(&curves));
}
