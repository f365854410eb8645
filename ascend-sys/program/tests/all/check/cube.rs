//! Tests of the rules of a `TCubeTiling`: for each rule, a launch whose tiling breaks it, and its
//! repaired twin.

use ascend_program::check::Product;
use ascend_program::cube::{Field, Field::*};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;
use ascend_program_testing::build::tiling_layout;

use crate::check::harness::{Kernel, rules};

/// Adds `c = a * b` with these rows, columns and this depth, on one core. `numbers` replaces some
/// fields of a suitable tiling.
fn product(k: &mut Kernel, number: Number, size: [usize; 3], numbers: &[(Field, i32)]) -> MatmulId {
    product_of(k, number, None, size, numbers)
}

fn product_of(
    k: &mut Kernel,
    number: Number,
    bias: Option<Number>,
    size: [usize; 3],
    numbers: &[(Field, i32)],
) -> MatmulId {
    let names = ["x", "w", "y"];
    let [x, w, y] = names.map(|name| match name {
        "y" => k.output(name, number),
        _ => k.input(name, number),
    });
    let bias_at = bias.map(|number| k.input("bias", number));
    k.builder.program.tiling = Some(tiling_layout(0));
    k.blocks = 1;
    k.put_cube(64, number, bias, size);
    put(k, numbers);
    let matmul = k.matmul("mm", number, bias, 64);
    let [rows, columns, depth] = size.map(|side| k.n(side as u64));
    let [a, b, c] = [x, w, y].map(|base| k.at(base, 0));
    let bias = bias_at.map(|base| k.at(base, 0));
    let pitches = [depth, columns, columns];
    let multiply = Multiply { matmul, a, b, c, bias, rows, columns, depth, pitches };
    k.on(Core::Aic, |b| b.step(Step::Matmul(multiply)));
    matmul
}

fn put(k: &mut Kernel, numbers: &[(Field, i32)]) {
    for (field, number) in numbers {
        k.put(64 + 4 * *field as usize, number.cast_unsigned());
    }
}

/// Adds a product of half floats whose tiling has this number in this field.
fn one(k: &mut Kernel, size: [usize; 3], field: Field, number: i32) {
    product(k, Number::F16, size, &[(field, number)]);
}

/// Makes only the right matrix a transpose.
fn only_b_is_transposed(k: &mut Kernel, matmul: MatmulId) {
    k.builder.program.matmuls[matmul.0 as usize].what.transposed_b = true;
}

