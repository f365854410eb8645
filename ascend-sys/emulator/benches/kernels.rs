//! Measures the reduction and copy kernels against hand-written loops in the same run: `cargo bench
//! -p ascend-emulator --bench kernels`.
//!
//! Each figure is the best of many repetitions. Rates are in gigabytes of result per second for one
//! buffer. The ratio is to the hand-written fp32 loop `c = d = a + b` over the same number of
//! bytes, with the same kind of store, on the same number of threads. The loop and the kernel are
//! measured in turn.

use ascend_emulator::copy::copy;
use ascend_emulator::reduce::{DataType, ReduceOp, Store, reduce_chunk};
use std::sync::Barrier;
use std::time::Instant;

const KI: usize = 1024;
const MI: usize = 1024 * KI;

/// A buffer on its own pages, which have been touched. It is aligned like device memory, and has
/// small numbers that are valid in every type.
struct Buffer {
    memory: Vec<u8>,
    offset: usize,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Self {
        let memory = vec![0x3Cu8; bytes + 4096];
        let offset = memory.as_ptr().addr().wrapping_neg() % 4096;
        Self { memory, offset, bytes }
    }

    fn ptr(&mut self) -> *mut u8 {
        self.memory[self.offset..self.offset + self.bytes].as_mut_ptr()
    }
}

type Call<'a> = &'a (dyn Fn(usize) + Sync);

/// Returns the best time of each call in seconds, with the same call running on `threads` threads
/// at once. The calls take turns, so that other work of the machine affects all of them equally.
fn best<const N: usize>(threads: usize, bytes: usize, calls: [Call; N]) -> [f64; N] {
    let repetitions = (16 * MI / bytes).clamp(1, 1000);
    let rounds = if bytes >= 64 * MI { 7 } else { 25 };
    let barrier = Barrier::new(threads);
    let slowest = |thread: usize| {
        let mut best = [f64::INFINITY; N];
        for _ in 0..rounds {
            for (call, best) in calls.iter().zip(&mut best) {
                barrier.wait();
                let start = Instant::now();
                for _ in 0..repetitions {
                    call(thread);
                }
                *best = best.min(start.elapsed().as_secs_f64() / repetitions as f64);
            }
        }
        best
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || slowest(t))).collect();
        let times = handles.into_iter().map(|h| h.join().expect("a thread panicked"));
        times.fold([0.0f64; N], |a, b| std::array::from_fn(|i| a[i].max(b[i])))
    })
}

#[cfg(target_arch = "x86_64")]
mod hand {
    use core::arch::x86_64::*;

    /// Computes `c = d = a + b` in fp32 with 512-bit instructions.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn add<const STREAM: bool>(
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        d: *mut f32,
        n: usize,
    ) {
        // SAFETY: the caller passes aligned buffers of n elements, and n is a multiple of 16.
        unsafe {
            for i in (0..n).step_by(16) {
                let sum = _mm512_add_ps(_mm512_load_ps(a.add(i)), _mm512_load_ps(b.add(i)));
                if STREAM {
                    _mm512_stream_ps(c.add(i), sum);
                    _mm512_stream_ps(d.add(i), sum);
                } else {
                    _mm512_store_ps(c.add(i), sum);
                    _mm512_store_ps(d.add(i), sum);
                }
            }
            if STREAM {
                _mm_sfence();
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Shared<T>(T);
// SAFETY: every thread works on its own buffers.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    fn get(&self) -> T {
        self.0
    }
}

fn reduction(threads: usize, bytes: usize) {
    let mut buffers: Vec<[Buffer; 4]> =
        (0..threads).map(|_| core::array::from_fn(|_| Buffer::new(bytes))).collect();
    let pointers: Vec<[*mut u8; 4]> =
        buffers.iter_mut().map(|four| four.each_mut().map(Buffer::ptr)).collect();
    let pointers = Shared(pointers.as_slice());
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;

    let by_hand = |stream: bool| {
        move |t: usize| {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512f") {
                let [a, b, c, d] = pointers.get()[t].map(|p| p.cast::<f32>());
                // SAFETY: these are four aligned buffers of this size, and the processor has the
                // instructions.
                unsafe {
                    if stream {
                        hand::add::<true>(a, b, c, d, bytes / 4)
                    } else {
                        hand::add::<false>(a, b, c, d, bytes / 4)
                    }
                }
            }
        }
    };
    let [plain, stream] = best(threads, bytes, [&by_hand(false), &by_hand(true)]).map(rate);
    println!(
        "{threads} threads, {:7} KiB: by hand {plain:6.1} plain, {stream:6.1} streaming",
        bytes / KI
    );

    for dtype in [
        DataType::Fp32,
        DataType::Fp16,
        DataType::Bfp16,
        DataType::Int8,
        DataType::Int64,
        DataType::Fp64,
    ] {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
            print!("    {dtype:?} {op:?}:");
            for store in [Store::Plain, Store::Streaming] {
                let kernel = |t: usize| {
                    let [a, b, c, d] = pointers.get()[t];
                    // SAFETY: these are four buffers of this size.
                    let done = unsafe {
                        reduce_chunk(dtype, op, &[a, b], &[c, d], bytes / dtype.size(), store)
                    };
                    assert!(done);
                };
                let calls: [Call; 2] = [&kernel, &by_hand(store == Store::Streaming)];
                let [kernel, by_hand] = best(threads, bytes, calls).map(rate);
                print!("  {store:?} {kernel:6.1} ({:.2})", kernel / by_hand);
            }
            println!();
        }
    }
}

