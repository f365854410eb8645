//! Functions that kernels call: their places in the printed source and in findings.

use ascend_program_testing::compiler::{Directory, complaints};
use hccl::kernel::*;
use hccl::prelude::*;

#[derive(Tiling)]
#[repr(C)]
struct Sizes {
    count: u64,
    factor: f32,
    more: f32,
}

/// The buffers of a core.
struct Work {
    input: Queue<f32>,
    output: Queue<f32>,
}

/// Computes `y = 2 * factor * x`, piece by piece.
#[kernel(inline)]
fn scale(k: Kernel<Sizes>, work: &Work, x: Input<f32>, y: Output<f32>, factor: Value<f32>) {
    // A keyword of C++.
    let double = factor * 2.0;
    k.range(..k.tiling().count, |i| {
        let from = i * 64;
        let piece = work.input.alloc();
        k.copy_in(&piece, x.at(from), 64);
        work.input.enqueue(piece);
        let (piece, scaled) = (work.input.dequeue(), work.output.alloc());
        k.muls(&scaled, &piece, double, 64);
        work.input.free(piece);
        work.output.enqueue(scaled);
        let scaled = work.output.dequeue();
        k.copy_out(y.at(from), &scaled, 64);
        work.output.free(scaled);
    });
}

/// Returns the number of the first piece of a core.
#[kernel(inline)]
fn first(k: Kernel<Sizes>) -> Value<u64> {
    let each = k.tiling().count.div_ceil(k.block_count().cast::<u64>());
    let first = k.block_index().cast::<u64>() * each;
    first
}

/// Returns two values, which no function of C++ does.
#[kernel(inline)]
fn share(k: Kernel<Sizes>) -> (Value<u64>, Value<u64>) {
    let start = first(k);
    let end = (start + 64).min(k.tiling().count);
    (start, end)
}

#[kernel(mix = "aiv_only")]
fn scaled(k: Kernel<Sizes>, x: Input<f32>, w: Input<f32>, y: Output<f32>, z: Output<f32>) {
    let input = k.queue(Position::VecIn, 2, 64u64);
    let output = k.queue(Position::VecOut, 2, 64u64);
    let work = Work { input, output };
    let (factor, rest) = (k.tiling().factor, k.tiling().more);
    let factor = factor + 1.0;
    let rest = rest + 2.0;
    scale(k, &work, x, y, factor);
    scale(k, &work, w, z, rest);
    let (start, end) = share(k);
    k.range(start..end, |i| {
        let last = y.get(i);
        k.when(i.eq(first(k)), || z.set(i, last));
        z.clean(i);
    });
}

#[test]
fn a_function_that_is_called_twice_stands_in_the_source_once() {
    let source = scaled::record().unwrap().ascend_c().unwrap();
    assert!(
        source.contains(
            "// Computes `y = 2 * factor * x`, piece by piece.\n__aicore__ inline void ScaledScale("
        ),
        "{source}"
    );
    assert_eq!(source.matches("__aicore__ inline void ScaledScale").count(), 1, "{source}");
    let calls: Vec<&str> =
        source.lines().map(str::trim).filter(|line| line.starts_with("ScaledScale(")).collect();
    assert_eq!(calls.len(), 2, "{source}");
    assert!(calls[0].contains("xGm") && calls[0].contains("yGm") && calls[0].contains("factor"));
    assert!(calls[1].contains("wGm") && calls[1].contains("zGm") && calls[1].contains("rest"));
    // A Rust function that returns one value becomes a C++ function; one that returns two does not.
    assert!(source.contains("__aicore__ inline uint64_t ScaledFirst("), "{source}");
    assert!(
        source.contains("const uint64_t first = ScaledFirst(") && !source.contains("ScaledShare"),
        "{source}"
    );
    let directory = Directory::new("functions");
    let header = Sizes::LAYOUT.header();
    directory.write("scaled_tiling.h", header);
    let source = directory.write("kernel.cpp", source);
    let Some(said) = complaints(&[], &source) else { return };
    assert!(said.is_empty(), "{said}");
}

