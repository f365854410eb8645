//! Copies and fills of device memory.
//!
//! As in the reductions, a racing program may write the memory during a copy. So only assembly and
//! volatile accesses through raw pointers touch the memory: the only effect of a race is that bytes
//! are unspecified. Where the processor has no instruction for a large copy, the copy is a
//! reduction of one input, which only moves bytes.

use crate::{DataType, ReduceOp, Store, reduce_chunk};

/// Copies `bytes` bytes from `src` to `dst`.
///
/// # Safety
///
/// `src` must be readable and `dst` writable for `bytes` bytes. They must be the same address or
/// must not overlap. Any alignment is allowed. Other threads may write the memory during the call:
/// then the affected bytes are unspecified.
#[inline]
pub unsafe fn copy(dst: *mut u8, src: *const u8, bytes: usize, store: Store) {
    // SAFETY: the caller guarantees both buffers.
    unsafe {
        if bytes <= 64 {
            small::copy(dst, src, bytes);
        } else if dst.cast_const() != src {
            large(dst, src, bytes, store);
        }
    }
}

/// Sets `bytes` bytes at `dst` to `byte`.
///
/// # Safety
///
/// `dst` must be writable for `bytes` bytes. Any alignment is allowed. Other threads may access the
/// memory during the call.
pub unsafe fn fill(dst: *mut u8, byte: u8, bytes: usize) {
    // SAFETY: the caller guarantees that the bytes are writable. The direction flag is clear, as
    // everywhere in Rust.
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    unsafe {
        core::arch::asm!("rep stosb", inout("rdi") dst => _, inout("rcx") bytes => _, in("al") byte,
            options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, plain_memory)))))]
    // SAFETY: the caller guarantees that the bytes are writable.
    unsafe {
        fill_lines(dst, [byte; 64], bytes)
    };
}

/// Sets `count` words of 4 bytes at `dst` to `word`.
///
/// # Safety
///
/// As for [`fill`], with `4 * count` bytes.
pub unsafe fn fill_words(dst: *mut u8, word: u32, count: usize) {
    // SAFETY: the caller guarantees that the bytes are writable. The direction flag is clear, as
    // everywhere in Rust.
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    unsafe {
        core::arch::asm!("rep stosd", inout("rdi") dst => _, inout("rcx") count => _, in("eax") word,
            options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, plain_memory)))))]
    {
        let mut line = [0; 64];
        line.as_chunks_mut::<4>().0.fill(word.to_ne_bytes());
        // SAFETY: the caller guarantees that the bytes are writable.
        unsafe { fill_lines(dst, line, 4 * count) };
    }
}

/// Fills `bytes` bytes with repetitions of the line. The last repetition may be cut off.
///
/// # Safety
///
/// As for [`fill`].
#[cfg(not(all(target_arch = "x86_64", not(any(miri, plain_memory)))))]
unsafe fn fill_lines(dst: *mut u8, line: [u8; 64], bytes: usize) {
    use crate::isa::{CacheLine, Isa, Portable};
    let (whole, line) = (bytes / 64 * 64, CacheLine(line));
    // SAFETY: the caller guarantees that the bytes are writable. The whole lines and the part after
    // them add up to `bytes`.
    unsafe {
        for at in (0..whole).step_by(64) {
            Portable::store(dst.add(at), line);
        }
        Portable::store_part(dst.add(whole), line, bytes - whole);
    }
}

/// Copies more than 64 bytes.
///
/// # Safety
///
/// As for [`copy`].
unsafe fn large(dst: *mut u8, src: *const u8, bytes: usize, store: Store) {
    // From a page upwards, the processor's own copy instruction is the fastest way through the
    // caches, if the processor says that it is fast. The C library uses it for such sizes too. On
    // other processors it moves single bytes, unless both buffers are aligned.
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    if bytes >= 4096 && store == Store::Plain {
        if is_x86_feature_detected!("ermsb") {
            // SAFETY: the caller guarantees both buffers. The direction flag is clear, as
            // everywhere in Rust.
            unsafe {
                core::arch::asm!("rep movsb", inout("rdi") dst => _, inout("rsi") src => _,
                    inout("rcx") bytes => _, options(nostack, preserves_flags));
            }
            return;
        }
        if is_x86_feature_detected!("avx") {
            // SAFETY: the processor has AVX, and the caller guarantees both buffers.
            return unsafe { registers(dst, src, bytes) };
        }
    }
    // SAFETY: the caller guarantees both buffers. A reduction never rejects a single input.
    unsafe { reduce_chunk(DataType::Uint8, ReduceOp::Sum, &[src], &[dst], bytes, store) };
}

