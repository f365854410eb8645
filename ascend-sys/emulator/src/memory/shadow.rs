//! Reports the allocations to AddressSanitizer, which sees the mappings of emulated memory, but not
//! which allocation has which bytes of them.
//!
//! This exists only in a build with `--cfg sanitizer="address"` and `--cfg plain_memory`. With the
//! latter, plain loops move all data. Freed memory is marked, up to [`MOST`](sanitizer::MOST) bytes
//! of a range. The bytes between the end of an allocation and the next allocation are marked, too.
//! Memory that was never allocated is not marked, because the sanitizer needs an eighth of the
//! marked memory.

#[cfg(sanitizer = "address")]
mod sanitizer {
    use crate::memory::window::data_at;
    use ascend_sync::lock_std as lock;
    use std::collections::BTreeMap;
    use std::ffi::c_void;
    use std::ops::Range;
    use std::sync::Mutex;

    /// The largest number of bytes of a range that are marked.
    pub(super) const MOST: usize = 16 << 20;

    /// The sizes of the marked ranges in bytes, by their starts.
    static MARKED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

    unsafe extern "C" {
        fn __asan_poison_memory_region(start: *const c_void, bytes: usize);
        fn __asan_unpoison_memory_region(start: *const c_void, bytes: usize);
    }

    pub(super) fn mark(range: Range<usize>) {
        let (start, bytes) = (range.start, range.len().min(MOST));
        if bytes > 0 {
            // SAFETY: the sanitizer notes the range, and touches no memory of ours.
            unsafe { __asan_poison_memory_region(data_at(start), bytes) };
            lock(&MARKED).insert(start, bytes);
        }
    }

    /// Unmarks a range. Marks beside it stay, because an allocation can begin after the start of a
    /// free range and end before its end.
    pub(super) fn clear(range: Range<usize>) {
        let mut marked = lock(&MARKED);
        let before = marked.range(..range.start).next_back().map(|(start, bytes)| (*start, *bytes));
        let before = before.filter(|(start, bytes)| start + bytes > range.start);
        if let Some((start, _)) = before {
            marked.remove(&start);
        }
        let inside: Vec<(usize, usize)> = marked.extract_if(range.clone(), |_, _| true).collect();
        drop(marked);
        for (start, bytes) in before.into_iter().chain(inside) {
            // SAFETY: as above.
            unsafe { __asan_unpoison_memory_region(data_at(start), bytes) };
            if start < range.start {
                mark(start..range.start);
            }
            if start + bytes > range.end {
                mark(range.end..start + bytes);
            }
        }
    }
}

#[cfg(not(sanitizer = "address"))]
mod sanitizer {
    use std::ops::Range;

    #[inline]
    pub(super) fn mark(_: Range<usize>) {}

    #[inline]
    pub(super) fn clear(_: Range<usize>) {}
}

/// Notes that the first `size` of the `reserved` bytes belong to an allocation from now on.
#[inline]
pub(super) fn taken(start: usize, size: usize, reserved: usize) {
    sanitizer::clear(start..start + reserved);
    sanitizer::mark(start + size..start + reserved);
}

/// Notes that the bytes do not belong to an allocation, and that no queued task touches them.
#[inline]
pub(super) fn free(start: usize, reserved: usize) {
    sanitizer::clear(start..start + reserved);
    sanitizer::mark(start..start + reserved);
}

#[cfg(all(test, sanitizer = "address"))]
mod tests {
    use crate::memory::pool::MemoryPool;
    use std::ffi::c_void;

    unsafe extern "C" {
        fn __asan_address_is_poisoned(address: *const c_void) -> i32;
    }

    #[test]
    fn the_sanitizer_knows_whose_memory_is_whose() {
        let pool = MemoryPool::new();
        let memory = vec![0u8; 1 << 16];
        let first = memory.as_ptr().addr().next_multiple_of(1 << 12);
        pool.open("a pool".into(), first, 1 << 15, 1 << 15);
        let is_marked = |offset: usize| {
            let address = memory.as_ptr().with_addr(first + offset).cast();
            // SAFETY: only the sanitizer's own memory is read.
            unsafe { __asan_address_is_poisoned(address) != 0 }
        };
        let allocate = |bytes| pool.allocate(bytes, bytes, "a test").unwrap();
        let [a, b] = [100, 1000].map(allocate);
        assert_eq!([a, b], [first, first + 128]);
        assert!(!is_marked(99) && is_marked(100) && is_marked(127) && !is_marked(128));
        pool.free(b, "a test", Vec::new).unwrap();
        assert!(!is_marked(0) && is_marked(128) && is_marked(1127));
        // A part of the freed bytes.
        assert_eq!(allocate(200), b);
        assert!(!is_marked(128 + 199) && is_marked(128 + 200) && is_marked(1127));
        // An allocation that begins with a page, in the middle of the freed bytes.
        let small = [(); 4].map(|()| allocate(3000));
        small[1..].iter().for_each(|one| pool.free(*one, "a test", Vec::new).unwrap());
        let large = allocate(1 << 12);
        assert!(small[1] < large && large + (1 << 12) < small[3]);
        assert!(!is_marked(large - first) && !is_marked(large - first + 4095));
        assert!(is_marked(large - first - 1) && is_marked(large - first + 4096));
        assert!(!is_marked(1 << 14 | 1 << 13), "nobody has had it yet");
        // The memory must not stay marked when it is freed.
        super::sanitizer::clear(first..first + (1 << 15));
    }
}
