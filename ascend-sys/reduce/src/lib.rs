//! Reductions, copies and fills of memory that other threads may write at the same time.
//!
//! This is a crate of its own, because only these loops need optimisation in every build.
//! Reductions are the arithmetic of the collectives: a reduction is one pass over a chunk of an
//! all-reduce, a reduce or a reduce-scatter.
//!
//! [`reduce_chunk`] reads every input once, in rank order, and writes the result to every output
//! once. Every bit of the result is defined. The result does not depend on the division of a buffer
//! into chunks, on alignment, or on the features of the processor:
//!
//! - elements are combined from the first input to the last;
//! - integers wrap; `Uint64` compares unsigned;
//! - fp16 and bf16 are accumulated in fp32 and rounded once at the end, to nearest, ties to even;
//! - a NaN in any input makes the result NaN, under maximum and minimum too, and a NaN result is
//!   always the positive quiet NaN without a payload;
//! - -0 is less than +0;
//! - rounding is to nearest and subnormal numbers are kept, whatever the settings of the calling
//!   thread are;
//! - a single input is copied: its bits do not change.
//!
//! The loops exist once (`kernel`), generic over instruction set (`isa`), element and operator
//! (`element`). Each combination of element and operator is compiled for every instruction set, and
//! the best one for the processor is chosen at run time. Miri does not support assembly, so it runs
//! the portable instruction set. A build with `--cfg plain_memory` runs it too: that build is for
//! sanitizers, which do not see the accesses of assembly.

mod convert;
pub mod copy;
mod element;
mod environment;
mod isa;
mod kernel;
#[cfg(test)]
mod tests;
mod types;
#[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
mod x86;

pub use types::{DataType, ReduceOp};

pub use element::Arithmetic;
use element::{Bf16, Element, Fp16, Maximum, Minimum, Operator, Ordered, Prod, Sum};
pub use environment::Standard;

/// The way in which results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Results are written through the caches. This is for results that fit the caches and are read
    /// soon.
    Plain,
    /// Results are written past the caches. This is for buffers that together exceed the caches: it
    /// saves reading memory that is then overwritten. The call ends with a fence, which orders
    /// these stores before anything that the caller publishes afterwards.
    Streaming,
}

/// Reduces `count` elements of every input and writes the result to every output.
///
/// A single input is copied, whatever its type is. Otherwise the call returns `false`, and writes
/// nothing, if the type cannot be reduced ([`DataType::is_reducible`]). In all other cases it
/// returns `true`. If there is no input or no output, nothing is written.
///
/// # Safety
///
/// Every input must be readable and every output writable for `count` elements. An output may be
/// the same address as an input; otherwise it must not overlap any input or any other output. Any
/// alignment is allowed. Other threads may write the memory during the call: then the affected
/// elements are unspecified.
pub unsafe fn reduce_chunk(
    dtype: DataType,
    op: ReduceOp,
    inputs: &[*const u8],
    outputs: &[*mut u8],
    count: usize,
    store: Store,
) -> bool {
    // SAFETY: `best` returns only a level that the processor has. The caller guarantees the rest.
    unsafe { reduce_with(Level::best(), dtype, op, inputs, outputs, count, store) }
}

/// The instruction sets, from the slowest to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    Avx2,
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    Avx512,
}

impl Level {
    /// Returns the best level of this processor. The standard library caches the detected features,
    /// so this costs a few loads.
    #[inline]
    fn best() -> Self {
        #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
        {
            if x86::has_avx512() {
                return Self::Avx512;
            }
            if x86::has_avx2() {
                return Self::Avx2;
            }
        }
        Self::Portable
    }
}

/// Reduces as [`reduce_chunk`] does, with the instructions of `level`.
///
/// # Safety
///
/// As for [`reduce_chunk`], and the processor must have the instructions.
unsafe fn reduce_with(
    level: Level,
    dtype: DataType,
    op: ReduceOp,
    inputs: &[*const u8],
    outputs: &[*mut u8],
    count: usize,
    store: Store,
) -> bool {
    let call = ReduceCall { level, inputs, outputs, bytes: count * dtype.size(), store };
    // SAFETY: the caller guarantees the processor and the buffers.
    unsafe {
        if inputs.len() == 1 {
            // Nothing is combined, so the elements are plain bytes.
            call.with::<i8, Sum>();
            return true;
        }
        let _standard = Standard::set();
        match dtype {
            DataType::Int8 => call.element::<i8>(op),
            DataType::Int16 => call.element::<i16>(op),
            DataType::Int32 => call.element::<i32>(op),
            DataType::Int64 => call.element::<i64>(op),
            DataType::Uint64 => call.element::<u64>(op),
            DataType::Fp16 => {
                call.float16::<Fp16, Ordered<0x7C00, true>, Ordered<0x7C00, false>>(op)
            }
            DataType::Fp32 => call.element::<f32>(op),
            DataType::Fp64 => call.element::<f64>(op),
            DataType::Bfp16 => {
                call.float16::<Bf16, Ordered<0x7F80, true>, Ordered<0x7F80, false>>(op)
            }
            _ => return false,
        }
    }
    true
}

