//! Compares every kernel with a naive reference, bit for bit, on every instruction set that this
//! processor has.

use super::*;
use crate::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
use crate::environment::tests::under_odd_control;
use half::{bf16, f16};

const REDUCIBLE: [DataType; 9] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Uint64,
    DataType::Fp16,
    DataType::Fp32,
    DataType::Fp64,
    DataType::Bfp16,
];

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

fn levels() -> Vec<Level> {
    #[allow(unused_mut, reason = "only some targets have more")]
    let mut levels = vec![Level::Portable];
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    {
        if x86::has_avx2() {
            levels.push(Level::Avx2);
        }
        if x86::has_avx512() {
            levels.push(Level::Avx512);
        }
    }
    levels
}

/// A small generator of pseudorandom numbers (xorshift64*), so that every run tests the same
/// numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns the bits of an element: often a special value, often a moderate number, otherwise
    /// any bits.
    fn element(&mut self, dtype: DataType) -> u64 {
        let special = self.below(4);
        let small = (self.next() % 2001) as f64 / 16.0 - 62.5;
        let pick = self.below(14);
        let any = self.next();
        match (dtype, special) {
            (DataType::Fp16, 0) => [
                0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01,
                0x7C01, 0x3C00,
            ][pick],
            (DataType::Bfp16, 0) => [
                0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1,
                0x7F81, 0x3F80,
            ][pick],
            (DataType::Fp32, 0) => u64::from(
                [
                    0,
                    1 << 31,
                    1,
                    0x8000_0001,
                    0x7F_FFFF,
                    0x80_0000,
                    0x7F7F_FFFF,
                    0xFF7F_FFFF,
                    0x7F80_0000,
                    0xFF80_0000,
                    0x7FC0_0000,
                    0xFFC0_0001,
                    0x7F80_0001,
                    0x3F80_0000u32,
                ][pick],
            ),
            (DataType::Fp64, 0) => [
                0,
                1 << 63,
                1,
                (1 << 63) | 1,
                (1 << 52) - 1,
                1 << 52,
                0x7FEF_FFFF_FFFF_FFFF,
                0xFFEF_FFFF_FFFF_FFFF,
                0x7FF0_0000_0000_0000,
                0xFFF0_0000_0000_0000,
                0x7FF8_0000_0000_0000,
                0xFFF8_0000_0000_0001,
                0x7FF0_0000_0000_0001,
                0x3FF0_0000_0000_0000,
            ][pick],
            (_, 0) => [
                0,
                u64::MAX,
                1,
                1 << 63,
                i64::MAX as u64,
                0x8080_8080_8080_8080,
                0x7F7F_7F7F_7F7F_7F7F,
            ][pick % 7],
            (DataType::Fp16, 1 | 2) => u64::from(f16::from_f64(small).to_bits()),
            (DataType::Bfp16, 1 | 2) => u64::from(bf16::from_f64(small).to_bits()),
            (DataType::Fp32, 1 | 2) => u64::from((small as f32).to_bits()),
            (DataType::Fp64, 1 | 2) => small.to_bits(),
            _ => any,
        }
    }
}

/// Returns the IEEE 754-2019 maximum or minimum, computed in another way than the kernel does: -0
/// is below +0, and a NaN makes the result NaN. Returns `None` for other operators.
fn float(op: ReduceOp, a: f64, b: f64) -> Option<f64> {
    let pick = match op {
        ReduceOp::Max => a.total_cmp(&b).is_ge(),
        ReduceOp::Min => a.total_cmp(&b).is_le(),
        _ => return None,
    };
    Some(match (a.is_nan() || b.is_nan(), pick) {
        (true, _) => f64::NAN,
        (_, true) => a,
        (_, false) => b,
    })
}

fn fp32(op: ReduceOp, a: f32, b: f32) -> f32 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Prod => a * b,
        _ => float(op, f64::from(a), f64::from(b)).expect("a comparison") as f32,
    }
}

