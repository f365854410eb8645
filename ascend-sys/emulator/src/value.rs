//! Words of memory that order streams: one stream writes a word, and another waits until a
//! comparison of the word is true.
//!
//! A wait parks, and checks the word at each poll of the stream. The stream is polled by threads
//! that wait for it or help, and by the housekeeper at every tick. So any code may write the word:
//! a task, a kernel, the host, another process.
//!
//! Checked mode orders a wait after every value that [`WriteValue`] wrote before. It derives no
//! order from words that other code has written.

use crate::memory::nominal;
use crate::message::Failure;
use crate::step::{Helpers, Step, WordTask};
use crate::stream::{Stream, Task};
use crate::task::{Effects, Passed, TaskBody};
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of a word in bytes, which is also its alignment.
pub(crate) const BYTES: usize = size_of::<u64>();

/// A word of memory that a task reads or writes.
#[derive(Clone, Copy)]
pub(crate) struct Word(*mut u64);

// SAFETY: as for `leaf::Copy`: the address was resolved at issue and stays mapped. The word is
// touched in one atomic step.
unsafe impl Send for Word {}

impl Word {
    /// Returns the word at the address `data`.
    ///
    /// # Safety
    ///
    /// The pointer is aligned to a word, and the word stays mapped for as long as a task has it.
    pub(crate) unsafe fn new(data: *mut u8) -> Word {
        Word(data.cast())
    }

    /// Loads the word. Acquire: a reader of a stored value sees the effects of the tasks before the
    /// store.
    pub(crate) fn load(self) -> u64 {
        self.at().load(Ordering::Acquire)
    }

    /// Stores a value. Release: see [`load`](Self::load).
    pub(crate) fn store(self, value: u64) {
        self.at().store(value, Ordering::Release);
    }

    /// Returns the address of its data.
    pub(crate) fn data(self) -> *mut u8 {
        self.0.cast()
    }

    fn at(&self) -> &AtomicU64 {
        // SAFETY: the promise of `new`. Code of the device and of other processes writes the word
        // in ways that no language defines. An atomic access of ours then sees some value, which
        // does no harm.
        unsafe { AtomicU64::from_ptr(self.0) }
    }
}

/// A task that writes a word.
#[derive(Clone)]
pub(crate) struct WriteValue {
    pub(crate) word: Word,
    pub(crate) value: u64,
}

impl TaskBody<Stream> for WriteValue {
    fn poll(&mut self, _: &'static Stream) -> Step {
        self.word.store(self.value);
        Step::Done(Ok(()))
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "write of a value"
    }

    fn word(&self) -> Option<WordTask> {
        Some(WordTask { address: nominal(self.word.data()), value: self.value, flag: None })
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        [(self.word.0.cast_const().cast(), BYTES), (std::ptr::null(), 0)]
    }

    fn effects(&self) -> Effects {
        Effects::WritesWord(nominal(self.word.data()))
    }

    fn describe(&self) -> String {
        format!("write of the value {:#x}", self.value)
    }
}

/// A comparison of a word with a value. The variants are in the order of the flags of
/// `aclrtValueWait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueCondition {
    /// The word has reached the value or passed it, even across the wrap to 0.
    Reached,
    Equal,
    /// The word and the value have a bit in common.
    AnyBit,
    /// There is a bit that neither the word nor the value has.
    AnyBitOfNeither,
}

impl ValueCondition {
    fn holds(self, word: u64, value: u64) -> bool {
        match self {
            ValueCondition::Reached => word.wrapping_sub(value).cast_signed() >= 0,
            ValueCondition::Equal => word == value,
            ValueCondition::AnyBit => word & value != 0,
            ValueCondition::AnyBitOfNeither => !(word | value) != 0,
        }
    }
}

/// A task that waits until a comparison of a word is true.
#[derive(Clone)]
pub(crate) struct WaitForValue {
    pub(crate) word: Word,
    pub(crate) condition: ValueCondition,
    pub(crate) value: u64,
}

impl WaitForValue {
    fn is_right(&self) -> bool {
        self.condition.holds(self.word.load(), self.value)
    }
}

impl TaskBody<Stream> for WaitForValue {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if self.is_right() { Step::Done(Ok(())) } else { Step::Park }
    }

    fn arm(&mut self, _: &'static Stream) -> bool {
        // Writes wake no stream; the housekeeper checks the word.
        self.is_right()
    }

    fn helpers(&self) -> Helpers {
        Helpers::Writers
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "wait for a value"
    }

    fn word(&self) -> Option<WordTask> {
        let flag = Some(self.condition as u32);
        Some(WordTask { address: nominal(self.word.data()), value: self.value, flag })
    }

    fn touched(&self) -> [(*const u8, usize); 2] {
        [(self.word.0.cast_const().cast(), BYTES), (std::ptr::null(), 0)]
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        how.is_ok().then_some(Passed::Told)
    }

    fn describe(&self) -> String {
        format!("wait for the value {:#x} ({:?})", self.value, self.condition)
    }
}
