//! Tests of the numbers of a `TCubeTiling` for many shapes.

use ascend_program::Matmul;
use ascend_program::check::Product;
use ascend_program::cube::{Field, Field::*, Shape, Tiles};
use ascend_program::layout::Number::{self, *};

const PRODUCTS: [Product; 3] = [Product::A2, Product::A3, Product::Ascend950];

/// Returns a product of these types. `transposed` says for each matrix whether it is given as its
/// transpose.
fn matmul(types: [Number; 3], bias: Option<Number>, transposed: [bool; 2]) -> Matmul {
    let ([a, b, c], [transposed_a, transposed_b]) = (types, transposed);
    Matmul { a, b, c, bias, transposed_a, transposed_b, tiling: (0, String::new()) }
}

/// Returns all kinds of products.
fn kinds() -> Vec<Matmul> {
    let numbers = [I8, F16, Bf16, F32, I32];
    let biases = [None, Some(F16), Some(F32), Some(I32)];
    let transposes = [[false, false], [false, true], [true, false], [true, true]];
    let mut kinds = Vec::new();
    for (of, to) in numbers.iter().flat_map(|of| numbers.map(|to| (*of, to))) {
        for bias in biases {
            kinds.extend(transposes.map(|transposed| matmul([of, of, to], bias, transposed)));
        }
    }
    kinds.retain(Matmul::exists);
    kinds
}

fn tiles(product: Product, [m, n, k]: [usize; 3], matmul: &Matmul, cores: u32) -> Tiles {
    let chip = product.cube();
    Shape { m, n, k, matmul, chip: &chip, cores }.tiles().unwrap()
}

/// Returns tiny, odd, huge and other sides in random combinations.
fn shapes() -> impl Iterator<Item = [usize; 3]> {
    const ODD: [usize; 13] =
        [1, 2, 15, 16, 17, 33, 127, 255, 1000, 4095, 65_537, 1 << 24, i32::MAX as usize];
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (state >> 33) as usize;
        1 + (number >> 16) % (1 << (number % 15))
    };
    let random = std::iter::repeat_with(move || [next(), next(), next()]).take(300);
    let corners = ODD
        .into_iter()
        .flat_map(|m| ODD.into_iter().flat_map(move |n| ODD.into_iter().map(move |k| [m, n, k])));
    corners.chain(random)
}

#[test]
fn what_is_filled_breaks_no_rule() {
    let kinds = kinds();
    assert_eq!(kinds.len(), 4 * (2 * 3 + 2 + 3 * 2 + 2 + 2 * 2));
    for (at, size) in shapes().enumerate() {
        let matmul = &kinds[at % kinds.len()];
        for product in PRODUCTS {
            let chip = product.cube();
            for cores in [1, 2, 7, chip.cores] {
                let tiles = tiles(product, size, matmul, cores);
                let of = || format!("{product:?}, {size:?}, {cores} cores, {matmul:?}: {tiles:?}");
                let problem = tiles.problem(matmul, &chip, chip.l1 - chip.l1_reserve);
                assert_eq!(problem, None, "{}", of());
                assert_eq!(tiles.not_plain().next(), None, "{}", of());
                assert!(tiles.get(UsedCoreNum).cast_unsigned() <= cores, "{}", of());
                let given = [M, N, Ka].map(|field| tiles.get(field) as usize);
                assert_eq!(given, size);
                let piece = [SingleCoreM, SingleCoreN].map(|field| tiles.get(field) as usize);
                assert!(piece[0] <= size[0] && piece[1] <= size[1], "{}", of());
            }
        }
    }
}

/// All kinds of products on all shapes would take too long, so each kind is tested on some shapes.
#[test]
fn every_kind_of_product_is_filled() {
    for matmul in kinds() {
        for size in [[1, 1, 1], [17, 4095, 333], [4096, 4096, 4096], [1, 1 << 20, 64]] {
            for product in PRODUCTS {
                let chip = product.cube();
                let tiles = tiles(product, size, &matmul, chip.cores);
                assert_eq!(tiles.problem(&matmul, &chip, chip.l1 - chip.l1_reserve), None);
                assert_eq!(tiles.get(IsBias), i32::from(matmul.bias.is_some()));
            }
        }
    }
}

