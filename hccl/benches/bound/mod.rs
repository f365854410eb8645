//! The bound: the highest possible speed of two threads on this machine. It is measured in the same
//! run as the operations that are compared with it.
//!
//! An all-reduce of N bytes on two ranks, with one core each, needs at least one of these:
//!
//! * A: each rank reads both inputs (2N bytes) and writes its own output (N bytes);
//! * B: each rank reads half of both inputs (N bytes) and writes that half of both outputs (N
//!   bytes).
//!
//! In addition, one rank must see that the other one has arrived. This takes the time that a cache
//! line needs to get from one core to the other. The bound is that time plus the better time of A
//! and B, each measured with plain and with streaming (non-temporal) stores.

use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

use crate::pin::pin;

/// A word that shares its cache line with no other data. The neighbouring line is unused too,
/// because processors fetch pairs of lines.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Returns the time in nanoseconds until a written cache line is seen by the other core: half of a
/// ping-pong, the best of many.
pub fn one_way_latency() -> f64 {
    const ROUNDS: u64 = 20_000;
    let (ping, pong) = (Line::default(), Line::default());
    let answer = |first: &Line, second: &Line| {
        for round in 1..=ROUNDS * 10 {
            while first.0.load(Acquire) < round {
                spin_loop();
            }
            second.0.store(round, Release);
        }
    };
    let mut best = f64::MAX;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            answer(&ping, &pong);
        });
        scope.spawn(|| {
            pin(0);
            for block in 0..10 {
                let since = Instant::now();
                for round in block * ROUNDS + 1..=(block + 1) * ROUNDS {
                    ping.0.store(round, Release);
                    while pong.0.load(Acquire) < round {
                        spin_loop();
                    }
                }
                best = best.min(since.elapsed().as_nanos() as f64 / ROUNDS as f64 / 2.0);
            }
        });
    });
    best
}

/// The four buffers of an all-reduce on two ranks. All their pages have been touched.
pub struct Buffers {
    inputs: [Vec<f32>; 2],
    outputs: [Vec<f32>; 2],
}

impl Buffers {
    pub fn new(elements: usize) -> Self {
        let touched = |value: f32| vec![value; elements];
        Buffers { inputs: [touched(1.0), touched(2.0)], outputs: [touched(3.0), touched(4.0)] }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    A,
    AStreaming,
    B,
    BStreaming,
}

pub const KERNELS: [Kernel; 4] = [Kernel::A, Kernel::AStreaming, Kernel::B, Kernel::BStreaming];

#[derive(Clone, Copy)]
struct Pointers {
    inputs: [*const f32; 2],
    outputs: [*mut f32; 2],
    elements: usize,
}

// SAFETY: the buffers outlive the scope of the threads, and no other thread accesses the bytes that
// a thread writes.
unsafe impl Send for Pointers {}
// SAFETY: the same argument as for `Send`.
unsafe impl Sync for Pointers {}

/// Measures the least work of an all-reduce on these buffers. Returns nanoseconds: the best average
/// of `blocks` blocks of `repeats` repetitions.
pub fn least_work(buffers: &mut Buffers, kernel: Kernel, blocks: usize, repeats: usize) -> f64 {
    let pointers = Pointers {
        inputs: [buffers.inputs[0].as_ptr(), buffers.inputs[1].as_ptr()],
        outputs: [buffers.outputs[0].as_mut_ptr(), buffers.outputs[1].as_mut_ptr()],
        elements: buffers.inputs[0].len(),
    };
    let arrived = AtomicU64::new(0);
    // Both threads start each block together, and the block lasts until the slower thread is done.
    let meet = |target: u64| {
        arrived.fetch_add(1, AcqRel);
        while arrived.load(Acquire) < target {
            spin_loop();
        }
    };
    let run = |rank: usize| {
        let pointers = &pointers;
        pin(rank);
        let mut best = f64::MAX;
        let mut target = 0;
        for block in 0..=blocks {
            target += 2;
            meet(target);
            let since = Instant::now();
            for _ in 0..repeats {
                work(pointers, kernel, rank);
            }
            target += 2;
            meet(target);
            // The first block is a warm-up.
            if block > 0 {
                best = best.min(since.elapsed().as_nanos() as f64 / repeats as f64);
            }
        }
        best
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let own = scope.spawn(|| run(0)).join().expect("the kernels do not panic");
        own.max(other.join().expect("the kernels do not panic"))
    })
}

