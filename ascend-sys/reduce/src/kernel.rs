//! The loops of a reduction, generic over instruction set, element and operator.
//!
//! With few inputs and outputs, the accumulators of a few lines stay in registers while the loop
//! reads all inputs. With many, such a loop would visit every buffer for a few hundred bytes at a
//! time, which is too many places at once for caches and prefetchers. So the loop then takes a
//! block of accumulators that fits the first-level cache, and each buffer in turn contributes a
//! contiguous piece.

#![allow(
    clippy::needless_range_loop,
    reason = "the loops run over several things at one place, and vectorise as written"
)]

use super::element::{Element, Operator};
use super::isa::{CacheLine, Isa};
use core::mem::MaybeUninit;

/// The largest number of inputs, and of outputs, with which the accumulators stay in registers.
const FEW: usize = 8;

/// The number of lines of one block, which takes 2 KiB of every buffer.
const BLOCK: usize = 32;

/// The number of inputs that are added to a block at once, so that its accumulators are loaded and
/// stored less often.
const GROUP: usize = 4;

/// Reduces `bytes` bytes of the inputs, in the order of the slice, and writes the result to every
/// output. Does nothing if there is no input or no output.
///
/// # Safety
///
/// The processor must have the instructions of `I`. All pointers must be valid for `bytes` bytes, a
/// multiple of the element's size. An output may be an input, and must not overlap any other
/// buffer.
#[inline(always)]
pub(super) unsafe fn reduce<I: Isa, E: Element, O: Operator>(
    inputs: &[*const u8],
    outputs: &[*mut u8],
    bytes: usize,
    streaming: bool,
) {
    let (Some((first, others)), Some(output)) = (inputs.split_first(), outputs.first()) else {
        return;
    };
    let chunk = ReduceChunk { first: *first, others, outputs, streaming };
    let mut at = 0;
    // SAFETY: all offsets stay below `bytes`, and the caller guarantees every pointer for that
    // length. The load of an offset comes before its store, so an output may be an input.
    unsafe {
        // Reduce up to the first cache line of the first output. If the elements of that output
        // straddle lines, the output stays unaligned, and then nothing is streamed to it.
        let head = output.addr().wrapping_neg() % 64;
        if bytes >= 1024 && head != 0 && head.is_multiple_of(E::SIZE) {
            chunk.part::<I, E, O>(at, head);
            at += head;
        }
        let many = inputs.len() > FEW || outputs.len() > FEW;
        if I::LINES == 4 {
            chunk.most::<I, E, O, 4>(&mut at, bytes, many);
        } else if I::LINES == 2 {
            chunk.most::<I, E, O, 2>(&mut at, bytes, many);
        } else {
            chunk.most::<I, E, O, 1>(&mut at, bytes, many);
        }
        while bytes - at >= 64 {
            chunk.lines::<I, E, O, 1>(at);
            at += 64;
        }
        if bytes > at {
            chunk.part::<I, E, O>(at, bytes - at);
        }
        if streaming {
            I::fence();
        }
    }
}

/// The buffers of one call, all valid for the same number of bytes.
struct ReduceChunk<'a> {
    first: *const u8,
    others: &'a [*const u8],
    outputs: &'a [*mut u8],
    streaming: bool,
}