/// Copies at least 256 bytes through registers of 32 bytes. The stores of the loop are aligned.
///
/// # Safety
///
/// As for [`copy`], with at least 256 bytes. The processor must have AVX.
#[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
#[target_feature(enable = "avx")]
unsafe fn registers(dst: *mut u8, src: *const u8, bytes: usize) {
    // The bytes before the first aligned store, 1 to 32.
    let head = 32 - dst.addr() % 32;
    let rounds = (bytes - head) / 128;
    // SAFETY: the caller guarantees both buffers. The head of 32 bytes, the rounds, and the last
    // 128 bytes all lie inside them, and together they are all bytes. Pieces that overlap write the
    // same bytes, because the buffers do not overlap.
    unsafe {
        core::arch::asm!(
            "vmovups {a}, [{src}]",
            "vmovups [{dst}], {a}",
            "add {src}, {head}",
            "add {dst}, {head}",
            "2:",
            "vmovups {a}, [{src}]",
            "vmovups {b}, [{src} + 32]",
            "vmovups {c}, [{src} + 64]",
            "vmovups {d}, [{src} + 96]",
            "vmovaps [{dst}], {a}",
            "vmovaps [{dst} + 32], {b}",
            "vmovaps [{dst} + 64], {c}",
            "vmovaps [{dst} + 96], {d}",
            "sub {src}, -128",
            "sub {dst}, -128",
            "dec {rounds}",
            "jnz 2b",
            "vmovups {a}, [{last}]",
            "vmovups {b}, [{last} + 32]",
            "vmovups {c}, [{last} + 64]",
            "vmovups {d}, [{last} + 96]",
            "vmovups [{end}], {a}",
            "vmovups [{end} + 32], {b}",
            "vmovups [{end} + 64], {c}",
            "vmovups [{end} + 96], {d}",
            src = inout(reg) src => _,
            dst = inout(reg) dst => _,
            head = in(reg) head,
            rounds = inout(reg) rounds => _,
            last = in(reg) src.add(bytes - 128),
            end = in(reg) dst.add(bytes - 128),
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            c = out(ymm_reg) _,
            d = out(ymm_reg) _,
            options(nostack),
        );
    }
}

/// Copies at most 64 bytes with inlined code. A copy moves the first and the last piece, each with
/// a power of two of bytes; the two may overlap. All reads come before the first write.
#[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
mod small {
    use core::arch::asm;

    /// Moves one piece at the start and one at the end. `$bytes` is the number of bytes of a piece.
    macro_rules! ends {
        ($dst:ident, $src:ident, $n:ident, $bytes:literal, $class:ident, $register:literal, $mov:literal) => {
            asm!(
                concat!($mov, " {a", $register, "}, [{src}]"),
                concat!($mov, " {b", $register, "}, [{src} + {n} - ", $bytes, "]"),
                concat!($mov, " [{dst}], {a", $register, "}"),
                concat!($mov, " [{dst} + {n} - ", $bytes, "], {b", $register, "}"),
                a = out($class) _,
                b = out($class) _,
                src = in(reg) $src,
                dst = in(reg) $dst,
                n = in(reg) $n,
                options(nostack, preserves_flags),
            )
        };
    }

    /// Copies at most 64 bytes.
    ///
    /// # Safety
    ///
    /// As for [`copy`](super::copy), with at most 64 bytes.
    #[inline]
    pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, n: usize) {
        // SAFETY: the caller guarantees both buffers. No piece is longer than `n`.
        unsafe {
            match n {
                33.. => asm!(
                    "movups {a}, [{src}]",
                    "movups {b}, [{src} + 16]",
                    "movups {c}, [{src} + {n} - 32]",
                    "movups {d}, [{src} + {n} - 16]",
                    "movups [{dst}], {a}",
                    "movups [{dst} + 16], {b}",
                    "movups [{dst} + {n} - 32], {c}",
                    "movups [{dst} + {n} - 16], {d}",
                    a = out(xmm_reg) _,
                    b = out(xmm_reg) _,
                    c = out(xmm_reg) _,
                    d = out(xmm_reg) _,
                    src = in(reg) src,
                    dst = in(reg) dst,
                    n = in(reg) n,
                    options(nostack, preserves_flags),
                ),
                16.. => ends!(dst, src, n, "16", xmm_reg, "", "movups"),
                8.. => ends!(dst, src, n, "8", reg, "", "mov"),
                4.. => ends!(dst, src, n, "4", reg, ":e", "mov"),
                2.. => ends!(dst, src, n, "2", reg, ":x", "mov"),
                1 => dst.write_volatile(src.read_volatile()),
                0 => {}
            }
        }
    }
}

