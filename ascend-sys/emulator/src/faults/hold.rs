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

/// Enqueues a hold in a stream, so that later tasks of the stream wait for its end.
pub(super) fn hold(stream: &'static Stream, hold: Hold) {
    // A stream that accepts no tasks makes no progress anyway.
    let _ = stream.enqueue(hold);
}

/// A task that makes the later tasks of its stream wait.
pub(crate) enum Hold {
    /// Holds for this time, which begins at the first poll of the task. The second field is the
    /// time of that poll.
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
            Self::For(length, _) => {
                format!("hold of {length:?}, because its device was told to have a delay")
            }
            Self::WhileStopped => {
                "hold, because its device was told to stop (ascendExtFaultClear ends it)".into()
            }
        }
    }
}
