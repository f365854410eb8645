//! Who sleeps in an operation: the stream of its task.

use super::meeting::Wake;
use crate::stream::Stream;

/// A stream to poll again.
#[derive(Clone, Copy)]
pub(crate) struct Sleeper(pub(crate) &'static Stream);

impl Wake for Sleeper {
    fn wake(&self) {
        self.0.wake();
    }
}