#[inline(never)]
fn work(p: &Pointers, kernel: Kernel, rank: usize) {
    let half = p.elements / 2 / 16 * 16;
    let range = match (kernel, rank) {
        (Kernel::A | Kernel::AStreaming, _) => 0..p.elements,
        (_, 0) => 0..half,
        _ => half..p.elements,
    };
    let streaming = matches!(kernel, Kernel::AStreaming | Kernel::BStreaming);
    // SAFETY: the range lies in all buffers. The two threads write disjoint outputs (A: each its
    // own buffer, B: each its own half), and inputs are only read.
    unsafe {
        match kernel {
            Kernel::A | Kernel::AStreaming => {
                best_add(p.inputs, [p.outputs[rank]], range, streaming);
            }
            Kernel::B | Kernel::BStreaming => best_add(p.inputs, p.outputs, range, streaming),
        }
    }
}

/// # Safety
///
/// The range lies in all buffers.
unsafe fn best_add<const N: usize>(
    inputs: [*const f32; 2],
    outputs: [*mut f32; N],
    range: Range<usize>,
    streaming: bool,
) {
    // SAFETY: the range is valid by contract, and the processor has the features.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            return x86::add_avx512(inputs, outputs, range, streaming);
        } else if is_x86_feature_detected!("avx") {
            return x86::add_avx(inputs, outputs, range, streaming);
        }
        let _ = streaming;
        add(inputs, outputs, range);
    }
}

/// # Safety
///
/// The range lies in all buffers.
#[inline(always)]
unsafe fn add<const N: usize>(
    inputs: [*const f32; 2],
    outputs: [*mut f32; N],
    range: Range<usize>,
) {
    for at in range {
        // SAFETY: `at` is in range by contract.
        unsafe {
            let sum = *inputs[0].add(at) + *inputs[1].add(at);
            for output in outputs {
                *output.add(at) = sum;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ops::Range;

    macro_rules! adder {
        ($name:ident, $feature:literal, $lanes:literal, $load:ident, $add:ident, $store:ident, $stream:ident) => {
            /// # Safety
            ///
            /// The range lies in all buffers, and the processor has the feature.
            #[target_feature(enable = $feature)]
            pub unsafe fn $name<const N: usize>(
                inputs: [*const f32; 2],
                outputs: [*mut f32; N],
                range: Range<usize>,
                streaming: bool,
            ) {
                const LANES: usize = $lanes;
                let (mut at, end) = (range.start, range.end);
                // SAFETY: every access is in range by contract; streaming stores are made only at
                // aligned addresses.
                unsafe {
                    let misaligned =
                        |at: usize| outputs.iter().any(|o| o.add(at) as usize % (LANES * 4) != 0);
                    if streaming {
                        // If all buffers have the same alignment, they become aligned here.
                        // Otherwise all stores are plain.
                        let head = (0..LANES).find(|&head| !misaligned(at + head)).unwrap_or(0);
                        let head = head.min(end - at);
                        super::add(inputs, outputs, at..at + head);
                        at += head;
                    }
                    let streaming = streaming && !misaligned(at);
                    while at + LANES <= end {
                        let sum = $add($load(inputs[0].add(at)), $load(inputs[1].add(at)));
                        for output in outputs {
                            if streaming {
                                $stream(output.add(at).cast(), sum);
                            } else {
                                $store(output.add(at), sum);
                            }
                        }
                        at += LANES;
                    }
                    super::add(inputs, outputs, at..end);
                    if streaming {
                        _mm_sfence();
                    }
                }
            }
        };
    }

    adder!(
        add_avx512,
        "avx512f",
        16,
        _mm512_loadu_ps,
        _mm512_add_ps,
        _mm512_storeu_ps,
        _mm512_stream_ps
    );
    adder!(add_avx, "avx", 8, _mm256_loadu_ps, _mm256_add_ps, _mm256_storeu_ps, _mm256_stream_ps);
}
