//! x86_64: AVX-512, and AVX2 with F16C, from one text. The instructions that touch memory are written in assembly (see
//! [`super::isa`]); each sits in a function of its own that has the target feature, and is inlined into a kernel that has it too. (Closures and
//! iterators do not take on the feature; where they are not inlined they cost a factor of ten, so there are none here.)

mod part;

use super::isa::{Isa, Line};
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::transmute;
use part::{masked, words};

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

/// The place of an odd bf16 in 32 bits.
const UPPER_HALF: i32 = 0xFFFF_0000_u32 as i32;

/// An instruction set in which a [`Line`] is `$n` registers of `$bytes` bytes. The names are those of its instructions.
macro_rules! isa {
    ($name:ident: $features:literal, $lines:literal lines, $n:literal of $bytes:literal bytes in $class:ident,
     $int:ident, $float:ident, $half:ident, $mov:literal, $part:ident,
     $widen:ident, $narrow:ident, $unordered:ident, $canonical:ident, $left:ident, $right:ident, $and:ident, $or:ident, $add:ident, $all:ident) => {
        // In these functions the caller promises the processor, the memory and the alignment: see `Isa`.
        impl $name {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load_register(from: *const u8) -> $int {
                let register;
                // SAFETY: see above.
                unsafe {
                    asm!(concat!($mov, " {register}, [{from}]"), register = lateout($class) register,
                        from = in(reg) from, options(nostack, preserves_flags, readonly));
                }
                register
            }

            /// Half a register of fp16, converted on its way.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load_wide(from: *const u8) -> $float {
                let register;
                // SAFETY: see above.
                unsafe {
                    asm!("vcvtph2ps {register}, [{from}]", register = lateout($class) register,
                        from = in(reg) from, options(nostack, preserves_flags, readonly));
                }
                register
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store_register(to: *mut u8, register: $int) {
                // SAFETY: see above.
                unsafe {
                    asm!(concat!($mov, " [{to}], {register}"), register = in($class) register,
                        to = in(reg) to, options(nostack, preserves_flags));
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn stream_register(to: *mut u8, register: $int) {
                // SAFETY: see above.
                unsafe {
                    asm!("vmovntdq [{to}], {register}", register = in($class) register,
                        to = in(reg) to, options(nostack, preserves_flags));
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn keep_register(mut register: $int) -> $int {
                // SAFETY: there is no instruction.
                unsafe {
                    asm!("/* {register} */", register = inout($class) register,
                        options(pure, nomem, nostack, preserves_flags));
                }
                register
            }

            /// fp32 rounded to bf16 in their upper halves; a NaN is the canonical one.
            #[inline]
            #[target_feature(enable = $features)]
            fn round(word: $int) -> $int {
                let ties = $and($right::<16>(word), $all(1));
                $add(word, $add(ties, $all(0x7FFF)))
            }
        }

        // In the functions below: the caller promises as above, and a `Line` is as large as the registers, of which every bit
        // pattern is valid.
        impl Isa for $name {
            const LINES: usize = $lines;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Line {
                // SAFETY: see above.
                unsafe {
                    let mut line: [$int; $n] = transmute(Line([0; 64]));
                    for i in 0..$n {
                        line[i] = Self::load_register(from.add($bytes * i));
                    }
                    transmute(line)
                }
            }

            #[inline(always)]
            unsafe fn load_part(from: *const u8, bytes: usize) -> Line {
                // SAFETY: see above.
                unsafe { $part::load(from, bytes) }
            }

            #[inline(always)]
            unsafe fn store(to: *mut u8, line: Line) {
                // SAFETY: see above.
                unsafe {
                    let line: [$int; $n] = transmute(line);
                    for i in 0..$n {
                        Self::store_register(to.add($bytes * i), line[i]);
                    }
                }
            }

            #[inline(always)]
            unsafe fn store_part(to: *mut u8, line: Line, bytes: usize) {
                // SAFETY: see above.
                unsafe { $part::store(to, line, bytes) }
            }

            #[inline(always)]
            unsafe fn stream(to: *mut u8, line: Line) {
                // SAFETY: see above.
                unsafe {
                    let line: [$int; $n] = transmute(line);
                    for i in 0..$n {
                        Self::stream_register(to.add($bytes * i), line[i]);
                    }
                }
            }

            #[inline(always)]
            unsafe fn fence() {
                // SAFETY: a fence has no requirements. The compiler takes it to touch memory: no access moves across it.
                unsafe { asm!("sfence", options(nostack, preserves_flags)) };
            }

            #[inline(always)]
            fn keep(line: Line) -> Line {
                // SAFETY: see above.
                unsafe {
                    let mut line: [$int; $n] = transmute(line);
                    for i in 0..$n {
                        line[i] = Self::keep_register(line[i]);
                    }
                    transmute(line)
                }
            }

            #[inline(always)]
            unsafe fn load_f16(from: *const u8) -> [f32; 32] {
                // SAFETY: see above.
                unsafe {
                    let mut wide: [$float; 2 * $n] = transmute([0f32; 32]);
                    for i in 0..2 * $n {
                        wide[i] = Self::load_wide(from.add($bytes / 2 * i));
                    }
                    transmute(wide)
                }
            }

            #[inline(always)]
            fn widen_f16(line: Line) -> [f32; 32] {
                // SAFETY: see above.
                unsafe {
                    let halves: [$half; 2 * $n] = transmute(line);
                    let mut wide: [$float; 2 * $n] = transmute([0f32; 32]);
                    for i in 0..2 * $n {
                        wide[i] = $widen(halves[i]);
                    }
                    transmute(wide)
                }
            }

            #[inline(always)]
            fn narrow_f16(wide: [f32; 32]) -> Line {
                // SAFETY: see above.
                unsafe {
                    let wide = Self::canonical(wide);
                    let mut halves: [$half; 2 * $n] = transmute(Line([0; 64]));
                    for i in 0..2 * $n {
                        halves[i] = $narrow::<_MM_FROUND_TO_NEAREST_INT>(wide[i]);
                    }
                    transmute(halves)
                }
            }

            // 32 bits of memory hold an even and an odd bf16, each the upper half of an fp32: the even ones come first, and
            // no element changes lanes.
            #[inline(always)]
            fn widen_bf16(line: Line) -> [f32; 32] {
                // SAFETY: see above.
                unsafe {
                    let pairs: [$int; $n] = transmute(line);
                    let mut wide: [$int; 2 * $n] = transmute([0f32; 32]);
                    for i in 0..$n {
                        wide[i] = $left::<16>(pairs[i]);
                        wide[$n + i] = $and(pairs[i], $all(UPPER_HALF));
                    }
                    transmute(wide)
                }
            }

            #[inline(always)]
            fn narrow_bf16(wide: [f32; 32]) -> Line {
                // SAFETY: see above.
                unsafe {
                    let wide: [$int; 2 * $n] = transmute(Self::canonical(wide));
                    let mut pairs: [$int; $n] = transmute(Line([0; 64]));
                    for i in 0..$n {
                        let odd = $and(Self::round(wide[$n + i]), $all(UPPER_HALF));
                        pairs[i] = $or($right::<16>(Self::round(wide[i])), odd);
                    }
                    transmute(pairs)
                }
            }
        }

        impl $name {
            /// Looks for NaNs in pairs of registers, since there hardly ever are any.
            #[inline(always)]
            unsafe fn canonical(wide: [f32; 32]) -> [$float; 2 * $n] {
                // SAFETY: see above.
                unsafe {
                    let mut registers: [$float; 2 * $n] = transmute(wide);
                    let mut any = false;
                    for i in 0..$n {
                        any |= $unordered(registers[i], registers[$n + i]);
                    }
                    if any {
                        for i in 0..2 * $n {
                            registers[i] = $canonical(registers[i]);
                        }
                    }
                    registers
                }
            }
        }
    };
}

isa!(Avx512: "avx512f,avx512bw,avx512dq,avx512vl", 4 lines, 1 of 64 bytes in zmm_reg,
    __m512i, __m512, __m256i, "vmovdqu64", masked,
    _mm512_cvtph_ps, _mm512_cvtps_ph, unordered512, canonical512, _mm512_slli_epi32, _mm512_srli_epi32,
    _mm512_and_si512, _mm512_or_si512, _mm512_add_epi32, _mm512_set1_epi32);
isa!(Avx2: "avx2", 2 lines, 2 of 32 bytes in ymm_reg,
    __m256i, __m256, __m128i, "vmovdqu", words,
    _mm256_cvtph_ps, _mm256_cvtps_ph, unordered256, canonical256, _mm256_slli_epi32, _mm256_srli_epi32,
    _mm256_and_si256, _mm256_or_si256, _mm256_add_epi32, _mm256_set1_epi32);

/// Whether a NaN is in `a` or in `b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn unordered512(a: __m512, b: __m512) -> bool {
    _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) != 0
}

/// Whether a NaN is in `a` or in `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn unordered256(a: __m256, b: __m256) -> bool {
    _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, b)) != 0
}

/// Replaces every NaN by the canonical one. Out of line, so that its work stays in the branch.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn canonical512(x: __m512) -> __m512 {
    _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x), _mm512_set1_ps(f32::NAN))
}

/// As [`canonical512`].
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn canonical256(x: __m256) -> __m256 {
    _mm256_blendv_ps(x, _mm256_set1_ps(f32::NAN), _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
}