/// Returns the bits of the expected result. `bits` has the element of one position from every
/// input.
fn expected(dtype: DataType, op: ReduceOp, bits: &[u64]) -> u64 {
    if let [alone] = bits {
        return *alone;
    }
    macro_rules! integer {
        ($t:ty) => {
            bits.iter()
                .map(|b| *b as $t)
                .reduce(|a, b| match op {
                    ReduceOp::Sum => a.wrapping_add(b),
                    ReduceOp::Prod => a.wrapping_mul(b),
                    ReduceOp::Max => a.max(b),
                    ReduceOp::Min => a.min(b),
                })
                .expect("an input") as u64
        };
    }
    let in_fp32 = |values: &mut dyn Iterator<Item = f32>| {
        values.reduce(|a, b| fp32(op, a, b)).expect("an input")
    };
    match dtype {
        DataType::Int8 => integer!(i8),
        DataType::Int16 => integer!(i16),
        DataType::Int32 => integer!(i32),
        DataType::Int64 => integer!(i64),
        DataType::Uint64 => integer!(u64),
        DataType::Fp16 => {
            let result = in_fp32(&mut bits.iter().map(|b| f16::from_bits(*b as u16).to_f32()));
            u64::from(if result.is_nan() { 0x7E00 } else { f16::from_f32(result).to_bits() })
        }
        DataType::Bfp16 => {
            let result = in_fp32(&mut bits.iter().map(|b| bf16::from_bits(*b as u16).to_f32()));
            u64::from(if result.is_nan() { 0x7FC0 } else { bf16::from_f32(result).to_bits() })
        }
        DataType::Fp32 => {
            let result = in_fp32(&mut bits.iter().map(|b| f32::from_bits(*b as u32)));
            u64::from(if result.is_nan() { 0x7FC0_0000 } else { result.to_bits() })
        }
        DataType::Fp64 => {
            let values = bits.iter().map(|b| f64::from_bits(*b));
            let result = values
                .reduce(|a, b| match op {
                    ReduceOp::Sum => a + b,
                    ReduceOp::Prod => a * b,
                    _ => float(op, a, b).expect("a comparison"),
                })
                .expect("an input");
            if result.is_nan() { 0x7FF8_0000_0000_0000 } else { result.to_bits() }
        }
        other => unreachable!("{other:?} is not reduced"),
    }
}

/// A buffer that starts a given number of bytes after a multiple of 64, with guard bytes on both
/// sides.
#[derive(Clone)]
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

const GUARD: u8 = 0xA5;

impl Buffer {
    fn new(bytes: usize, misaligned: usize) -> Self {
        let memory = vec![GUARD; bytes + misaligned + 192];
        let start = memory.as_ptr().addr().wrapping_neg() % 64 + 64 + misaligned;
        Self { memory, start, bytes }
    }

    fn data(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }

    fn guards_are_intact(&self) -> bool {
        let after = &self.memory[self.start + self.bytes..];
        self.memory[..self.start].iter().chain(after).all(|b| *b == GUARD)
    }
}

/// Makes one call with random inputs and compares every output with the reference. With `in_place`,
/// output 0 is the last input.
#[allow(clippy::too_many_arguments, reason = "the dimensions of the test")]
fn check(
    random: &mut Random,
    level: Level,
    dtype: DataType,
    op: ReduceOp,
    (inputs, outputs): (usize, usize),
    count: usize,
    store: Store,
    in_place: bool,
) {
    let size = dtype.size();
    let bits: Vec<Vec<u64>> =
        (0..inputs).map(|_| (0..count).map(|_| random.element(dtype)).collect()).collect();
    let shift = |random: &mut Random| match random.below(4) {
        0 | 1 => 0,
        2 => size * random.below(64 / size),
        _ => random.below(64),
    };
    let mut sources: Vec<Buffer> = bits
        .iter()
        .map(|elements| {
            let mut buffer = Buffer::new(count * size, shift(random));
            for (place, element) in buffer.data().chunks_exact_mut(size).zip(elements) {
                place.copy_from_slice(&element.to_le_bytes()[..size]);
            }
            buffer
        })
        .collect();
    let mut targets: Vec<Buffer> =
        (0..outputs).map(|_| Buffer::new(count * size, shift(random))).collect();
    let mut from: Vec<*const u8> = Vec::new();
    let mut to: Vec<*mut u8> = targets.iter_mut().map(|t| t.data().as_mut_ptr()).collect();
    for source in &mut sources {
        from.push(source.data().as_mut_ptr());
    }
    if in_place {
        to[0] = from[inputs - 1].cast_mut();
    }
    // SAFETY: all buffers have `count` elements. Only `to[0]` may be an input, at the same address.
    let reduce = || unsafe { reduce_with(level, dtype, op, &from, &to, count, store) };
    // The result does not depend on the floating point settings of the thread.
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    let done = if random.below(2) == 0 { under_odd_control(reduce) } else { reduce() };
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let done = reduce();
    assert!(done);

    let want: Vec<u8> = (0..count)
        .flat_map(|i| {
            let column: Vec<u64> = bits.iter().map(|input| input[i]).collect();
            expected(dtype, op, &column).to_le_bytes().into_iter().take(size)
        })
        .collect();
    let what = format!(
        "{level:?} {dtype:?} {op:?} {inputs} -> {outputs}, {count} elements, {store:?}, in place: {in_place}"
    );
    if in_place {
        assert_eq!(sources[inputs - 1].data(), want, "{what}: the output that is an input");
    }
    for target in targets.iter_mut().skip(usize::from(in_place)) {
        assert_eq!(target.data(), want, "{what}");
    }
    assert!(
        sources.iter().chain(&targets).all(Buffer::guards_are_intact),
        "{what}: outside the buffers"
    );
}