/// The arguments of one reduction, with its size in bytes.
struct ReduceCall<'a> {
    level: Level,
    inputs: &'a [*const u8],
    outputs: &'a [*mut u8],
    bytes: usize,
    store: Store,
}

impl ReduceCall<'_> {
    /// Runs the kernel of this operator for the elements `E`.
    ///
    /// # Safety
    ///
    /// As for [`reduce_with`]. The buffers must hold elements of this type.
    unsafe fn element<E: Element>(&self, op: ReduceOp) {
        // SAFETY: the caller guarantees the processor and the buffers.
        unsafe {
            match op {
                ReduceOp::Sum => self.with::<E, Sum>(),
                ReduceOp::Prod => self.with::<E, Prod>(),
                ReduceOp::Max => self.with::<E, Maximum>(),
                ReduceOp::Min => self.with::<E, Minimum>(),
            }
        }
    }

    /// Runs the kernel of this operator for a 16-bit float. A maximum uses the form `Greatest` of
    /// the type and a minimum the form `Least`.
    ///
    /// # Safety
    ///
    /// As for [`reduce_with`]. The buffers must hold elements of this type.
    unsafe fn float16<E: Element, Greatest: Element, Least: Element>(&self, op: ReduceOp) {
        // SAFETY: the caller guarantees the processor and the buffers.
        unsafe {
            match op {
                ReduceOp::Sum => self.with::<E, Sum>(),
                ReduceOp::Prod => self.with::<E, Prod>(),
                ReduceOp::Max => self.with::<Greatest, Maximum>(),
                ReduceOp::Min => self.with::<Least, Minimum>(),
            }
        }
    }

    /// Runs the kernel of this element and operator on the instruction set of the call.
    ///
    /// # Safety
    ///
    /// As for [`reduce_with`]. The buffers must hold elements of this type.
    unsafe fn with<E: Element, O: Operator>(&self) {
        let Self { level, inputs, outputs, bytes, store } = *self;
        let streaming = store == Store::Streaming;
        // SAFETY: the caller guarantees the processor and the memory.
        unsafe {
            match level {
                Level::Portable => portable::<E, O>(inputs, outputs, bytes, streaming),
                #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
                Level::Avx2 => avx2::<E, O>(inputs, outputs, bytes, streaming),
                #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
                Level::Avx512 => avx512::<E, O>(inputs, outputs, bytes, streaming),
            }
        }
    }
}

// The kernel is compiled once for every instruction set. The compiler applies the features of these
// functions to the code that is inlined into them.

unsafe fn portable<E: Element, O: Operator>(
    inputs: &[*const u8],
    outputs: &[*mut u8],
    bytes: usize,
    streaming: bool,
) {
    // SAFETY: the caller guarantees the memory.
    unsafe { kernel::reduce::<isa::Portable, E, O>(inputs, outputs, bytes, streaming) }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
#[target_feature(enable = "avx2,f16c,fma")]
unsafe fn avx2<E: Element, O: Operator>(
    inputs: &[*const u8],
    outputs: &[*mut u8],
    bytes: usize,
    streaming: bool,
) {
    // SAFETY: the caller guarantees the processor and the memory.
    unsafe { kernel::reduce::<x86::Avx2, E, O>(inputs, outputs, bytes, streaming) }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,fma")]
unsafe fn avx512<E: Element, O: Operator>(
    inputs: &[*const u8],
    outputs: &[*mut u8],
    bytes: usize,
    streaming: bool,
) {
    // SAFETY: the caller guarantees the processor and the memory.
    unsafe { kernel::reduce::<x86::Avx512, E, O>(inputs, outputs, bytes, streaming) }
}
