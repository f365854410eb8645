//! Lists of pointers to the blocks that a chunk reads and writes, without an allocation for each.

use std::cell::Cell;
use std::mem::MaybeUninit;

/// The largest length of a list that is stored without an allocation.
const FEW: usize = 32;

thread_local! {
    /// The memory of the last list of this thread that was longer than `FEW`, for reuse.
    static SPARE: Cell<Vec<*mut u8>> = const { Cell::new(Vec::new()) };
}

/// Memory for a list of pointers. The list is filled in place, and only as far as needed, because
/// moving it or writing all of it would take longer than a small operation.
pub(crate) struct Pointers {
    few: [MaybeUninit<*mut u8>; FEW],
    /// All pointers, if there are more than `FEW`.
    many: Vec<*mut u8>,
}

impl Pointers {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { few: [const { MaybeUninit::uninit() }; FEW], many: Vec::new() }
    }

    /// Makes the list of these pointers to buffers that are written.
    #[inline]
    pub(crate) fn outputs(&mut self, pointers: impl IntoIterator<Item = *mut u8>) -> &[*mut u8] {
        let mut length = 0;
        self.many.clear();
        for pointer in pointers {
            match self.few.get_mut(length) {
                Some(place) => _ = place.write(pointer),
                None => self.push_slowly(pointer),
            }
            length += 1;
        }
        if !self.many.is_empty() {
            return &self.many;
        }
        // SAFETY: the first `length` pointers have just been written.
        unsafe { std::slice::from_raw_parts(self.few.as_ptr().cast(), length) }
    }

    /// Makes the list of these pointers to buffers that are read.
    #[inline]
    pub(crate) fn inputs(&mut self, pointers: impl IntoIterator<Item = *mut u8>) -> &[*const u8] {
        let all = self.outputs(pointers);
        // SAFETY: the two kinds of pointer have one representation.
        unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), all.len()) }
    }

    #[cold]
    fn push_slowly(&mut self, pointer: *mut u8) {
        if self.many.is_empty() {
            if self.many.capacity() == 0 {
                // A thread that is ending has no spare memory.
                self.many = SPARE.try_with(Cell::take).unwrap_or_default();
            }
            // SAFETY: this is called only after all of these have been written.
            self.many.extend(self.few.iter().map(|place| unsafe { place.assume_init() }));
        }
        self.many.push(pointer);
    }
}

impl Drop for Pointers {
    #[inline]
    fn drop(&mut self) {
        if self.many.capacity() != 0 {
            let mut many = std::mem::take(&mut self.many);
            many.clear();
            let _ = SPARE.try_with(|spare| spare.set(many));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_is_what_was_put_in() {
        let mut list = Pointers::new();
        for length in [0, 1, FEW - 1, FEW, FEW + 1, 100, 3, 50] {
            let address = |n: usize| std::ptr::without_provenance_mut::<u8>(n + 1);
            let all: Vec<_> = (0..length).map(address).collect();
            assert_eq!(list.outputs(all.iter().copied()), all);
            let read: Vec<_> = list.inputs(all.iter().copied()).to_vec();
            assert!(read.into_iter().map(<*const u8>::cast_mut).eq(all));
        }
    }
}