#[test]
fn every_count_around_the_lines() {
    let mut random = Random(1);
    for level in levels() {
        for dtype in REDUCIBLE {
            for op in OPS {
                let counts = if cfg!(miri) { vec![op as usize * 23] } else { (0..=70).collect() };
                for count in counts {
                    let shape = (1 + random.below(5), 1 + random.below(3));
                    let store = [Store::Plain, Store::Streaming][random.below(2)];
                    check(&mut random, level, dtype, op, shape, count, store, false);
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long: the next test reaches the same loops")]
fn sizes_around_the_blocks() {
    let mut random = Random(2);
    for level in levels() {
        for dtype in REDUCIBLE {
            for op in OPS {
                for bytes in [256, 512, 1024, 2048, 4096, 2 * 2048 + 64] {
                    let count = bytes / dtype.size();
                    for count in [count - 1, count, count + 1, count + 33] {
                        let inputs = [1, 2, 3, 4, 5, 8, 9, 16, 17][random.below(9)];
                        let outputs = [1, 2, 3, 8, 9, 17][random.below(6)];
                        let store = [Store::Plain, Store::Streaming][random.below(2)];
                        let in_place = random.below(3) == 0;
                        check(
                            &mut random,
                            level,
                            dtype,
                            op,
                            (inputs, outputs),
                            count,
                            store,
                            in_place,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_shape_in_place_and_not() {
    let mut random = Random(3);
    let sizes: &[usize] = if cfg!(miri) { &[1100] } else { &[300, 2100] };
    let dtypes: &[DataType] = if cfg!(miri) { &[DataType::Bfp16] } else { &REDUCIBLE };
    for level in levels() {
        for dtype in dtypes {
            for inputs in if cfg!(miri) { &[2, 9][..] } else { &[1, 2, 3, 4, 5, 8, 16, 17] } {
                for outputs in if cfg!(miri) { &[2][..] } else { &[1, 2, 5, 9] } {
                    for in_place in [false, true] {
                        for count in sizes {
                            let store = [Store::Plain, Store::Streaming][random.below(2)];
                            let shape = (*inputs, *outputs);
                            check(
                                &mut random,
                                level,
                                *dtype,
                                ReduceOp::Sum,
                                shape,
                                *count,
                                store,
                                in_place,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Reduces two inputs with the elements `bits` into one output, and compares it with the reference.
fn check_pairs(level: Level, dtype: DataType, op: ReduceOp, bits: [&[u16]; 2]) {
    let (mut got, count) = (vec![0u16; bits[0].len()], bits[0].len());
    let (from, to) = (bits.map(|b| b.as_ptr().cast()), [got.as_mut_ptr().cast()]);
    // SAFETY: all buffers have `count` elements.
    assert!(unsafe { reduce_with(level, dtype, op, &from, &to, count, Store::Plain) });
    for i in 0..count {
        let (a, b) = (bits[0][i], bits[1][i]);
        let want = expected(dtype, op, &[u64::from(a), u64::from(b)]);
        assert_eq!(
            u64::from(got[i]),
            want,
            "{level:?} {dtype:?} {op:?} of {a:#06x} and {b:#06x}, at {i}"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long: other tests reach the same loops")]
fn every_16_bit_float_with_every_kind_of_other() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    // Zeros, the least and the greatest numbers, infinities, NaNs, and values whose sums are
    // halfway between two numbers.
    let others = [
        0, 0x8000, 1, 0x8001, 0x3C01, 0xBC03, 0x3F81, 0xBF83, 0x7BFF, 0x7F7F, 0xFBFF, 0xFF7F,
        0x7C00, 0x7F80, 0xFC00, 0xFF80, 0x7FC0, 0xFFC1,
    ];
    for level in levels() {
        for dtype in [DataType::Fp16, DataType::Bfp16] {
            for op in OPS {
                for other in others {
                    check_pairs(level, dtype, op, [&all, &vec![other; all.len()]]);
                }
            }
        }
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the portable kernels do not look for NaNs: they make all of them the same"
)]
fn a_single_nan_is_found_wherever_it_is() {
    for level in levels() {
        for (dtype, nans) in
            [(DataType::Fp16, [0x7C01, 0xFE05]), (DataType::Bfp16, [0x7F81, 0xFFC5])]
        {
            for place in 0..300 {
                let (mut with, without) = ([0x3C00; 300], [0x3C01; 300]);
                with[place] = nans[place % 2];
                for op in OPS {
                    check_pairs(level, dtype, op, [&with, &without]);
                    check_pairs(level, dtype, op, [&without, &with]);
                }
            }
        }
    }
}

#[test]
fn fp16_and_bf16_conversions_are_exact_and_round_to_even() {
    for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 9973 } else { 1 }) {
        let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        if half.is_nan() {
            assert!(f16_to_f32(bits).is_nan());
        } else {
            assert_eq!(f16_to_f32(bits).to_bits(), half.to_f32().to_bits(), "{bits:#x}");
        }
        assert_eq!(bf16_to_f32(bits).to_bits() >> 16, u32::from(bits), "{bits:#x}");
        // Values around every fp16 and bf16 number, and halfway to the next one.
        for near in [half.to_f32(), brain.to_f32()] {
            for step in [0u32, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001] {
                let value = f32::from_bits(near.to_bits().wrapping_add(step));
                if !value.is_nan() {
                    assert_eq!(f32_to_f16(value), f16::from_f32(value).to_bits(), "{value:e}");
                    assert_eq!(f32_to_bf16(value), bf16::from_f32(value).to_bits(), "{value:e}");
                }
            }
        }
    }
    assert_eq!(f32_to_f16(f32::NAN), 0x7E00);
    assert_eq!(f32_to_bf16(f32::NAN), 0x7FC0);
}

#[test]
fn what_cannot_be_reduced_is_refused_and_left_alone() {
    let (a, b, mut c) = ([1u8; 32], [2u8; 32], [3u8; 32]);
    for dtype in DataType::ALL.into_iter().filter(|t| !t.is_reducible()) {
        let (from, to) = ([a.as_ptr(), b.as_ptr()], [c.as_mut_ptr()]);
        // SAFETY: every buffer has two elements of at most 16 bytes.
        let done = unsafe { reduce_chunk(dtype, ReduceOp::Sum, &from, &to, 2, Store::Plain) };
        assert!(!done, "{dtype:?}");
        assert_eq!(c, [3; 32]);
    }
    // A single input is only copied, whatever its type is.
    // SAFETY: both buffers have two elements of 16 bytes.
    let done = unsafe {
        reduce_chunk(
            DataType::Int128,
            ReduceOp::Max,
            &[a.as_ptr()],
            &[c.as_mut_ptr()],
            2,
            Store::Plain,
        )
    };
    assert!(done);
    assert_eq!(c, a);
}

#[test]
fn numbers_of_the_abi_round_trip() {
    for value in 0..300 {
        if let Some(dtype) = DataType::from_hccl(value) {
            assert_eq!(dtype as u32, value);
        }
        if let Some(op) = ReduceOp::from_hccl(value) {
            assert_eq!(op as u32, value);
        }
    }
    assert_eq!((0..300).filter_map(DataType::from_hccl).count(), 17);
    assert_eq!((0..300).filter_map(ReduceOp::from_hccl).count(), 4);
    assert_eq!(DataType::from_hccl(13), None);
    assert_eq!(DataType::from_hccl(255), None);
    let sizes = DataType::ALL.map(DataType::size);
    assert_eq!(sizes, [1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 1, 1, 1, 1]);
    assert_eq!(DataType::ALL.into_iter().filter(|t| t.is_reducible()).count(), REDUCIBLE.len());
}