/// Measures reductions of many ranks on one core.
fn many(ranks: usize, bytes: usize) {
    let mut inputs: Vec<_> = (0..ranks).map(|_| Buffer::new(bytes)).collect();
    let mut outputs: Vec<_> = (0..ranks).map(|_| Buffer::new(bytes)).collect();
    let inputs: Vec<_> = inputs.iter_mut().map(|b| b.ptr().cast_const()).collect();
    let outputs: Vec<_> = outputs.iter_mut().map(Buffer::ptr).collect();
    let (inputs, outputs) = (Shared(inputs.as_slice()), Shared(outputs.as_slice()));
    println!("{ranks:4} inputs and outputs of {:5} KiB, GB/s read and written:", bytes / KI);
    for store in [Store::Plain, Store::Streaming] {
        for op in [ReduceOp::Sum, ReduceOp::Max] {
            let kernel = |dtype: DataType| {
                move |_: usize| {
                    let (from, to) = (inputs.get(), outputs.get());
                    // SAFETY: the buffers have this size.
                    let done =
                        unsafe { reduce_chunk(dtype, op, from, to, bytes / dtype.size(), store) };
                    assert!(done);
                }
            };
            let calls: [Call; 3] =
                [&kernel(DataType::Fp32), &kernel(DataType::Fp16), &kernel(DataType::Bfp16)];
            let rates = best(1, bytes * ranks, calls)
                .map(|seconds| (2 * ranks * bytes) as f64 / seconds / 1e9);
            let [fp32, fp16, bf16] = rates;
            println!(
                "    {op:?} {store:?}:  Fp32 {fp32:6.1}  Fp16 {fp16:6.1} ({:.2})  Bfp16 {bf16:6.1} ({:.2})",
                fp16 / fp32,
                bf16 / fp32
            );
        }
    }
}

/// Measures `copy` against the C library's `memcpy` and the processor's `rep movsb`, on one thread.
/// The source begins at a page, and the destination `shift` bytes after the beginning of a page.
fn copies(bytes: usize, shift: usize) {
    let (mut a, mut b) = (Buffer::new(bytes), Buffer::new(bytes + shift));
    let pointers = Shared((a.ptr(), b.ptr().wrapping_add(shift)));
    let rate = |call: &(dyn Fn(*mut u8, *const u8) + Sync)| {
        let [seconds] = best(1, bytes.max(64), [&|_| call(pointers.get().1, pointers.get().0)]);
        bytes as f64 / seconds / 1e9
    };
    let memcpy = rate(&|d, s| {
        // SAFETY: both buffers have this size.
        unsafe { libc::memcpy(d.cast(), s.cast(), std::hint::black_box(bytes)) };
    });
    print!("copy of {bytes:9} bytes to +{shift:<2}, GB/s: memcpy {memcpy:6.1}");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both buffers have this size.
    let movsb = rate(&|d, s| unsafe {
        core::arch::asm!("rep movsb", inout("rdi") d => _, inout("rsi") s => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags));
    });
    #[cfg(target_arch = "x86_64")]
    print!("  rep movsb {movsb:6.1}");
    for store in [Store::Plain, Store::Streaming] {
        // SAFETY: both buffers have this size.
        let ours = rate(&|d, s| unsafe { copy(d, s, bytes, store) });
        print!("  {store:?} {ours:6.1} ({:.2})", ours / memcpy);
    }
    println!();
}

fn main() {
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    if wanted("reduce") {
        for threads in [1, 2] {
            for bytes in [64 * KI, MI, 16 * MI, 128 * MI] {
                // As in an all-reduce, the threads share the buffers' bytes.
                reduction(threads, bytes / threads);
            }
        }
    }
    if wanted("copy") {
        for bytes in [8, 64, 4 * KI, 64 * KI, MI, 16 * MI, 128 * MI] {
            copies(bytes, 0);
            copies(bytes, 16);
        }
    }
    if wanted("many") {
        for (ranks, bytes) in
            [(4, 64 * KI), (8, 64 * KI), (16, 64 * KI), (64, 64 * KI), (64, MI), (256, 64 * KI)]
        {
            many(ranks, bytes);
        }
    }
}
