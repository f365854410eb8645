//! The times of the device's work, by the clock of its rank.

use hccl::TimedEvent;
use hccl::prelude::*;
use hccl_train::BucketEvents;

use super::timeline::Span;

/// The clock of a device, set by that of its rank.
pub struct DeviceClock {
    event: TimedEvent,
    time: f64,
}

impl DeviceClock {
    /// Sets the clock of the device: `now` is the time of its rank, in seconds. The stream must be
    /// idle, so that the device reads its clock at once.
    pub fn set(stream: &Stream, now: f64) -> hccl::Result<Self> {
        Ok(Self { event: stream.record_timed()?, time: now })
    }

    /// Returns the span in which a bucket was in flight, and the time at which the copy to the
    /// device ended. `known` lasts from before the bucket was enqueued until after it was awaited.
    pub fn span(&self, events: &BucketEvents, known: Span) -> hccl::Result<(Span, f64)> {
        // If the thread lost its core between its readings of the two clocks, the clamp to `known`
        // keeps the error small.
        let at = |event| -> hccl::Result<f64> { Ok(self.read(event)?.clamp(known.from, known.to)) };
        let span = Span { from: at(&events.begins)?, to: at(&events.ends)? };
        Ok((span, at(&events.uploaded)?))
    }

    fn read(&self, event: &TimedEvent) -> hccl::Result<f64> {
        Ok(self.time + self.event.elapsed_until(event)?.as_secs_f64())
    }
}
