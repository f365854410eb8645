//! The shared words of one object, in a memory file of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::processes::region::{Ground, Placed, SharedMemory, SharedWords};

pub(super) struct ObjectWords<T> {
    words: Placed<T>,
    memory: Arc<SharedMemory>,
}

impl<T: SharedWords> ObjectWords<T> {
    /// Makes new words. `zero` makes the value that they begin with.
    pub(super) fn new(zero: fn() -> T) -> io::Result<Self> {
        let bytes = Ground::measure(|ground| ground.place(1, |_| zero()));
        Self::within(SharedMemory::new(bytes)?, zero)
    }

    /// Maps the words in the file of another process.
    pub(super) fn of(file: OwnedFd, zero: fn() -> T) -> io::Result<Self> {
        let bytes = Ground::measure(|ground| ground.place(1, |_| zero()));
        Self::within(SharedMemory::map(file, 0, bytes)?, zero)
    }

    fn within(memory: SharedMemory, zero: fn() -> T) -> io::Result<Self> {
        let memory = Arc::new(memory);
        let words = Ground::shared(Arc::clone(&memory)).place(1, |_| zero());
        if words.is_empty() {
            return Err(io::Error::other(
                "the memory file with the words of the object is too small",
            ));
        }
        Ok(Self { words, memory })
    }

    #[inline]
    pub(super) fn get(&self) -> &T {
        &self.words[0]
    }

    /// Returns the file of the words, for another process.
    pub(super) fn file(&self) -> io::Result<Arc<OwnedFd>> {
        self.memory.file().try_clone().map(Arc::new)
    }
}
