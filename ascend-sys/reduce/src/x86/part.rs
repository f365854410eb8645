//! Loads and stores less than a line, for the ends of a buffer.

use crate::isa::CacheLine;
use core::arch::asm;
use core::arch::x86_64::__m512i;
use core::mem::transmute;

/// Loads and stores less than 64 bytes by one instruction. The instruction does not access the
/// bytes that its mask leaves out.
pub(super) mod masked {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(in crate::x86) unsafe fn load(from: *const u8, bytes: usize) -> CacheLine {
        let line: __m512i;
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe {
            asm!("vmovdqu8 {line} {{{mask}}} {{z}}, [{from}]", line = lateout(zmm_reg) line,
                mask = in(kreg) (1u64 << bytes) - 1, from = in(reg) from,
                options(nostack, preserves_flags, readonly));
            transmute(line)
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(in crate::x86) unsafe fn store(to: *mut u8, line: CacheLine, bytes: usize) {
        // SAFETY: the caller guarantees that the bytes are writable.
        unsafe {
            asm!("vmovdqu8 [{to}] {{{mask}}}, {line}", line = in(zmm_reg) transmute::<CacheLine, __m512i>(line),
                mask = in(kreg) (1u64 << bytes) - 1, to = in(reg) to, options(nostack, preserves_flags));
        }
    }
}

/// Loads and stores less than 64 bytes, by words of 8 bytes and then by single bytes.
pub(super) mod words {
    use super::*;

    #[inline(always)]
    pub(in crate::x86) unsafe fn load(from: *const u8, bytes: usize) -> CacheLine {
        let mut words = [0u64; 8];
        let whole = bytes / 8;
        // SAFETY: the caller guarantees that the bytes are readable. The pieces add up to them.
        unsafe {
            for (i, word) in words.iter_mut().enumerate().take(whole) {
                asm!("mov {word}, qword ptr [{from}]", word = lateout(reg) *word,
                    from = in(reg) from.add(8 * i), options(nostack, preserves_flags, readonly));
            }
            for i in 8 * whole..bytes {
                words[whole] |= u64::from(from.add(i).read_volatile()) << (8 * (i % 8));
            }
            transmute(words)
        }
    }

    #[inline(always)]
    pub(in crate::x86) unsafe fn store(to: *mut u8, line: CacheLine, bytes: usize) {
        let whole = bytes / 8;
        // SAFETY: the caller guarantees that the bytes are writable. The pieces add up to them.
        unsafe {
            let words: [u64; 8] = transmute(line);
            for (i, word) in words.into_iter().enumerate().take(whole) {
                asm!("mov qword ptr [{to}], {word}", word = in(reg) word, to = in(reg) to.add(8 * i),
                    options(nostack, preserves_flags));
            }
            for i in 8 * whole..bytes {
                to.add(i).write_volatile((words[whole] >> (8 * (i % 8))) as u8);
            }
        }
    }
}
