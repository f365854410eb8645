//! Threads and streams of this process that wait for words which other processes change.
//!
//! A waiter registers here, then checks the words once more. Another process first changes the
//! words, then rings the [doorbell](crate::processes::peer::Doorbell) of this process, whose
//! listener wakes all waiters that are registered. So at least one of the two sees the other.

use std::sync::{Arc, Mutex, Weak};

use crate::sleeping_streams::SleepingStreams;
use crate::stream::Stream;
use ascend_sync::{Thread, lock_std as lock};

/// The waiters for one object.
#[derive(Default)]
pub(crate) struct Waiters {
    threads: Mutex<Vec<Thread>>,
    streams: SleepingStreams,
}

/// The waiters of all objects.
static LISTS: Mutex<Vec<Weak<Waiters>>> = Mutex::new(Vec::new());

impl Waiters {
    pub(crate) fn new() -> Arc<Self> {
        let new = Arc::new(Self::default());
        let mut lists = lock(&LISTS);
        lists.retain(|list| list.strong_count() > 0);
        lists.push(Arc::downgrade(&new));
        new
    }

    pub(crate) fn add_stream(&self, stream: &'static Stream) {
        self.streams.add(stream);
    }

    pub(crate) fn add_thread(&self, thread: &Thread) {
        lock(&self.threads).push(thread.clone());
    }

    pub(crate) fn forget_thread(&self, thread: &Thread) {
        lock(&self.threads).retain(|known| known.id() != thread.id());
    }

    pub(crate) fn wake(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.iter().for_each(Thread::unpark);
        self.streams.wake();
    }
}

/// Wakes the waiters of all objects.
pub(super) fn wake_all() {
    let lists: Vec<Arc<Waiters>> = lock(&LISTS).iter().filter_map(Weak::upgrade).collect();
    lists.iter().for_each(|list| list.wake());
}