/// Computes without a wait for the copy into `a`.
#[kernel(inline)]
fn halve(k: Kernel, a: &LocalTensor<f32>, b: &LocalTensor<f32>) {
    k.muls(b, a, 0.5, 64);
}

#[kernel(inline)]
fn halve_all(k: Kernel, x: Input<f32>, y: Output<f32>) {
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    k.copy_in(&a, x, 64);
    halve(k, &a, &b);
    k.wait_for(Pipe::Out, Pipe::Vector);
    k.copy_out(y, &b, 64);
}

#[kernel(mix = "aiv_only")]
fn without_a_wait(k: Kernel, x: Input<f32>, y: Output<f32>) {
    halve_all(k, x, y);
}

/// Returns the line of this file that has this text.
fn line_of(text: &str) -> usize {
    let lines: Vec<_> = include_str!("functions.rs").lines().collect();
    1 + lines.iter().position(|line| line.trim() == text).unwrap()
}

#[test]
fn a_finding_says_by_which_calls_the_kernel_came_there() {
    let report = without_a_wait::record().unwrap().check(&(), 1, 1, Product::A3, &[256, 256]);
    let [error] = report.errors().collect::<Vec<_>>()[..] else { panic!("{report}") };
    assert_eq!(error.line as usize, line_of("k.muls(b, a, 0.5, 64);"), "{error}");
    let [inner, outer] = &error.calls[..] else { panic!("{error}") };
    let place = |text| format!("functions.rs:{}:", line_of(text));
    assert!(inner.starts_with("in `halve`, called at "), "{inner}");
    assert!(inner.contains(&place("halve(k, &a, &b);")), "{inner}");
    assert!(outer.starts_with("in `halve_all`, called at "), "{outer}");
    assert!(outer.contains(&place("halve_all(k, x, y);")), "{outer}");
    let text = report.to_string();
    assert!(
        text.contains(&format!("= {inner}\n")) && text.contains(&format!("= {outer}\n")),
        "{text}"
    );
}

/// Contains a mistake.
#[kernel(inline)]
fn divide_bytes(k: Kernel) {
    let a = k.scratch::<u8>(64).get();
    k.div(&a, &a, &a, 64);
}

#[kernel(mix = "aiv_only")]
fn calls_a_mistake(k: Kernel, y: Output<u8>) {
    divide_bytes(k);
    y.set(0, 1);
}

#[test]
fn a_mistake_in_a_function_says_where_it_is_called() {
    let error = calls_a_mistake::record().expect_err("bytes cannot be divided").to_string();
    assert!(
        error.contains(&format!("functions.rs:{}:", line_of("k.div(&a, &a, &a, 64);"))),
        "{error}"
    );
    let called = format!("functions.rs:{}:", line_of("divide_bytes(k);"));
    assert!(error.contains("in `divide_bytes`, called at") && error.contains(&called), "{error}");
}

/// A counter of calls.
struct Counter(u64);

impl Counter {
    /// Returns values, early if asked. Only the trait of the result type is known.
    #[kernel(inline)]
    fn next<'k>(&'k mut self, k: Kernel, early: bool) -> impl Iterator<Item = Value<u64>> + use<> {
        self.0 += 1;
        if early {
            return vec![k.block_index().cast::<u64>()].into_iter();
        }
        vec![k.block_index().cast::<u64>() + self.0].into_iter()
    }
}

#[kernel(mix = "aiv_only")]
fn counts(k: Kernel, y: Output<u64>) {
    let mut counter = Counter(0);
    for (at, early) in [true, false].into_iter().enumerate() {
        let values: Vec<_> = counter.next(k, early).collect();
        values.into_iter().for_each(|value| y.set(at as u64, value));
    }
    y.clean(0);
}

#[test]
fn methods_and_early_returns_are_recorded_as_they_are_written() {
    let program = counts::record().unwrap().to_string();
    assert!(
        program.contains("y[0] = block_idx as u64 ") || program.contains("block_idx as u64"),
        "{program}"
    );
    assert!(program.contains("+ 2"), "{program}");
}
