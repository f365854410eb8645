//! Tasks that hold a stream while its device has a fault.

use super::asked::are_any;
use crate::machine::Device;
use crate::step::Step;
use crate::stream::Stream;
use crate::task::TaskBody;
use std::time::{Duration, Instant};

/// Holds a new stream if its device has stopped.
#[inline]
pub(crate) fn made(stream: &'static Stream, device: &Device) {
    if are_any() && device.faults.has_stopped() {
        hold(stream, Hold::WhileStopped);
    }
}

/// Enqueues a hold, which keeps a stream from going on.
pub(super) fn hold(stream: &'static Stream, hold: Hold) {
    // A stream that accepts no tasks makes no progress anyway.
    let _ = stream.enqueue(hold);
}

/// A task that keeps a stream from going on.
pub(crate) enum Hold {
    /// Holds for this long, from the time when the task is at the head.
    For(Duration, Option<Instant>),
    WhileStopped,
}

impl TaskBody<Stream> for Hold {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let over = match self {
            Self::For(length, since) => since.get_or_insert_with(Instant::now).elapsed() >= *length,
            Self::WhileStopped => !stream.device().faults.has_stopped(),
        };
        if over { Step::Done(Ok(())) } else { Step::Park }
    }

    fn describe(&self) -> String {
        match self {
            Self::For(length, _) => format!("delay of {length:?} that its device was told to have"),
            Self::WhileStopped => "nothing: its device was told to stop".into(),
        }
    }
}
