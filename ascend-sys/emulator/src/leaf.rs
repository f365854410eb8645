//! Leaf tasks: copies and fills of memory. They never wait, so the thread that polls them carries
//! them out, one piece at a time.

use crate::collective::caches::store_for;
use crate::memory::nominal;
use crate::step::{PIECE, Step};
use crate::task::{Effects, ErasedTask, TaskBody, Touch};
use ascend_reduce::Store;
use ascend_reduce::copy;

/// Rows of bytes to copy; one row unless it is a 2D copy.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(crate) to: *mut u8,
    pub(crate) from: *const u8,
    /// The number of bytes of one row.
    pub(crate) bytes: usize,
    pub(crate) rows: usize,
    pub(crate) to_pitch: usize,
    pub(crate) from_pitch: usize,
    /// The number of bytes of the current row that are copied.
    done: usize,
    pub(crate) store: Store,
}

// SAFETY: the addresses were resolved at issue and stay mapped; memory behind them is touched by
// the copy kernels only.
unsafe impl Send for Copy {}

impl Copy {
    pub(crate) fn new(to: *mut u8, from: *const u8, bytes: usize) -> Copy {
        // One piece fits in any cache, so the sizes of the caches do not matter.
        let store = if bytes <= PIECE { Store::Plain } else { store_for(bytes.saturating_mul(2)) };
        Copy { to, from, bytes, rows: 1, to_pitch: 0, from_pitch: 0, done: 0, store }
    }

    pub(crate) fn rows(self, rows: usize, to_pitch: usize, from_pitch: usize) -> Copy {
        Copy { rows, to_pitch, from_pitch, ..self }
    }

    /// Returns the description of the copy, and the memory that it reads and writes, for a checked
    /// block.
    pub(crate) fn touches(&self) -> (String, Vec<Touch>) {
        let &Copy { bytes, rows, to_pitch, from_pitch, .. } = self;
        let (to, from) = (nominal(self.to), nominal(self.from));
        let what = match rows {
            1 => format!("copy of {bytes} bytes"),
            rows => format!("copy of {rows} rows of {bytes} bytes"),
        };
        let rows = |start: usize, pitch: usize, touch: fn(usize, usize) -> Touch| {
            let (rows, bytes) = if pitch == bytes { (1, rows * bytes) } else { (rows, bytes) };
            (0..rows).map(move |row| touch(start + row * pitch, bytes))
        };
        let reads = rows(from, from_pitch, Touch::read);
        (what, reads.chain(rows(to, to_pitch, Touch::write)).collect())
    }

    #[inline]
    pub(crate) fn poll(&mut self) -> Step {
        let mut left = PIECE;
        loop {
            let piece = (self.bytes - self.done).min(left);
            // SAFETY: `done + piece <= bytes`, and both rows were checked to hold `bytes` bytes.
            // Rows of a program that overlap are a race of the copy with itself: the kernel only
            // reads and writes bytes of the two rows.
            unsafe {
                copy::copy(self.to.add(self.done), self.from.add(self.done), piece, self.store)
            };
            self.done += piece;
            left -= piece;
            if self.done == self.bytes {
                self.rows -= 1;
                if self.rows == 0 {
                    return Step::Done(Ok(()));
                }
                self.done = 0;
                self.to = self.to.wrapping_add(self.to_pitch);
                self.from = self.from.wrapping_add(self.from_pitch);
            }
            if left == 0 {
                return Step::Again;
            }
        }
    }
}

impl<O: 'static> TaskBody<O> for Copy {
    #[inline]
    fn poll(&mut self, _: &'static O) -> Step {
        self.poll()
    }

    fn again(&self) -> Option<ErasedTask<O>> {
        Some(ErasedTask::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "copy"
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        let extent = |pitch: usize| (self.rows - 1) * pitch + self.bytes;
        [(self.to.cast_const(), extent(self.to_pitch)), (self.from, extent(self.from_pitch))]
    }

    fn effects(&self) -> Effects {
        let (what, touches) = self.touches();
        Effects::Touches(what, touches)
    }

    fn describe(&self) -> String {
        format!("copy of {} bytes", self.bytes)
    }
}

/// A fill of bytes.
#[derive(Clone)]
pub(crate) struct Fill {
    to: *mut u8,
    value: FillValue,
    bytes: usize,
    done: usize,
}

/// The value that each byte, or each word of 4 bytes, is set to.
#[derive(Clone, Copy)]
enum FillValue {
    Byte(u8),
    Word(u32),
}

/// The number of bytes of a word of a fill.
pub(crate) const WORD: usize = size_of::<u32>();

const _: () = assert!(PIECE.is_multiple_of(WORD), "a piece of a fill has whole words");

// SAFETY: as for `Copy`.
unsafe impl Send for Fill {}

impl Fill {
    pub(crate) fn new(to: *mut u8, value: u8, bytes: usize) -> Fill {
        Fill { to, value: FillValue::Byte(value), bytes, done: 0 }
    }

    /// Makes a fill of `bytes` bytes, which must be whole words.
    pub(crate) fn words(to: *mut u8, value: u32, bytes: usize) -> Fill {
        Fill { to, value: FillValue::Word(value), bytes, done: 0 }
    }

    /// Returns the description of the fill, and the memory that it writes, for a checked block.
    pub(crate) fn touches(&self) -> (String, Vec<Touch>) {
        let what = format!("fill of {} bytes", self.bytes);
        (what, vec![Touch::write(nominal(self.to), self.bytes)])
    }

    pub(crate) fn poll(&mut self) -> Step {
        let piece = (self.bytes - self.done).min(PIECE);
        // SAFETY: `done + piece <= bytes`, which were checked at issue.
        unsafe {
            let to = self.to.add(self.done);
            match self.value {
                FillValue::Byte(value) => copy::fill(to, value, piece),
                FillValue::Word(value) => copy::fill_words(to, value, piece / WORD),
            }
        }
        self.done += piece;
        if self.done == self.bytes { Step::Done(Ok(())) } else { Step::Again }
    }
}

impl<O: 'static> TaskBody<O> for Fill {
    fn poll(&mut self, _: &'static O) -> Step {
        self.poll()
    }

    fn again(&self) -> Option<ErasedTask<O>> {
        Some(ErasedTask::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "fill"
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        [(self.to.cast_const(), self.bytes), (std::ptr::null(), 0)]
    }

    fn effects(&self) -> Effects {
        let (what, touches) = self.touches();
        Effects::Touches(what, touches)
    }

    fn describe(&self) -> String {
        format!("fill of {} bytes", self.bytes)
    }
}
