//! Copying and filling memory that others may be writing.
//!
//! Device memory is outside Rust's memory model: these are the only loads and stores of it in the runtime part, all of
//! them volatile or in assembly, so that a racing program gets unspecified bytes and nothing worse.

const WORD: usize = size_of::<u64>();

/// Copies `bytes` bytes. Overlapping ranges give unspecified bytes.
///
/// # Safety
/// Both ranges are mapped, the destination is writable.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    if bytes > 128 {
        // SAFETY: the caller's promise.
        return unsafe { copy_many(to, from, bytes) };
    }
    let mut at = 0;
    // SAFETY: every access lies within `bytes`; the unaligned type makes any address good.
    unsafe {
        while at + WORD <= bytes {
            let word = from.add(at).cast::<Unaligned>().read_volatile();
            to.add(at).cast::<Unaligned>().write_volatile(word);
            at += WORD;
        }
        while at < bytes {
            to.add(at).write_volatile(from.add(at).read_volatile());
            at += 1;
        }
    }
}

/// Sets `bytes` bytes.
///
/// # Safety
/// The range is mapped and writable.
#[inline]
pub(crate) unsafe fn fill(to: *mut u8, value: u8, bytes: usize) {
    if bytes > 128 {
        // SAFETY: the caller's promise.
        return unsafe { fill_many(to, value, bytes) };
    }
    for at in 0..bytes {
        // SAFETY: `at` lies within `bytes`.
        unsafe { to.add(at).write_volatile(value) };
    }
}

#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(u64);

#[cfg(target_arch = "x86_64")]
unsafe fn copy_many(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise; the string instruction reads and writes exactly `bytes` bytes upwards.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn fill_many(to: *mut u8, value: u8, bytes: usize) {
    // SAFETY: the caller's promise; the string instruction writes exactly `bytes` bytes upwards.
    unsafe {
        std::arch::asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") value,
            options(nostack, preserves_flags));
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_many(to: *mut u8, from: *const u8, bytes: usize) {
    const BLOCK: usize = 8 * WORD;
    let mut at = 0;
    // SAFETY: every access lies within `bytes`.
    unsafe {
        while at + BLOCK <= bytes {
            let block = from.add(at).cast::<[Unaligned; 8]>().read_volatile();
            to.add(at).cast::<[Unaligned; 8]>().write_volatile(block);
            at += BLOCK;
        }
        while at < bytes {
            to.add(at).write_volatile(from.add(at).read_volatile());
            at += 1;
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn fill_many(to: *mut u8, value: u8, bytes: usize) {
    const BLOCK: usize = 8 * WORD;
    let block = [Unaligned(u64::from_ne_bytes([value; WORD])); 8];
    let mut at = 0;
    // SAFETY: every access lies within `bytes`.
    unsafe {
        while at + BLOCK <= bytes {
            to.add(at).cast::<[Unaligned; 8]>().write_volatile(block);
            at += BLOCK;
        }
        while at < bytes {
            to.add(at).write_volatile(value);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_at_any_alignment() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 + 1) as u8).collect();
        for bytes in (0..140).chain([500, 900]) {
            for shift in 0..9 {
                let mut to = vec![0xee; 1000];
                // SAFETY: `shift + bytes` fits both vectors.
                unsafe { copy(to.as_mut_ptr().add(shift), from.as_ptr().add(3), bytes) };
                assert_eq!(&to[shift..shift + bytes], &from[3..3 + bytes]);
                assert!(to[..shift].iter().chain(&to[shift + bytes..]).all(|&b| b == 0xee));
                // SAFETY: as above.
                unsafe { fill(to.as_mut_ptr().add(shift), 0x5a, bytes) };
                assert_eq!(to.iter().filter(|&&b| b == 0x5a).count(), bytes);
            }
        }
    }
}