rules! {
    a_tiling_is_filled, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], BaseM, if broken { 0 } else { 64 });
    };

    a_step_is_at_least_1, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], StepKb, if broken { -1 } else { 1 });
    };

    rows_of_a_block_are_a_multiple_of_16, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], BaseM, if broken { 24 } else { 32 });
    };

    columns_of_a_block_are_a_multiple_of_16, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], BaseN, if broken { 40 } else { 48 });
    };

    the_depth_of_a_block_is_a_multiple_of_16, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], BaseK, if broken { 40 } else { 48 });
    };

    floats_are_8_deep_where_only_b_is_transposed, "cube-tiling", MixAic10, |k, broken| {
        let number = if broken { 12 } else { 8 };
        let numbers = [(BaseK, number), (StepKa, 4), (StepKb, 4), (DepthA1, 4), (DepthB1, 4)];
        let matmul = product(k, Number::F32, [32, 32, 32], &numbers);
        only_b_is_transposed(k, matmul);
    };

    floats_are_16_deep_where_b_is_not_transposed, "cube-tiling", MixAic10, |k, broken| {
        let number = if broken { 8 } else { 16 };
        let numbers = [(BaseK, number), (StepKa, 2), (StepKb, 2), (DepthA1, 2), (DepthB1, 2)];
        product(k, Number::F32, [32, 32, 32], &numbers);
    };

    a_block_of_a_is_held_once_or_twice, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], DbL0A, if broken { 3 } else { 1 });
    };

    a_block_of_c_is_held_once_or_twice, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], DbL0C, if broken { 0 } else { 1 });
    };

    blocks_of_a_fit_in_l0a, "cube-tiling", MixAic10, |k, broken| {
        one(k, [128, 16, 512], BaseK, if broken { 144 } else { 128 });
    };

    blocks_of_b_fit_in_l0b, "cube-tiling", MixAic10, |k, broken| {
        // With a depth of 48, a block is too large for two buffers but fits one.
        one(k, [16, 512, 32], DbL0B, if broken { 2 } else { 1 });
        put(k, &[(BaseK, 48)]);
    };

    blocks_of_c_fit_in_l0c, "cube-tiling", MixAic10, |k, broken| {
        one(k, [128, 256, 64], DbL0C, if broken { 2 } else { 1 });
    };

    l0c_is_larger_on_ascend_950, "cube-tiling", MixAic10, |k, broken| {
        k.setting.product = if broken { Product::A2 } else { Product::Ascend950 };
        one(k, [128, 256, 64], DbL0C, 2);
    };

    blocks_of_a_in_l1_are_those_of_a_step_once_or_twice, "cube-tiling", MixAic10, |k, broken| {
        let blocks = if broken { 3 } else { 2 };
        let numbers = [(BaseK, 16), (StepKa, 2), (StepKb, 2), (DepthA1, blocks), (DepthB1, 4)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    blocks_of_b_in_l1_are_those_of_a_step_once_or_twice, "cube-tiling", MixAic10, |k, broken| {
        let blocks = if broken { 1 } else { 4 };
        let numbers = [(BaseK, 16), (StepKa, 2), (StepKb, 2), (DepthA1, 2), (DepthB1, blocks)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    blocks_fit_in_l1, "cube-tiling", MixAic10, |k, broken| {
        // A step takes 32 KiB, and the blocks of B take 64 KiB.
        let blocks = if broken { 30 } else { 28 };
        let numbers = [(DepthA1, blocks), (StepKa, blocks / 2), (StepKb, 1), (DepthB1, 2)];
        product(k, Number::F16, [128, 256, 64], &numbers);
    };

    the_bias_is_in_l1_too, "cube-tiling", MixAic10, |k, broken| {
        let bias = broken.then_some(Number::F32);
        let numbers = [(DepthA1, 28), (StepKa, 14), (StepKb, 1), (DepthB1, 2)];
        product_of(k, Number::F16, bias, [128, 256, 64], &numbers);
    };

    l1_is_smaller_beside_vector_cores, "cube-tiling", MixAic11, |k, broken| {
        let blocks = if broken { 28 } else { 26 };
        let numbers = [(DepthA1, blocks), (StepKa, blocks / 2), (StepKb, 1), (DepthB1, 2)];
        product(k, Number::F16, [128, 256, 64], &numbers);
    };

    steps_along_m_need_all_of_k, "cube-tiling", MixAic10, |k, broken| {
        let step = if broken { 1 } else { 2 };
        let numbers = [(BaseM, 32), (StepM, 2), (BaseK, 16), (StepKa, step), (StepKb, 2), (DepthA1, 2 * step), (DepthB1, 2)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    steps_along_n_need_all_of_k, "cube-tiling", MixAic10, |k, broken| {
        let step = if broken { 1 } else { 2 };
        let numbers = [(BaseN, 16), (StepN, 3), (BaseK, 16), (StepKb, step), (StepKa, 2), (DepthB1, 3 * step), (DepthA1, 2)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    loops_over_k_fit_into_each_other, "cube-tiling", MixAic10, |k, broken| {
        // There are 12 blocks along K: 4 loops for A, and 6 or 2 loops for B.
        let step = if broken { 2 } else { 6 };
        let numbers = [(BaseK, 16), (StepKa, 3), (DepthA1, 3), (StepKb, step), (DepthB1, step)];
        product(k, Number::F16, [64, 48, 192], &numbers);
    };

    a_core_does_all_of_k, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], SingleCoreK, if broken { 16 } else { 32 });
    };

    a_core_goes_no_deeper_than_both_matrices, "cube-tiling", MixAic10, |k, broken| {
        let kb = if broken { 16 } else { 48 };
        product(k, Number::F16, [64, 48, 32], &[(Kb, kb)]);
    };

    a_product_is_no_deeper_than_its_tiling, "cube-tiling", MixAic10, |k, broken| {
        let k_of = if broken { 16 } else { 32 };
        product(k, Number::F16, [64, 48, 32], &[(Ka, k_of), (Kb, k_of), (SingleCoreK, k_of)]);
    };

    cores_are_as_many_as_pieces, "cube-tiling", MixAic10, |k, broken| {
        let cores = if broken { 2 } else { 3 };
        let numbers = [(SingleCoreM, 32), (M, 80), (UsedCoreNum, cores)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    pieces_are_no_more_than_cores, "cube-tiling", MixAic10, |k, broken| {
        let cores = if broken { 25 } else { 24 };
        let numbers = [(SingleCoreM, 16), (M, 16 * cores), (UsedCoreNum, cores)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    cores_are_more_on_ascend_950, "cube-tiling", MixAic10, |k, broken| {
        k.setting.product = if broken { Product::A3 } else { Product::Ascend950 };
        let numbers = [(SingleCoreN, 16), (N, 16 * 32), (UsedCoreNum, 32)];
        product(k, Number::F16, [64, 48, 32], &numbers);
    };

    pieces_are_done_in_one_of_two_orders, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], IterateOrder, if broken { 2 } else { 1 });
    };

    a_bias_is_in_the_tiling, "cube-tiling", MixAic10, |k, broken| {
        let numbers = [(IsBias, i32::from(!broken))];
        product_of(k, Number::F16, Some(Number::F32), [64, 48, 32], &numbers);
    };

    a_bias_is_there_or_not, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], IsBias, if broken { 7 } else { 0 });
    };

    a_plain_product_has_no_batches, "cube-tiling", MixAic10, |k, broken| {
        one(k, [64, 48, 32], BatchM, i32::from(broken));
    };
}