/// Blocks of 128 by 256 by 64, two buffers in L0, and a depth in L1 of twice the step: CANN
/// recommends this.
#[test]
fn large_products_of_half_floats_have_the_recommended_blocks() {
    let half = matmul([F16, F16, F16], None, [false, false]);
    let found = tiles(Product::A2, [8192, 8192, 8192], &half, 24);
    for (field, number) in [
        (UsedCoreNum, 24),
        (SingleCoreM, 1376),
        (SingleCoreN, 2048),
        (BaseM, 128),
        (BaseN, 256),
        (BaseK, 64),
        (DbL0A, 2),
        (DbL0B, 2),
        (DbL0C, 1),
        (StepKa, 4),
        (StepKb, 4),
        (DepthA1, 8),
        (DepthB1, 8),
    ] {
        assert_eq!(found.get(field), number, "{}", field.name());
    }
}

/// The blocks of one of the operands fill L0A or L0B, and the blocks of the result fill L0C.
#[test]
fn blocks_of_large_products_fill_l0() {
    for product in PRODUCTS {
        let chip = product.cube();
        for types in [[I8, I8, I32], [F16, F16, F32], [F32, F32, F32]] {
            let matmul = matmul(types, None, [false, false]);
            let tiles = tiles(product, [8192, 8192, 8192], &matmul, chip.cores);
            let of = |fields: [Field; 3]| -> u32 {
                fields.map(|field| tiles.get(field).cast_unsigned()).iter().product()
            };
            let size = types[0].size();
            let (a, b) = (size * of([BaseM, BaseK, DbL0A]), size * of([BaseN, BaseK, DbL0B]));
            assert_eq!(a.max(b), chip.l0a, "{tiles:?}");
            assert_eq!(4 * of([BaseM, BaseN, DbL0C]), chip.l0c, "{tiles:?}");
        }
    }
}

/// The part of a core is at most a quarter larger than an equal share of the work.
#[test]
fn large_products_are_shared_evenly() {
    let half = matmul([F16, F16, F16], None, [false, false]);
    for [m, n] in [[4096, 4096], [1000, 3000], [100, 20_000], [20_000, 100], [777, 777]] {
        for product in PRODUCTS {
            let cores = product.cube().cores;
            let tiles = tiles(product, [m, n, 512], &half, cores);
            let [rows, columns] = [SingleCoreM, SingleCoreN].map(|field| tiles.get(field) as usize);
            let share = (m * n).div_ceil(cores as usize);
            assert!(rows * columns * 4 <= share * 5, "{product:?}, {m} by {n}: {tiles:?}");
        }
    }
}

#[test]
fn sides_cores_and_types_that_there_are_not_are_refused() {
    let half = matmul([F16, F16, F16], None, [false, false]);
    let chip = Product::A3.cube();
    let refused = |[m, n, k]: [usize; 3], matmul: &Matmul, cores| {
        let refused = Shape { m, n, k, matmul, chip: &chip, cores }.tiles().unwrap_err();
        format!("{} is {}: {}", refused.setting, refused.value, refused.rule)
    };
    let sides = "a matrix has 1 to 2147483647 rows and columns";
    assert_eq!(refused([0, 1, 1], &half, 24), format!("m is 0: {sides}"));
    assert_eq!(refused([1, 0, 1], &half, 24), format!("n is 0: {sides}"));
    assert_eq!(refused([1, 1, 1 << 31], &half, 24), format!("k is 2147483648: {sides}"));
    let cores = "the chip has 1 to 24 cube cores to use";
    assert_eq!(refused([1, 1, 1], &half, 0), format!("cores is 0: {cores}"));
    assert_eq!(refused([1, 1, 1], &half, 25), format!("cores is 25: {cores}"));
    let odd = matmul([I16, I16, I16], Some(F32), [false, false]);
    assert_eq!(
        refused([1, 1, 1], &odd, 24),
        "types is i16 * i16 + f32 -> i16: cube cores multiply, for example, `f16, f16, f16` \
         with a bias of `f32`"
    );
}
