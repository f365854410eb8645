//! Events: points in a stream.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::state::issue;
use super::{Device, Stream};
use crate::api::handles::EventHandle;
use crate::error::{Error, Result};
use crate::order::issue::Operation;
use crate::order::stream_slot::StreamSlot;
use crate::order::unseen::Unseen;
use crate::order::work::Work;

impl Stream {
    /// Records an event: a point in the stream that is complete when everything issued so far is
    /// complete. Does not block. CANN: `aclrtRecordEvent`, which is not called if everything is
    /// complete already.
    ///
    /// A wait for an operation before the event ends at the event, even if other operations were
    /// issued after it. This also holds for a wait without [`wait_event`](Self::wait_event), when
    /// another stream uses the same buffer. So an event before a collective lets other streams go
    /// on with the results of earlier operations while the peers are late. Without the event,
    /// another stream waits for all operations that were issued before its wait.
    pub fn record(&self) -> Result<Event> {
        Ok(Event { slot: self.slot(), number: self.queue().record()? })
    }

    /// Records an event as [`record`](Self::record) does. The device also stores the time at which
    /// it reaches the event (`aclrtRecordEvent`).
    pub fn record_timed(&self) -> Result<TimedEvent> {
        TimedEvent::record(self)
    }

    /// Makes later operations of this stream wait for `event`, which may be on another stream of
    /// the same device. Does not block the calling thread.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.wait_for_number(event.slot, event.number, "wait_event")
    }
}

/// A point in a stream. It is complete when everything issued before it is complete. An `Event`
/// only names the point, so dropping it does nothing.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// let (first, second) = (device.stream()?, device.stream()?);
/// let x = device.upload(&[1.0_f32; 64], &first)?;
/// let uploaded = first.record()?;
/// second.wait_event(&uploaded)?; // on the device: the host goes on
/// uploaded.wait()?; // on the host
/// assert!(uploaded.is_done());
/// # assert_eq!(x.len(), 64);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    slot: &'static StreamSlot,
    number: u64,
}

impl Event {
    /// Blocks until everything before the event is complete, up to the runtime's deadline. Returns
    /// a failure of an earlier operation whose [`Work`] was dropped.
    pub fn wait(&self) -> Result<()> {
        if let Some(queue) = self.slot.queue(self.number) {
            queue.wait(self.number, queue.device().runtime().deadline(), EVENT)?;
        }
        self.slot.take_unseen(self.number, Unseen::Dropped)
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `limit`.
    pub fn wait_timeout(&self, limit: Duration) -> Result<()> {
        self.slot.wait(self.number, limit, EVENT)?;
        self.slot.take_unseen(self.number, Unseen::Dropped)
    }

    /// Returns whether everything before the event is complete. Does not block.
    pub fn is_done(&self) -> bool {
        self.slot.is_complete(self.number)
    }
}

const EVENT: &str = "event";

/// An [`Event`] whose time the device stores.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let mut x = device.zeros::<f32>(1 << 16, &stream)?;
/// let before = stream.record_timed()?;
/// x.fill_zero(&stream)?;
/// let after = stream.record_timed()?;
/// println!("the fill took {:?}", before.elapsed_until(&after)?); // waits for both
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct TimedEvent {
    event: Option<EventHandle>,
    work: Work,
    device: Device,
}

impl TimedEvent {
    /// Returns the time between two events of one device (`aclrtEventElapsedTime`). Blocks until
    /// both are complete. The time is zero if `later` was recorded before this event.
    pub fn elapsed_until(&self, later: &TimedEvent) -> Result<Duration> {
        self.work.wait()?;
        later.work.wait()?;
        let (device, other) = (&self.device, &later.device);
        let operation = "elapsed_until";
        if !device.runtime().is(other.runtime()) {
            return Err(Error::WrongRuntime { operation, what: "the later event" });
        }
        if device != other {
            let (expected, found) = (device.index(), other.index());
            return Err(Error::WrongDevice { operation, what: "the later event", expected, found });
        }
        let (Some(start), Some(end)) = (&self.event, &later.event) else {
            return Err(Error::Invalid {
                operation,
                problem: "an event was destroyed: record a new event".into(),
            });
        };
        let _bound = device.bind()?;
        let milliseconds = device.table().elapsed(start, end)?;
        Ok(Duration::from_secs_f32((milliseconds / 1000.0).max(0.0)))
    }

    /// Blocks until the device has reached the event, up to the runtime's deadline.
    pub fn wait(&self) -> Result<()> {
        self.work.wait()
    }

    /// Returns whether the device has reached the event. Does not block.
    pub fn is_done(&self) -> bool {
        self.work.is_done()
    }

    pub(super) fn record(stream: &Stream) -> Result<Self> {
        let bound = stream.device().bind()?;
        let event = stream.table().create_event(true)?;
        drop(bound);
        let recorded = issue(stream, Operation::new("record_timed"), &[], |_| {
            stream.table().record_event(&event, stream.queue().handle())
        });
        match recorded {
            Ok(work) => Ok(Self { event: Some(event), work, device: stream.device().clone() }),
            Err(error) => {
                // The event was never recorded, so nothing waits for it.
                let _ = stream.table().destroy_event(event);
                Err(error)
            }
        }
    }
}

impl Drop for TimedEvent {
    fn drop(&mut self) {
        // CANN defers the destruction of an event that is not complete.
        if let Some(event) = self.event.take() {
            let device = &self.device;
            if let Ok(_bound) = device.bind()
                && let Err(error) = device.table().destroy_event(event)
            {
                tracing::debug!("an event could not be destroyed: {error}");
            }
        }
    }
}
