//! Reductions, copies and fills of memory that others may write meanwhile.
//!
//! This is a crate of its own, because these loops alone need optimisation in every build.
//! Reductions are the arithmetic of the collectives: one pass over a chunk of an all-reduce, a
//! reduce or a reduce-scatter.
//!
//! [`reduce_chunk`] reads every input once, in rank order, and writes the result to every output
//! once. The result is defined to the bit. It does not depend on how a buffer is cut into chunks or
//! aligned, or on the features of the processor:
//!
//! - elements are combined from the first input to the last;
//! - integers wrap; `Uint64` compares unsigned;
//! - fp16 and bf16 are accumulated in fp32 and rounded once at the end, to nearest, ties to even;
//! - a NaN in any input makes the result NaN, under maximum and minimum too, and a NaN result is
//!   always the positive quiet one without payload;
//! - -0 is less than +0;
//! - rounding is to nearest and subnormal numbers count, whatever the calling thread has set for
//!   itself;
//! - a single input is copied: its bits do not change.
//!
//! The loops exist once (`kernel`), generic over instruction set (`isa`), element and operator
//! (`element`). Each of the combinations is compiled for every instruction set, and the processor
//! chooses at run time. Miri knows no assembly, so it runs the portable one. So does a build with
//! `--cfg plain_memory`, for sanitizers, which do not see the accesses of assembly.

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

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Through the caches: for results that fit them and are read soon.
    Plain,
    /// Writes past the caches, for sets of buffers that exceed them: saves reading memory that is
    /// overwritten. Ends with the fence that orders these stores before anything the caller
    /// publishes afterwards.
    Streaming,
}

/// Reduces `count` elements of every input and writes the result to every output.
///
/// Returns whether it did: `false`, with nothing written, if there are several inputs of a type
/// that cannot be reduced ([`DataType::is_reducible`]). With no input or no output there is nothing
/// to do.
///
/// # Safety
///
/// Every input must be readable and every output writable for `count` elements. An output may be
/// the same address as an input or overlaps no input and no other output. Any alignment will do.
/// Others may write the memory meanwhile: then the elements concerned are unspecified.
pub unsafe fn reduce_chunk(
    dtype: DataType,
    op: ReduceOp,
    inputs: &[*const u8],
    outputs: &[*mut u8],
    count: usize,
    store: Store,
) -> bool {
    // SAFETY: `best` returns only a level that the processor has; the rest is the caller's promise.
    unsafe { reduce_with(Level::best(), dtype, op, inputs, outputs, count, store) }
}

/// The instruction sets, from the least to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    Avx2,
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    Avx512,
}

impl Level {
    /// The best level of this processor. The standard library caches the detected features: this
    /// costs a few loads.
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

/// [`reduce_chunk`] with the instructions of `level`.
///
/// # Safety
///
/// As for [`reduce_chunk`], and the processor has the instructions.
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
    // SAFETY: the caller's promise.
    unsafe {
        if inputs.len() == 1 {
            // Nothing is combined: the elements are bytes.
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

/// The arguments of a reduction on their way to the kernel.
struct ReduceCall<'a> {
    level: Level,
    inputs: &'a [*const u8],
    outputs: &'a [*mut u8],
    bytes: usize,
    store: Store,
}

impl ReduceCall<'_> {
    /// # Safety
    ///
    /// As for [`reduce_with`]; the buffers hold elements of this type.
    unsafe fn element<E: Element>(&self, op: ReduceOp) {
        // SAFETY: the caller's promise.
        unsafe {
            match op {
                ReduceOp::Sum => self.with::<E, Sum>(),
                ReduceOp::Prod => self.with::<E, Prod>(),
                ReduceOp::Max => self.with::<E, Maximum>(),
                ReduceOp::Min => self.with::<E, Minimum>(),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`reduce_with`]; the buffers hold elements of this type, in its three forms.
    unsafe fn float16<E: Element, Greatest: Element, Least: Element>(&self, op: ReduceOp) {
        // SAFETY: the caller's promise.
        unsafe {
            match op {
                ReduceOp::Sum => self.with::<E, Sum>(),
                ReduceOp::Prod => self.with::<E, Prod>(),
                ReduceOp::Max => self.with::<Greatest, Maximum>(),
                ReduceOp::Min => self.with::<Least, Minimum>(),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`reduce_with`]; the buffers hold elements of this type.
    unsafe fn with<E: Element, O: Operator>(&self) {
        let Self { level, inputs, outputs, bytes, store } = *self;
        let streaming = store == Store::Streaming;
        // SAFETY: the caller promises the processor and the memory.
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

// The kernel once for every instruction set. The compiler gives the features of these functions to
// the code that is inlined into them.

unsafe fn portable<E: Element, O: Operator>(
    inputs: &[*const u8],
    outputs: &[*mut u8],
    bytes: usize,
    streaming: bool,
) {
    // SAFETY: the caller promises the memory.
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
    // SAFETY: the caller promises the processor and the memory.
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
    // SAFETY: the caller promises the processor and the memory.
    unsafe { kernel::reduce::<x86::Avx512, E, O>(inputs, outputs, bytes, streaming) }
}
