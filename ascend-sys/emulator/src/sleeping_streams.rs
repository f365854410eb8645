//! Keeps the streams that sleep until a change, and wakes them.
//!
//! A stream is added before it checks whether the change has come. A thread that makes a change
//! wakes the streams afterwards. So at least one of the two sees the other.

use crate::stream::Stream;
use ascend_sync::lock_std as lock;
use std::sync::Mutex;

/// The streams that sleep until one object changes; see the [module](self).
#[derive(Default)]
pub(crate) struct SleepingStreams(Mutex<Vec<&'static Stream>>);

impl SleepingStreams {
    /// Adds a stream, unless it is already there.
    pub(crate) fn add(&self, stream: &'static Stream) {
        let mut streams = lock(&self.0);
        if !streams.iter().any(|known| std::ptr::eq(*known, stream)) {
            streams.push(stream);
        }
    }

    /// Wakes all streams, with no lock held. Those that still wait add themselves again.
    pub(crate) fn wake(&self) {
        let streams = std::mem::take(&mut *lock(&self.0));
        streams.into_iter().for_each(Stream::wake);
    }

    #[cfg(all(test, not(loom), not(miri)))]
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}
