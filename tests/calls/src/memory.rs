//! Memory for arguments. Each place is used once, so that bytes to which a function keeps a pointer
//! never change.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes for arguments and results of calls.
const ARGUMENTS: usize = 1 << 30;
/// The least room of an argument in bytes, so that it always holds a list of a few items.
const LEAST: usize = 512;
/// The number of bytes of the data that copies read and write on the host. Nothing else uses it.
pub const DATA: usize = 1 << 20;

/// The memory that the calls of a process use: arguments, and the data that copies read and write.
pub struct Memory {
    arguments: usize,
    used: AtomicUsize,
    data: usize,
}

/// The number of inaccessible addresses on each side of a mapping. They catch an access beyond the
/// mapping.
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
    /// Maps the memory, which is never unmapped.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn map() -> Memory {
        Memory { arguments: map(ARGUMENTS), used: AtomicUsize::new(0), data: map(DATA) }
    }

    /// Returns the unused rest of the same mappings, so that a process need not map more.
    pub fn rest(&self) -> Memory {
        let used = AtomicUsize::new(self.used.load(Ordering::Relaxed));
        Memory { arguments: self.arguments, used, data: self.data }
    }

    /// Marks the part as used that the [rest](Self::rest) has used.
    pub fn goes_on_behind(&self, rest: &Memory) {
        self.used.store(rest.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns room for an argument, filled with zeros.
    pub fn room(&self, bytes: usize) -> u64 {
        let bytes = bytes.max(LEAST).next_multiple_of(64);
        let offset = self.used.fetch_add(bytes, Ordering::Relaxed);
        assert!(offset + bytes <= ARGUMENTS, "a run has fewer arguments");
        (self.arguments + offset) as u64
    }

    /// Copies these bytes, followed by zeros, and returns the address.
    pub fn put(&self, bytes: &[u8]) -> u64 {
        let at = self.room(bytes.len() + 1);
        // SAFETY: the room is large enough, and nothing else uses it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
        }
        at
    }

    /// Copies plain data of C, and returns the address.
    pub fn put_value<T: Copy>(&self, value: &T) -> u64 {
        // SAFETY: these are the bytes of a value, which is copied as a whole, with its padding.
        self.put(unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>())
        })
    }

    /// Copies a list of plain data of C, and returns the address.
    pub fn put_list<T: Copy>(&self, list: &[T]) -> u64 {
        // SAFETY: these are the bytes of the values.
        self.put(unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), size_of_val(list)) })
    }

    /// Returns the word at an address in the memory for arguments.
    pub fn word(&self, at: u64) -> u64 {
        assert!((self.arguments as u64..(self.arguments + ARGUMENTS) as u64).contains(&at));
        // SAFETY: the place is in the mapping, which may hold any bytes.
        unsafe { (at as *const u64).read_unaligned() }
    }

    /// Returns whether an address is in the memory for arguments, and at least 8 bytes before its
    /// end.
    pub fn holds(&self, at: u64) -> bool {
        (self.arguments as u64..(self.arguments + ARGUMENTS) as u64 - 8).contains(&at)
    }

    /// Returns the address of the data for copies.
    pub fn data(&self) -> u64 {
        self.data as u64
    }
}
