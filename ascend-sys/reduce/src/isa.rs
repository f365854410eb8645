//! The operations that a kernel needs from the processor: moving 64 bytes between memory and
//! registers, and converting 16-bit floats.
//!
//! A racing program may write device memory while a kernel reads it. So no Rust reference ever
//! refers to device memory, and every access is an assembly instruction or a volatile access
//! through a raw pointer. Then the compiler can neither assume that memory stays unchanged nor read
//! it twice. The only effect of a race is that bytes are unspecified.

use super::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// The elements of one cache line, 64 bytes, in registers.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(pub(crate) [u8; 64]);

impl CacheLine {
    /// Returns the line as unsigned 16-bit elements.
    #[inline(always)]
    pub(super) fn to_u16(self) -> [u16; 32] {
        // SAFETY: both types are 64 bytes of plain data.
        unsafe { core::mem::transmute(self) }
    }

    /// Returns the line as signed 16-bit elements.
    #[inline(always)]
    pub(super) fn to_i16(self) -> [i16; 32] {
        // SAFETY: both types are 64 bytes of plain data.
        unsafe { core::mem::transmute(self) }
    }

    /// Returns a line of signed 16-bit elements.
    #[inline(always)]
    pub(super) fn from_i16(halves: [i16; 32]) -> Self {
        // SAFETY: both types are 64 bytes of plain data.
        unsafe { core::mem::transmute(halves) }
    }

    /// Returns a line of unsigned 16-bit elements.
    #[inline(always)]
    pub(super) fn from_u16(halves: [u16; 32]) -> Self {
        // SAFETY: both types are 64 bytes of plain data.
        unsafe { core::mem::transmute(halves) }
    }
}

/// An instruction set. All instruction sets give the same bits and differ only in speed.
///
/// # Safety
///
/// The caller of a function guarantees that the processor has the instructions. A load needs
/// `bytes` readable bytes at the pointer, and a store `bytes` writable bytes. A function on lines
/// without that argument needs 64 bytes for each line. No alignment is needed, except by
/// [`stream_lines`](Self::stream_lines).
pub(crate) trait Isa {
    /// The number of lines of accumulators, of at most 64 bytes each, that a loop may keep in
    /// registers.
    const LINES: usize;

    /// Reads 64 bytes.
    unsafe fn load(from: *const u8) -> CacheLine;
    /// Reads `bytes` bytes, fewer than 64. The rest of the line is zero.
    unsafe fn load_part(from: *const u8, bytes: usize) -> CacheLine;
    /// Writes 64 bytes.
    unsafe fn store(to: *mut u8, line: CacheLine);
    /// Writes the first `bytes` bytes of the line, fewer than 64.
    unsafe fn store_part(to: *mut u8, line: CacheLine, bytes: usize);
    /// Makes streaming stores as ordered as plain stores.
    unsafe fn fence();
    /// Returns the same line, in registers, without an instruction. An implementation may be opaque
    /// to the compiler, so that the compiler computes one line at a time. Otherwise the compiler
    /// may spread the elements of many lines over registers, which makes the loop ten times slower.
    #[inline(always)]
    fn keep(line: CacheLine) -> CacheLine {
        line
    }

    /// Reads `N` lines.
    #[inline(always)]
    unsafe fn load_lines<const N: usize>(from: *const u8) -> [CacheLine; N] {
        let mut lines = [CacheLine([0; 64]); N];
        for (i, line) in lines.iter_mut().enumerate() {
            // SAFETY: the caller makes the same guarantee for each line.
            *line = unsafe { Self::load(from.add(64 * i)) };
        }
        lines
    }

    /// Writes `N` lines. If `halves` is set, writes them by halves of registers: if the results
    /// come in halves, that saves joining them first.
    #[inline(always)]
    unsafe fn store_lines<const N: usize>(to: *mut u8, lines: &[CacheLine; N], _halves: bool) {
        for (i, line) in lines.iter().enumerate() {
            // SAFETY: the caller makes the same guarantee for each line.
            unsafe { Self::store(to.add(64 * i), *line) };
        }
    }

    /// Writes as [`store_lines`](Self::store_lines) does, but past the caches if the instruction
    /// set can do so for `N` lines. `to` must be a multiple of 64.
    #[inline(always)]
    unsafe fn stream_lines<const N: usize>(to: *mut u8, lines: &[CacheLine; N], halves: bool) {
        // SAFETY: the caller makes the same guarantee.
        unsafe { Self::store_lines(to, lines, halves) };
    }

