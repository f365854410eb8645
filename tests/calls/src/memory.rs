//! Memory of the program for arguments: each is used once, so that the bytes which a function keeps
//! never change.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes for arguments and results of calls.
const ARGUMENTS: usize = 1 << 30;
/// Each argument has as much room at least, so that a list of a few items is always there.
const LEAST: usize = 512;
/// The data that copies read and write on the host. Nobody else looks at it.
pub const DATA: usize = 1 << 20;

/// The memory of a process.
pub struct Memory {
    arguments: usize,
    used: AtomicUsize,
    data: usize,
}

/// Addresses around each mapping that no code may touch, so that an access beyond it is caught.
const AROUND: usize = 8 << 30;

fn map(bytes: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let (all, none) = (bytes + 2 * AROUND, libc::PROT_NONE);
    // SAFETY: fresh addresses at a place of the system's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), all, none, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    let at = at.wrapping_byte_add(AROUND);
    // SAFETY: a part of the mapping.
    let opened = unsafe { libc::mprotect(at, bytes, libc::PROT_READ | libc::PROT_WRITE) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    at.addr()
}

impl Memory {
    /// Maps it; it is never given back.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn map() -> Memory {
        Memory { arguments: map(ARGUMENTS), used: AtomicUsize::new(0), data: map(DATA) }
    }

    /// The unused rest of the same mappings, so that a process need not map others.
    pub fn rest(&self) -> Memory {
        let used = AtomicUsize::new(self.used.load(Ordering::Relaxed));
        Memory { arguments: self.arguments, used, data: self.data }
    }

    /// Counts as used what the [rest](Self::rest) has used.
    pub fn goes_on_behind(&self, rest: &Memory) {
        self.used.store(rest.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Room for an argument, all zeros.
    pub fn room(&self, bytes: usize) -> u64 {
        let bytes = bytes.max(LEAST).next_multiple_of(64);
        let offset = self.used.fetch_add(bytes, Ordering::Relaxed);
        assert!(offset + bytes <= ARGUMENTS, "a run has fewer arguments");
        (self.arguments + offset) as u64
    }

    /// A copy of these bytes, with zeros behind.
    pub fn put(&self, bytes: &[u8]) -> u64 {
        let at = self.room(bytes.len() + 1);
        // SAFETY: so much room is there, and nobody else has it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
        }
        at
    }

    /// A copy of plain data of C.
    pub fn put_value<T: Copy>(&self, value: &T) -> u64 {
        // SAFETY: the bytes of a value, which is copied as a whole, padding and all.
        self.put(unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>())
        })
    }

    /// The same for a list.
    pub fn put_list<T: Copy>(&self, list: &[T]) -> u64 {
        // SAFETY: the bytes of the values.
        self.put(unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), size_of_val(list)) })
    }

    /// The word at a place that was given out.
    pub fn word(&self, at: u64) -> u64 {
        assert!((self.arguments as u64..(self.arguments + ARGUMENTS) as u64).contains(&at));
        // SAFETY: in the mapping, which holds any bytes.
        unsafe { (at as *const u64).read_unaligned() }
    }

    /// Whether it is a place that was given out.
    pub fn holds(&self, at: u64) -> bool {
        (self.arguments as u64..(self.arguments + ARGUMENTS) as u64 - 8).contains(&at)
    }

    /// The data of copies.
    pub fn data(&self) -> u64 {
        self.data as u64
    }
}
