//! The sleeper in an operation: the stream of its task, in this process or in another process.

use super::meeting::Wake;
use crate::processes::peer::Doorbell;
use crate::stream::Stream;

/// The stream or the process to wake.
#[derive(Clone)]
pub(crate) enum Sleeper {
    /// A stream of this process, which is polled again.
    Stream(&'static Stream),
    /// The process of a rank elsewhere; that process finds the stream.
    Process(Doorbell),
}

impl Wake for Sleeper {
    fn wake(&self) {
        match self {
            Self::Stream(stream) => stream.wake(),
            Self::Process(bell) => bell.ring(),
        }
    }
}