    /// Reads as [`load_lines`](Self::load_lines) does, and converts as
    /// [`widen_f16`](Self::widen_f16) does.
    #[inline(always)]
    unsafe fn load_f16<const N: usize>(from: *const u8) -> [[f32; 32]; N] {
        // SAFETY: the caller makes the same guarantee.
        unsafe { Self::load_lines(from) }.map(Self::widen_f16)
    }

    /// Converts fp16 to fp32.
    #[inline(always)]
    fn widen_f16(line: CacheLine) -> [f32; 32] {
        let halves = line.to_u16();
        let mut wide = [0.0; 32];
        for i in 0..32 {
            wide[i] = f16_to_f32(halves[i]);
        }
        wide
    }

    /// Converts fp32 to fp16, to nearest, ties to even. A NaN may become any NaN.
    #[inline(always)]
    fn narrow_f16(wide: [f32; 32]) -> CacheLine {
        let mut halves = [0; 32];
        for i in 0..32 {
            halves[i] = f32_to_f16(wide[i]);
        }
        CacheLine::from_u16(halves)
    }

    /// Converts bf16 to fp32. The order of the results may differ between instruction sets. That
    /// does not matter, because an element is combined only with elements of the same position.
    #[inline(always)]
    fn widen_bf16(line: CacheLine) -> [f32; 32] {
        let halves = line.to_u16();
        let mut wide = [0.0; 32];
        for i in 0..32 {
            wide[i] = bf16_to_f32(halves[i]);
        }
        wide
    }

    /// Converts fp32 in the order of [`widen_bf16`](Self::widen_bf16) to bf16, to nearest, ties to
    /// even. A NaN may become any NaN. The lower half of a NaN must be zero, as it is in a result
    /// of bf16 inputs.
    #[inline(always)]
    fn narrow_bf16(wide: [f32; 32]) -> CacheLine {
        let mut halves = [0; 32];
        for i in 0..32 {
            halves[i] = f32_to_bf16(wide[i]);
        }
        CacheLine::from_u16(halves)
    }

    /// Returns the sums, element by element.
    #[inline(always)]
    fn sum(a: [f32; 32], b: [f32; 32]) -> [f32; 32] {
        let mut sums = a;
        for i in 0..32 {
            sums[i] = a[i] + b[i];
        }
        sums
    }

    /// Returns whether there may be a NaN. An implementation returns true without a check if a
    /// check would cost as much as making all NaNs canonical.
    #[inline(always)]
    fn any_nan<const N: usize>(_wide: &[[f32; 32]; N]) -> bool {
        true
    }
}

/// The instruction set of any processor: volatile accesses, of 8 bytes where the address allows it.
pub(crate) struct Portable;

impl Isa for Portable {
    const LINES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> CacheLine {
        if from.addr().is_multiple_of(8) {
            let mut words = [0u64; 8];
            for (i, word) in words.iter_mut().enumerate() {
                // SAFETY: the caller guarantees 64 readable bytes, and the address is a multiple of
                // 8.
                *word = unsafe { from.cast::<u64>().add(i).read_volatile() };
            }
            // SAFETY: both types are 64 bytes of plain data.
            unsafe { core::mem::transmute::<[u64; 8], CacheLine>(words) }
        } else {
            // SAFETY: the caller guarantees 64 readable bytes.
            unsafe { Self::load_part(from, 64) }
        }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> CacheLine {
        let mut line = CacheLine([0; 64]);
        for (i, byte) in line.0.iter_mut().enumerate().take(bytes) {
            // SAFETY: the caller guarantees `bytes` readable bytes.
            *byte = unsafe { from.add(i).read_volatile() };
        }
        line
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, line: CacheLine) {
        if to.addr().is_multiple_of(8) {
            // SAFETY: both types are 64 bytes of plain data.
            let words = unsafe { core::mem::transmute::<CacheLine, [u64; 8]>(line) };
            for (i, word) in words.into_iter().enumerate() {
                // SAFETY: the caller guarantees 64 writable bytes, and the address is a multiple of
                // 8.
                unsafe { to.cast::<u64>().add(i).write_volatile(word) };
            }
        } else {
            // SAFETY: the caller guarantees 64 writable bytes.
            unsafe { Self::store_part(to, line, 64) };
        }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, line: CacheLine, bytes: usize) {
        for (i, byte) in line.0.into_iter().enumerate().take(bytes) {
            // SAFETY: the caller guarantees `bytes` writable bytes.
            unsafe { to.add(i).write_volatile(byte) };
        }
    }

    #[inline(always)]
    unsafe fn fence() {}
}
