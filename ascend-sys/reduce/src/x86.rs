//! The instruction sets of x86_64, AVX-512 and AVX2 with F16C and FMA, made by one macro.
//!
//! The instructions that touch memory are written in assembly (see [`super::isa`]). Each is in a
//! function of its own that has the target feature, and is inlined into a kernel that has it too.
//! There are no closures and iterators here, because they do not inherit the target feature: where
//! they are not inlined, a loop is ten times slower.

mod part;

use super::isa::{CacheLine, Isa};
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::{transmute, transmute_copy};
use part::{masked, words};

/// AVX-512 with F, BW, DQ and VL.
pub(crate) struct Avx512;

/// AVX2 with F16C and FMA.
pub(crate) struct Avx2;

/// Returns whether this processor runs [`Avx512`].
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && has_avx2()
}

/// Returns whether this processor runs [`Avx2`].
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("fma")
}

/// The mask of the upper half of 32 bits, where the odd bf16 of a pair is.
const UPPER_HALF: i32 = 0xFFFF_0000_u32 as i32;

/// Defines an instruction set in which a [`CacheLine`] is `$n` registers of `$bytes` bytes. The
/// further arguments are the names of its instructions.
macro_rules! isa {
    (@write $features:literal, $registers:ident, $halves:ident, $mov:literal, $n:literal of $bytes:literal in $class:ident,
     $letter:literal in $half_class:ident, $int:ident, $half:ident) => {
        /// Writes four registers.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $registers(to: *mut u8, registers: [$int; 4]) {
            let [a, b, c, d] = registers;
            // SAFETY: see above.
            unsafe {
                asm!(concat!($mov, " [{to}], {a}"), concat!($mov, " [{to} + ", $bytes, "], {b}"),
                    concat!($mov, " [{to} + 2 * ", $bytes, "], {c}"),
                    concat!($mov, " [{to} + 3 * ", $bytes, "], {d}"),
                    a = in($class) a, b = in($class) b, c = in($class) c, d = in($class) d,
                    to = in(reg) to, options(nostack, preserves_flags));
            }
        }

        /// Writes two registers in four halves.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $halves(to: *mut u8, halves: [$half; 4]) {
            let [a, b, c, d] = halves;
            // SAFETY: see above.
            unsafe {
                asm!(concat!($mov, " [{to}], {a:", $letter, "}"),
                    concat!($mov, " [{to} + ", $bytes, "/2], {b:", $letter, "}"),
                    concat!($mov, " [{to} + ", $bytes, "], {c:", $letter, "}"),
                    concat!($mov, " [{to} + 3 * ", $bytes, "/2], {d:", $letter, "}"),
                    a = in($half_class) a, b = in($half_class) b, c = in($half_class) c, d = in($half_class) d,
                    to = in(reg) to, options(nostack, preserves_flags));
            }
        }
    };
    ($name:ident: $features:literal, $lines:literal lines, $n:literal of $bytes:literal bytes in $class:ident, $letter:literal in $half_class:ident,
     $int:ident, $float:ident, $half:ident, $mov:literal, $part:ident,
     $widen:ident, $narrow:ident, $left:ident, $and:ident, $all:ident, $all_float:ident,
     $pack:ident, $all_numbers:literal, $numbers:ident) => {
        // In these functions, the caller guarantees the processor, the memory and the alignment:
        // see `Isa`.
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

            /// Loads four registers at once. In single loads, the compiler would compute an address
            /// for each of them.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load_registers(from: *const u8) -> [$int; 4] {
                let (a, b, c, d);
                // SAFETY: see above.
                unsafe {
                    asm!(concat!($mov, " {a}, [{from}]"), concat!($mov, " {b}, [{from} + ", $bytes, "]"),
                        concat!($mov, " {c}, [{from} + 2 * ", $bytes, "]"),
                        concat!($mov, " {d}, [{from} + 3 * ", $bytes, "]"),
                        a = lateout($class) a, b = lateout($class) b, c = lateout($class) c, d = lateout($class) d,
                        from = in(reg) from, options(nostack, preserves_flags, readonly));
                }
                [a, b, c, d]
            }

            /// Loads half a register of fp16 and converts it to fp32.
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

            /// Loads two registers of fp16 in four halves and converts them, as
            /// [`load_wide`](Self::load_wide) does.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load_wides(from: *const u8) -> [$float; 4] {
                let (a, b, c, d);
                // SAFETY: see above.
                unsafe {
                    asm!("vcvtph2ps {a}, [{from}]", concat!("vcvtph2ps {b}, [{from} + ", $bytes, "/2]"),
                        concat!("vcvtph2ps {c}, [{from} + ", $bytes, "]"),
                        concat!("vcvtph2ps {d}, [{from} + 3 * ", $bytes, "/2]"),
                        a = lateout($class) a, b = lateout($class) b, c = lateout($class) c, d = lateout($class) d,
                        from = in(reg) from, options(nostack, preserves_flags, readonly));
                }
                [a, b, c, d]
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

            isa!(@write $features, store_registers, store_halves, $mov, $n of $bytes in $class, $letter in $half_class, $int, $half);
            isa!(@write $features, stream_registers, stream_halves, "vmovntdq", $n of $bytes in $class, $letter in $half_class, $int, $half);

            #[inline]
            #[target_feature(enable = $features)]
            fn keep_register(mut register: $int) -> $int {
                // SAFETY: the assembly has no instruction.
                unsafe {
                    asm!("/* {register} */", register = inout($class) register,
                        options(pure, nomem, nostack, preserves_flags));
                }
                register
            }

            #[inline(always)]
            unsafe fn load_line_f16(from: *const u8) -> [f32; 32] {
                // SAFETY: see above.
                unsafe {
                    let mut wide: [$float; 2 * $n] = transmute([0f32; 32]);
                    for i in 0..2 * $n {
                        wide[i] = Self::load_wide(from.add($bytes / 2 * i));
                    }
                    transmute(wide)
                }
            }

            /// Returns `a + b`, computed as `a * 1 + b`, which gives the same bits. Some processors
            /// (Zen 5) add in the units that also convert fp16, but multiply in other units. The
            /// instruction is in assembly, because the compiler would turn it back into an
            /// addition.
            #[inline]
            #[target_feature(enable = $features)]
            fn add(mut a: $float, b: $float) -> $float {
                // SAFETY: the processor has the instruction, and the instruction touches no memory.
                unsafe {
                    asm!("vfmadd213ps {a}, {one}, {b}", a = inout($class) a, one = in($class) $all_float(1.0),
                        b = in($class) b, options(pure, nomem, nostack, preserves_flags));
                }
                a
            }
        }

        // In the functions below, the caller guarantees the same. A `CacheLine` is as large as its
        // registers, and every bit pattern of them is valid.
        impl Isa for $name {
            const LINES: usize = $lines;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> CacheLine {
                // SAFETY: see above.
                unsafe {
                    let mut line: [$int; $n] = transmute(CacheLine([0; 64]));
                    for i in 0..$n {
                        line[i] = Self::load_register(from.add($bytes * i));
                    }
                    transmute(line)
                }
            }

            #[inline(always)]
            unsafe fn load_lines<const N: usize>(from: *const u8) -> [CacheLine; N] {
                let mut lines = [CacheLine([0; 64]); N];
                // SAFETY: see above.
                unsafe {
                    if N == $lines {
                        lines = transmute_copy(&Self::load_registers(from));
                    } else {
                        for i in 0..N {
                            lines[i] = Self::load(from.add(64 * i));
                        }
                    }
                }
                lines
            }

            #[inline(always)]
            unsafe fn store_lines<const N: usize>(to: *mut u8, lines: &[CacheLine; N], halves: bool) {
                // SAFETY: see above.
                unsafe {
                    if N == $lines && halves {
                        let [first, second]: [[$half; 4]; 2] = transmute_copy(lines);
                        Self::store_halves(to, first);
                        Self::store_halves(to.add(2 * $bytes), second);
                    } else if N == $lines {
                        Self::store_registers(to, transmute_copy(lines));
                    } else {
                        for i in 0..N {
                            Self::store(to.add(64 * i), lines[i]);
                        }
                    }
                }
            }

            #[inline(always)]
            unsafe fn stream_lines<const N: usize>(to: *mut u8, lines: &[CacheLine; N], halves: bool) {
                // SAFETY: see above.
                unsafe {
                    if N == $lines && halves {
                        let [first, second]: [[$half; 4]; 2] = transmute_copy(lines);
                        Self::stream_halves(to, first);
                        Self::stream_halves(to.add(2 * $bytes), second);
                    } else if N == $lines {
                        Self::stream_registers(to, transmute_copy(lines));
                    } else {
                        for i in 0..N {
                            Self::store(to.add(64 * i), lines[i]);
                        }
                    }
                }
            }

            #[inline(always)]
            unsafe fn load_f16<const N: usize>(from: *const u8) -> [[f32; 32]; N] {
                let mut wide = [[0.0; 32]; N];
                // SAFETY: see above.
                unsafe {
                    if N == $lines {
                        wide = transmute_copy(&[Self::load_wides(from), Self::load_wides(from.add(2 * $bytes))]);
                    } else {
                        for i in 0..N {
                            wide[i] = Self::load_line_f16(from.add(64 * i));
                        }
                    }
                }
                wide
            }

            #[inline(always)]
            unsafe fn load_part(from: *const u8, bytes: usize) -> CacheLine {
                // SAFETY: see above.
                unsafe { $part::load(from, bytes) }
            }

            #[inline(always)]
            unsafe fn store(to: *mut u8, line: CacheLine) {
                // SAFETY: see above.
                unsafe {
                    let line: [$int; $n] = transmute(line);
                    for i in 0..$n {
                        Self::store_register(to.add($bytes * i), line[i]);
                    }
                }
            }

            #[inline(always)]
            unsafe fn store_part(to: *mut u8, line: CacheLine, bytes: usize) {
                // SAFETY: see above.
                unsafe { $part::store(to, line, bytes) }
            }

            #[inline(always)]
            unsafe fn fence() {
                // SAFETY: a fence has no requirements. To the compiler the assembly touches memory,
                // so no access moves across it.
                unsafe { asm!("sfence", options(nostack, preserves_flags)) };
            }

            #[inline(always)]
            fn keep(line: CacheLine) -> CacheLine {
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
            fn widen_f16(line: CacheLine) -> [f32; 32] {
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
            fn narrow_f16(wide: [f32; 32]) -> CacheLine {
                // SAFETY: see above.
                unsafe {
                    let wide: [$float; 2 * $n] = transmute(wide);
                    let mut halves: [$half; 2 * $n] = transmute(CacheLine([0; 64]));
                    for i in 0..2 * $n {
                        halves[i] = $narrow::<_MM_FROUND_TO_NEAREST_INT>(wide[i]);
                    }
                    transmute(halves)
                }
            }

            // A word of 32 bits holds an even and an odd bf16, each of which is the upper half of
            // an fp32. The even ones come first in the result, and no element changes its lane.
            #[inline(always)]
            fn widen_bf16(line: CacheLine) -> [f32; 32] {
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
            fn narrow_bf16(wide: [f32; 32]) -> CacheLine {
                // SAFETY: see above.
                unsafe {
                    let wide: [$int; 2 * $n] = transmute(wide);
                    let mut pairs: [$int; $n] = transmute(CacheLine([0; 64]));
                    for i in 0..$n {
                        pairs[i] = $pack(wide[i], wide[$n + i]);
                    }
                    transmute(pairs)
                }
            }

            #[inline(always)]
            fn sum(a: [f32; 32], b: [f32; 32]) -> [f32; 32] {
                // SAFETY: see above.
                unsafe {
                    let mut a: [$float; 2 * $n] = transmute(a);
                    let b: [$float; 2 * $n] = transmute(b);
                    for i in 0..2 * $n {
                        a[i] = Self::add(a[i], b[i]);
                    }
                    transmute(a)
                }
            }

            #[inline(always)]
            fn any_nan<const N: usize>(wide: &[[f32; 32]; N]) -> bool {
                // SAFETY: see above.
                unsafe {
                    let mut numbers = $all_numbers;
                    for i in 0..N {
                        let wide: [$float; 2 * $n] = transmute(wide[i]);
                        for i in 0..$n {
                            numbers = $numbers(numbers, wide[i], wide[$n + i]);
                        }
                    }
                    numbers != $all_numbers
                }
            }
        }
    };
}

isa!(Avx512: "avx512f,avx512bw,avx512dq,avx512vl", 4 lines, 1 of 64 bytes in zmm_reg, "y" in ymm_reg,
    __m512i, __m512, __m256i, "vmovdqu64", masked,
    _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_slli_epi32, _mm512_and_si512, _mm512_set1_epi32, _mm512_set1_ps,
    pack512, 0xFFFF, numbers512);
isa!(Avx2: "avx2,f16c,fma", 2 lines, 2 of 32 bytes in ymm_reg, "x" in xmm_reg,
    __m256i, __m256, __m128i, "vmovdqu", words,
    _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_slli_epi32, _mm256_and_si256, _mm256_set1_epi32, _mm256_set1_ps,
    pack256, 0xFF, numbers256);

// Converts fp32 to bf16: one register takes the upper halves and another one the lower halves, and
// all are rounded at once. An upper half is rounded up if its lower half is more than 0x8000, or if
// the lower half is 0x8000 and the upper half is odd. A NaN stays a NaN: its lower half is zero,
// since bf16 has no bits for it.

/// Returns the order of the 16-bit halves of two registers of fp32, even and odd. It selects the
/// lower half of each fp32 if `upper` is 0, and the upper half if `upper` is 1.
const fn interleaved(upper: u16) -> [u16; 32] {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 16 {
        order[2 * i] = 2 * i as u16 + upper;
        order[2 * i + 1] = 32 + 2 * i as u16 + upper;
        i += 1;
    }
    order
}

/// Converts even and odd fp32 to a register of bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pack512(even: __m512i, odd: __m512i) -> __m512i {
    const UPPER: [u16; 32] = interleaved(1);
    const LOWER: [u16; 32] = interleaved(0);
    // SAFETY: all types are 64 bytes of plain data.
    let (upper, lower) =
        unsafe { (transmute::<[u16; 32], __m512i>(UPPER), transmute::<[u16; 32], __m512i>(LOWER)) };
    let upper = _mm512_permutex2var_epi16(even, upper, odd);
    let lower = _mm512_permutex2var_epi16(even, lower, odd);
    let one = _mm512_set1_epi16(1);
    let lower = _mm512_or_si512(lower, _mm512_and_si512(upper, one));
    // The addition is in assembly, since the compiler would expand the mask into a register and
    // subtract that register.
    let up = _mm512_cmpgt_epu16_mask(lower, _mm512_set1_epi16(i16::MIN));
    let mut rounded = upper;
    // SAFETY: the processor has the instruction, and the instruction touches no memory.
    unsafe {
        asm!("vpaddw {rounded} {{{up}}}, {rounded}, {one}", rounded = inout(zmm_reg) rounded, up = in(kreg) up,
            one = in(zmm_reg) one, options(pure, nomem, nostack, preserves_flags));
    }
    rounded
}

