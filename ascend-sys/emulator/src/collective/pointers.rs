//! Lists of pointers to what a chunk reads and writes, without an allocation for each.

use std::cell::Cell;

/// Up to so many, a list is its own memory.
const FEW: usize = 32;

thread_local! {
    /// The memory of the last longer list of this thread.
    static SPARE: Cell<Vec<*mut u8>> = const { Cell::new(Vec::new()) };
}

/// A list of pointers.
pub(crate) struct Pointers {
    few: [*mut u8; FEW],
    /// All of them, if there are more than a few.
    many: Vec<*mut u8>,
    length: usize,
}

impl FromIterator<*mut u8> for Pointers {
    #[inline]
    fn from_iter<I: IntoIterator<Item = *mut u8>>(pointers: I) -> Self {
        let mut list = Self { few: [std::ptr::null_mut(); FEW], many: Vec::new(), length: 0 };
        for pointer in pointers {
            if let Some(place) = list.few.get_mut(list.length) {
                *place = pointer;
            } else {
                list.push_slowly(pointer);
            }
            list.length += 1;
        }
        list
    }
}

impl Pointers {
    #[cold]
    fn push_slowly(&mut self, pointer: *mut u8) {
        if self.many.is_empty() {
            // A thread that ends has no spare memory.
            self.many = SPARE.try_with(Cell::take).unwrap_or_default();
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(pointer);
    }

    #[inline]
    pub(crate) fn outputs(&self) -> &[*mut u8] {
        if self.many.is_empty() { &self.few[..self.length] } else { &self.many }
    }

    #[inline]
    pub(crate) fn inputs(&self) -> &[*const u8] {
        let all = self.outputs();
        // SAFETY: the two kinds of pointer have one representation.
        unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), all.len()) }
    }
}

impl Drop for Pointers {
    #[inline]
    fn drop(&mut self) {
        if !self.many.is_empty() {
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
        for length in [0, 1, FEW - 1, FEW, FEW + 1, 100] {
            for _ in 0..2 {
                let address = |n: usize| std::ptr::without_provenance_mut::<u8>(n + 1);
                let list: Pointers = (0..length).map(address).collect();
                assert_eq!(list.outputs().len(), length);
                assert!(list.outputs().iter().enumerate().all(|(n, p)| *p == address(n)));
                assert!(list.inputs().iter().enumerate().all(|(n, p)| p.cast_mut() == address(n)));
            }
        }
    }
}
