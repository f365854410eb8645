//! x86_64: AVX-512, and AVX2 with F16C. The instructions that touch memory are written in assembly (see [`super::isa`]); each
//! sits in a function of its own that has the target feature, and is inlined into a kernel that has it too. (Closures and iterators do not
//! take on the feature; where they are not inlined they cost a factor of ten, so there are none here.)

use super::isa::{Isa, Line};
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::transmute;

/// AVX-512 with F, BW, DQ and VL.
pub(crate) struct Avx512;

/// AVX2 with F16C.
pub(crate) struct Avx2;

/// Whether this processor runs [`Avx512`].
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && has_avx2()
}

/// Whether this processor runs [`Avx2`].
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load512(from: *const u8) -> __m512i {
    let line;
    // SAFETY: the caller promises 64 readable bytes.
    unsafe {
        asm!("vmovdqu64 {line}, [{from}]", line = lateout(zmm_reg) line, from = in(reg) from,
            options(nostack, preserves_flags, readonly));
    }
    line
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load512_part(from: *const u8, mask: u64) -> __m512i {
    let line;
    // SAFETY: the caller promises that the bytes named by the mask are readable; the others are not accessed.
    unsafe {
        asm!("vmovdqu8 {line} {{{mask}}} {{z}}, [{from}]", line = lateout(zmm_reg) line,
            mask = in(kreg) mask, from = in(reg) from, options(nostack, preserves_flags, readonly));
    }
    line
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store512(to: *mut u8, line: __m512i) {
    // SAFETY: the caller promises 64 writable bytes.
    unsafe {
        asm!("vmovdqu64 [{to}], {line}", line = in(zmm_reg) line, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store512_part(to: *mut u8, line: __m512i, mask: u64) {
    // SAFETY: the caller promises that the bytes named by the mask are writable; the others are not accessed.
    unsafe {
        asm!("vmovdqu8 [{to}] {{{mask}}}, {line}", line = in(zmm_reg) line, mask = in(kreg) mask,
            to = in(reg) to, options(nostack, preserves_flags));
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn stream512(to: *mut u8, line: __m512i) {
    // SAFETY: the caller promises 64 writable bytes at a multiple of 64.
    unsafe {
        asm!("vmovntdq [{to}], {line}", line = in(zmm_reg) line, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load256(from: *const u8) -> __m256i {
    let half;
    // SAFETY: the caller promises 32 readable bytes.
    unsafe {
        asm!("vmovdqu {half}, [{from}]", half = lateout(ymm_reg) half, from = in(reg) from,
            options(nostack, preserves_flags, readonly));
    }
    half
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store256(to: *mut u8, half: __m256i) {
    // SAFETY: the caller promises 32 writable bytes.
    unsafe {
        asm!("vmovdqu [{to}], {half}", half = in(ymm_reg) half, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn stream256(to: *mut u8, half: __m256i) {
    // SAFETY: the caller promises 32 writable bytes at a multiple of 32.
    unsafe {
        asm!("vmovntdq [{to}], {half}", half = in(ymm_reg) half, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

/// Eight bytes at any address.
#[inline(always)]
unsafe fn load64(from: *const u8) -> u64 {
    let word;
    // SAFETY: the caller promises 8 readable bytes.
    unsafe {
        asm!("mov {word}, qword ptr [{from}]", word = lateout(reg) word, from = in(reg) from,
            options(nostack, preserves_flags, readonly));
    }
    word
}

/// Eight bytes at any address.
#[inline(always)]
unsafe fn store64(to: *mut u8, word: u64) {
    // SAFETY: the caller promises 8 writable bytes.
    unsafe {
        asm!("mov qword ptr [{to}], {word}", word = in(reg) word, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
unsafe fn store_fence() {
    // SAFETY: a fence has no requirements. The compiler takes it to touch memory, so no access moves across it.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

/// The place of an odd bf16 in 32 bits.
const UPPER_HALF: i32 = 0xFFFF_0000_u32 as i32;

/// fp32 that are no NaN but the canonical one, rounded to bf16 in their upper halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn round512(word: __m512i) -> __m512i {
    let ties = _mm512_and_si512(_mm512_srli_epi32::<16>(word), _mm512_set1_epi32(1));
    _mm512_add_epi32(word, _mm512_add_epi32(ties, _mm512_set1_epi32(0x7FFF)))
}

/// As [`round512`].
#[inline]
#[target_feature(enable = "avx2")]
fn round256(word: __m256i) -> __m256i {
    let ties = _mm256_and_si256(_mm256_srli_epi32::<16>(word), _mm256_set1_epi32(1));
    _mm256_add_epi32(word, _mm256_add_epi32(ties, _mm256_set1_epi32(0x7FFF)))
}

/// Even and odd fp32, rounded and put together as pairs of bf16.
#[inline]
#[target_feature(enable = "avx2")]
fn pair256(even: __m256i, odd: __m256i) -> __m256i {
    let odd = _mm256_and_si256(round256(odd), _mm256_set1_epi32(UPPER_HALF));
    _mm256_or_si256(_mm256_srli_epi32::<16>(round256(even)), odd)
}

// In the functions below: the caller promises the processor, the memory and the alignment (see `Isa`), and a `Line` is as
// large as one 512-bit or two 256-bit registers, of which every bit pattern is valid.

impl Isa for Avx512 {
    const LINES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Line {
        // SAFETY: see above.
        unsafe { transmute(load512(from)) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Line {
        // SAFETY: see above.
        unsafe { transmute(load512_part(from, (1 << bytes) - 1)) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, line: Line) {
        // SAFETY: see above.
        unsafe { store512(to, transmute::<Line, __m512i>(line)) }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, line: Line, bytes: usize) {
        // SAFETY: see above.
        unsafe { store512_part(to, transmute::<Line, __m512i>(line), (1 << bytes) - 1) }
    }

    #[inline(always)]
    unsafe fn stream(to: *mut u8, line: Line) {
        // SAFETY: see above.
        unsafe { stream512(to, transmute::<Line, __m512i>(line)) }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: see above.
        unsafe { store_fence() }
    }

    #[inline(always)]
    fn widen_f16(line: Line) -> [f32; 32] {
        // SAFETY: see above.
        unsafe {
            let halves: [__m256i; 2] = transmute(line);
            transmute([_mm512_cvtph_ps(halves[0]), _mm512_cvtph_ps(halves[1])])
        }
    }

    #[inline(always)]
    fn narrow_f16(wide: [f32; 32]) -> Line {
        // SAFETY: see above.
        unsafe {
            let wide: [__m512; 2] = transmute(wide);
            transmute([
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide[0]),
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide[1]),
            ])
        }
    }

    // 32 bits of memory hold an even and an odd bf16, each the upper half of an fp32: the even ones come first, and no element changes
    // lanes.
    #[inline(always)]
    fn widen_bf16(line: Line) -> [f32; 32] {
        // SAFETY: see above.
        unsafe {
            let pairs: __m512i = transmute(line);
            let even = _mm512_slli_epi32::<16>(pairs);
            let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(UPPER_HALF));
            transmute([even, odd])
        }
    }

    #[inline(always)]
    fn narrow_bf16(wide: [f32; 32]) -> Line {
        // SAFETY: see above.
        unsafe {
            let wide: [__m512i; 2] = transmute(wide);
            let (even, odd) = (round512(wide[0]), round512(wide[1]));
            let odd = _mm512_and_si512(odd, _mm512_set1_epi32(UPPER_HALF));
            transmute(_mm512_or_si512(_mm512_srli_epi32::<16>(even), odd))
        }
    }
}

impl Isa for Avx2 {
    const LINES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Line {
        // SAFETY: see above.
        unsafe { transmute([load256(from), load256(from.add(32))]) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Line {
        let mut words = [0u64; 8];
        let whole = bytes / 8;
        // SAFETY: see above; the pieces add up to `bytes`.
        unsafe {
            for (i, word) in words.iter_mut().enumerate().take(whole) {
                *word = load64(from.add(8 * i));
            }
            for i in 8 * whole..bytes {
                words[whole] |= u64::from(from.add(i).read_volatile()) << (8 * (i % 8));
            }
            transmute(words)
        }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, line: Line) {
        // SAFETY: see above.
        unsafe {
            let halves: [__m256i; 2] = transmute(line);
            store256(to, halves[0]);
            store256(to.add(32), halves[1]);
        }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, line: Line, bytes: usize) {
        let whole = bytes / 8;
        // SAFETY: see above; the pieces add up to `bytes`.
        unsafe {
            let words: [u64; 8] = transmute(line);
            for (i, word) in words.into_iter().enumerate().take(whole) {
                store64(to.add(8 * i), word);
            }
            for i in 8 * whole..bytes {
                to.add(i).write_volatile((words[whole] >> (8 * (i % 8))) as u8);
            }
        }
    }

    #[inline(always)]
    unsafe fn stream(to: *mut u8, line: Line) {
        // SAFETY: see above.
        unsafe {
            let halves: [__m256i; 2] = transmute(line);
            stream256(to, halves[0]);
            stream256(to.add(32), halves[1]);
        }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: see above.
        unsafe { store_fence() }
    }

    #[inline(always)]
    fn widen_f16(line: Line) -> [f32; 32] {
        // SAFETY: see above.
        unsafe {
            let quarters: [__m128i; 4] = transmute(line);
            transmute([
                _mm256_cvtph_ps(quarters[0]),
                _mm256_cvtph_ps(quarters[1]),
                _mm256_cvtph_ps(quarters[2]),
                _mm256_cvtph_ps(quarters[3]),
            ])
        }
    }

    #[inline(always)]
    fn narrow_f16(wide: [f32; 32]) -> Line {
        // SAFETY: see above.
        unsafe {
            let wide: [__m256; 4] = transmute(wide);
            transmute([
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide[0]),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide[1]),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide[2]),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide[3]),
            ])
        }
    }

    // As in `Avx512`.
    #[inline(always)]
    fn widen_bf16(line: Line) -> [f32; 32] {
        // SAFETY: see above.
        unsafe {
            let halves: [__m256i; 2] = transmute(line);
            let odd = _mm256_set1_epi32(UPPER_HALF);
            transmute([
                _mm256_slli_epi32::<16>(halves[0]),
                _mm256_slli_epi32::<16>(halves[1]),
                _mm256_and_si256(halves[0], odd),
                _mm256_and_si256(halves[1], odd),
            ])
        }
    }

    #[inline(always)]
    fn narrow_bf16(wide: [f32; 32]) -> Line {
        // SAFETY: see above.
        unsafe {
            let wide: [__m256i; 4] = transmute(wide);
            transmute([pair256(wide[0], wide[2]), pair256(wide[1], wide[3])])
        }
    }
}