/// Converts even and odd fp32 to a register of bf16.
#[inline]
#[target_feature(enable = "avx2")]
fn pack256(even: __m256i, odd: __m256i) -> __m256i {
    let upper = _mm256_blend_epi16::<0b1010_1010>(_mm256_srli_epi32::<16>(even), odd);
    let lower = _mm256_blend_epi16::<0b1010_1010>(even, _mm256_slli_epi32::<16>(odd));
    // AVX2 has no unsigned comparison. So 1 is subtracted from the lower half if the upper half is
    // even; then the upper half is rounded up if the lower half is at least 0x8000.
    let even = _mm256_andnot_si256(upper, _mm256_set1_epi16(1));
    let up = _mm256_srai_epi16::<15>(_mm256_subs_epu16(lower, even));
    _mm256_sub_epi16(upper, up)
}

/// Returns the lanes of `so_far` in which both `a` and `b` are numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn numbers512(so_far: u16, a: __m512, b: __m512) -> u16 {
    _mm512_mask_cmp_ps_mask::<_CMP_ORD_Q>(so_far, a, b)
}

/// Returns the lanes of `so_far` in which both `a` and `b` are numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn numbers256(so_far: i32, a: __m256, b: __m256) -> i32 {
    so_far & _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_ORD_Q>(a, b))
}