/// Copies of at most 64 bytes.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, plain_memory)))))]
mod small {
    use crate::isa::{Isa, Portable};

    /// Copies at most 64 bytes.
    ///
    /// # Safety
    ///
    /// As for [`copy`](super::copy), with at most 64 bytes.
    #[inline]
    pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, n: usize) {
        // SAFETY: the caller guarantees both buffers.
        unsafe { Portable::store_part(dst, Portable::load_part(src, n), n) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: &[usize] = if cfg!(miri) {
        &[0, 1, 3, 63, 64, 65, 1100]
    } else {
        &[
            0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 127, 128, 1023,
            1024, 1025, 4096, 5000,
        ]
    };

    /// Room for the largest size at any of the alignments.
    const ROOM: usize = if cfg!(miri) { 1200 } else { 6000 };

    /// Calls `call` with every size at several alignments, and checks that no byte outside the
    /// target changes.
    fn every_size(call: impl Fn(&mut [u8], &[u8], usize, usize, usize)) {
        let source: Vec<u8> = (0..ROOM).map(|i| (i * 7 % 251) as u8).collect();
        for &bytes in SIZES {
            for (to, from) in [(0, 0), (1, 0), (0, 3), (64, 8), (33, 17)] {
                let mut target = vec![0xEE; ROOM];
                call(&mut target, &source, to, from, bytes);
                assert!(target[..to].iter().all(|b| *b == 0xEE), "{bytes} bytes to {to}: before");
                assert!(
                    target[to + bytes..].iter().all(|b| *b == 0xEE),
                    "{bytes} bytes to {to}: behind"
                );
            }
        }
    }

    #[test]
    fn copies_exactly_the_bytes() {
        for store in [Store::Plain, Store::Streaming] {
            every_size(|target, source, to, from, bytes| {
                // SAFETY: both vectors are long enough.
                unsafe {
                    copy(target.as_mut_ptr().add(to), source.as_ptr().add(from), bytes, store);
                }
                assert_eq!(target[to..to + bytes], source[from..from + bytes], "{bytes} bytes");
            });
        }
    }

    /// Tests `registers` directly, because on this machine `large` may copy in another way.
    #[test]
    #[cfg(all(target_arch = "x86_64", not(any(miri, plain_memory))))]
    fn registers_copy_exactly_the_bytes() {
        if !is_x86_feature_detected!("avx") {
            println!("this processor has no AVX");
            return;
        }
        for bytes in (256..=400).chain([4095, 4096, 4097, 5000]) {
            for to in [0, 1, 16, 31, 32, 33] {
                for from in [0, 1, 16, 33] {
                    let source: Vec<u8> = (0..ROOM).map(|i| (i * 7 % 251) as u8).collect();
                    let mut target = vec![0xEE; ROOM];
                    // SAFETY: both vectors are long enough, and the processor has AVX.
                    unsafe {
                        registers(target.as_mut_ptr().add(to), source.as_ptr().add(from), bytes);
                    }
                    assert_eq!(target[to..to + bytes], source[from..from + bytes], "{bytes} bytes");
                    let around = target[..to].iter().chain(&target[to + bytes..]);
                    assert!(around.copied().all(|byte| byte == 0xEE), "{bytes} bytes to {to}");
                }
            }
        }
    }

    #[test]
    fn fills_exactly_the_bytes() {
        every_size(|target, _, to, _, bytes| {
            // SAFETY: the vector is long enough.
            unsafe { fill(target.as_mut_ptr().add(to), 0x5A, bytes) };
            assert!(target[to..to + bytes].iter().all(|b| *b == 0x5A), "{bytes} bytes");
        });
    }

    #[test]
    fn fills_exactly_the_words() {
        every_size(|target, _, to, _, bytes| {
            let word = 0x0403_0201_u32;
            // SAFETY: the vector is long enough.
            unsafe { fill_words(target.as_mut_ptr().add(to), word, bytes / 4) };
            let (words, rest) = target[to..to + bytes].as_chunks::<4>();
            assert!(words.iter().all(|it| *it == word.to_ne_bytes()), "{bytes} bytes");
            assert!(rest.iter().all(|byte| *byte == 0xEE), "{bytes} bytes: behind the words");
        });
    }

    #[test]
    fn a_copy_onto_itself_changes_nothing() {
        for &bytes in SIZES {
            let mut memory: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            let before = memory.clone();
            let start = memory.as_mut_ptr();
            // SAFETY: source and target are the same address.
            unsafe { copy(start, start, bytes, Store::Plain) };
            assert_eq!(memory, before);
        }
    }
}