impl ReduceChunk<'_> {
    /// Reduces `N` lines at a time, beginning at the byte offset `at`, until fewer bytes than `N`
    /// lines remain before `bytes`. If `many` is set, first reduces block by block.
    ///
    /// # Safety
    ///
    /// The processor must have the instructions, and the chunk must have `bytes` bytes.
    #[inline(always)]
    unsafe fn most<I: Isa, E: Element, O: Operator, const N: usize>(
        &self,
        at: &mut usize,
        bytes: usize,
        many: bool,
    ) {
        // SAFETY: the caller guarantees the processor and the chunk.
        unsafe {
            if many {
                while bytes - *at >= 64 * BLOCK {
                    self.block::<I, E, O, N>(*at);
                    *at += 64 * BLOCK;
                }
            }
            while bytes - *at >= 64 * N {
                self.lines::<I, E, O, N>(*at);
                *at += 64 * N;
            }
        }
    }

    /// Reduces `N` lines at the byte offset `at`, in registers.
    ///
    /// # Safety
    ///
    /// The processor must have the instructions, and the lines must be within the chunk.
    #[inline(always)]
    unsafe fn lines<I: Isa, E: Element, O: Operator, const N: usize>(&self, at: usize) {
        // SAFETY: the caller guarantees the processor and the lines.
        unsafe {
            let first = E::load::<I, N>(self.first.add(at));
            let results = E::narrow::<I, N>(add::<I, E, O, N>(first, self.others, at));
            for output in self.outputs {
                write::<I, E, _>(output.add(at), &results, self.streaming);
            }
        }
    }

    /// Reduces fewer than 64 bytes at the byte offset `at`.
    ///
    /// # Safety
    ///
    /// The processor must have the instructions. The bytes must be within the chunk and must be
    /// whole elements.
    #[inline(always)]
    unsafe fn part<I: Isa, E: Element, O: Operator>(&self, at: usize, bytes: usize) {
        // SAFETY: the caller guarantees the processor and the bytes.
        unsafe {
            let mut sum = E::widen::<I>(I::load_part(self.first.add(at), bytes));
            for input in self.others {
                let next = E::widen::<I>(I::load_part(input.add(at), bytes));
                sum = E::combine::<I, O>(sum, next);
            }
            let [result] = E::narrow::<I, 1>([sum]);
            for output in self.outputs {
                I::store_part(output.add(at), result, bytes);
            }
        }
    }

    /// Reduces one block at the byte offset `at`, `N` lines at a time.
    ///
    /// # Safety
    ///
    /// The processor must have the instructions, and the block must be within the chunk.
    #[inline(always)]
    unsafe fn block<I: Isa, E: Element, O: Operator, const N: usize>(&self, at: usize) {
        const { assert!(BLOCK.is_multiple_of(N)) };
        let mut sums = [MaybeUninit::<E::Accumulator>::uninit(); BLOCK];
        let mut results = [MaybeUninit::<CacheLine>::uninit(); BLOCK];
        let (start, rest) = self.others.split_at(self.others.len().min(GROUP - 1));
        // SAFETY: the caller guarantees the processor and the block. The first loop initialises
        // every accumulator, and the last loop but one initialises every result. `N` elements from
        // a multiple of `N` are within the arrays.
        unsafe {
            let sums = (&raw mut sums).cast::<E::Accumulator>();
            let results = (&raw mut results).cast::<CacheLine>();
            for i in (0..BLOCK).step_by(N) {
                let sum = E::load::<I, N>(self.first.add(at + 64 * i));
                sums.add(i).cast::<[_; N]>().write(add::<I, E, O, N>(sum, start, at + 64 * i));
            }
            for group in rest.chunks(GROUP) {
                for i in (0..BLOCK).step_by(N) {
                    sums.add(i).cast::<[_; N]>().write(add::<I, E, O, N>(
                        sums.add(i).cast::<[_; N]>().read(),
                        group,
                        at + 64 * i,
                    ));
                }
            }
            for i in (0..BLOCK).step_by(N) {
                results
                    .add(i)
                    .cast::<[_; N]>()
                    .write(E::narrow::<I, N>(sums.add(i).cast::<[_; N]>().read()));
            }
            for output in self.outputs {
                for i in (0..BLOCK).step_by(N) {
                    write::<I, E, N>(
                        output.add(at + 64 * i),
                        &*results.add(i).cast::<[_; N]>(),
                        self.streaming,
                    );
                }
            }
        }
    }
}

/// Returns `sums`, combined with the `N` lines of each input at the byte offset `at`.
///
/// # Safety
///
/// The processor must have the instructions, and the lines must be within the chunk.
#[inline(always)]
unsafe fn add<I: Isa, E: Element, O: Operator, const N: usize>(
    mut sums: [E::Accumulator; N],
    inputs: &[*const u8],
    at: usize,
) -> [E::Accumulator; N] {
    for input in inputs {
        // SAFETY: the caller guarantees the processor and the lines.
        let next = unsafe { E::load::<I, N>(input.add(at)) };
        for i in 0..N {
            sums[i] = E::combine::<I, O>(sums[i], next[i]);
        }
    }
    sums
}

/// Writes the lines one after the other. Writes past the caches if `streaming` is set and `to` is
/// aligned to 64 bytes.
///
/// # Safety
///
/// The processor must have the instructions, and `to` must be valid for the lines.
#[inline(always)]
unsafe fn write<I: Isa, E: Element, const N: usize>(
    to: *mut u8,
    lines: &[CacheLine; N],
    streaming: bool,
) {
    // SAFETY: the caller guarantees the processor and the lines. Streamed lines are aligned.
    unsafe {
        if streaming && to.addr().is_multiple_of(64) {
            I::stream_lines(to, lines, E::HALVES);
        } else {
            I::store_lines(to, lines, E::HALVES);
        }
    }
}
