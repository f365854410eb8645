//! Words of memory that order streams: one stream writes a word, another waits until a word is
//! right.
//!
//! A wait parks, and looks at the word again at each poll of the stream. A thread that waits for
//! the stream or helps polls it, and the housekeeper does at every tick. So the word may be written
//! by anything: a task, a kernel, the host, another process.
//!
//! Checked mode takes a wait as one that comes after every value that was written before by
//! [`WriteValue`]. It knows no order from words that something else has written.

use crate::memory::nominal;
use crate::message::Failure;
use crate::step::{Helpers, Step, WordTask};
use crate::stream::{Stream, Task};
use crate::task::{Effects, Passed, TaskBody};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word, and their alignment.
pub(crate) const BYTES: usize = size_of::<u64>();

/// A word of memory that a task reaches.
#[derive(Clone, Copy)]
pub(crate) struct Word(*mut u64);

// SAFETY: as for `leaf::Copy`: the address was resolved at issue and stays mapped. The word is
// touched in one atomic step.
unsafe impl Send for Word {}

impl Word {
    /// # Safety
    ///
    /// The pointer is aligned to a word, and the word stays mapped for as long as a task has it.
    pub(crate) unsafe fn new(data: *mut u8) -> Word {
        Word(data.cast())
    }

    /// Acquire: a reader of a stored value sees the effects of the tasks before the store.
    pub(crate) fn load(self) -> u64 {
        self.at().load(Ordering::Acquire)
    }

    /// Release: see [`load`](Self::load).
    pub(crate) fn store(self, value: u64) {
        self.at().store(value, Ordering::Release);
    }

    /// Where its data is.
    pub(crate) fn data(self) -> *mut u8 {
        self.0.cast()
    }

    fn at(&self) -> &AtomicU64 {
        // SAFETY: the promise of `new`. Code of the device and of other processes writes the word
        // in ways that no language knows of; an atomic access of ours sees some value, and nothing
        // worse.
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
        Effects::Tells
    }

    fn describe(&self) -> String {
        format!("write of the value {:#x}", self.value)
    }
}

/// How a wait compares a word with a value, in the order of the flags of `aclrtValueWait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueCondition {
    /// The word has come to the value or passed it, also across the end of the numbers.
    Reached,
    Equal,
    /// Word and value have a bit in common.
    AnyBit,
    /// A bit is in neither of them.
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

/// A task that waits until a word is right.
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
        // Nobody is told of a write; the housekeeper looks.
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
