//! The gradients of one layer, and their way to all ranks and back.

use hccl::TimedEvent;
use hccl::prelude::*;

use super::timeline::{Message, Span};

/// The memory through which the gradients of one layer travel, allocated once.
pub struct Bucket {
    /// The layer, from 1.
    layer: usize,
    /// Pinned: the device reads and writes it by itself.
    pub host: HostBuffer<f32>,
    device: DeviceBuffer<f32>,
}

impl Bucket {
    /// With room for `len` elements.
    pub fn new(layer: usize, len: usize, device: &Device, stream: &Stream) -> hccl::Result<Self> {
        let host = device.runtime().host_buffer(len)?;
        Ok(Self { layer, host, device: device.zeros(len, stream)? })
    }

    /// Enqueues the way up, the sum over all ranks, and the way back. Waits for nothing.
    pub fn all_reduce(
        &mut self,
        comm: &mut Communicator,
        stream: &Stream,
    ) -> hccl::Result<InFlight> {
        let from = stream.record_timed()?;
        // The stream keeps their order, so that the last is done when all are, and fails if one did.
        drop(self.device.copy_from_host(&self.host, stream)?);
        let arrived = stream.record_timed()?;
        drop(comm.all_reduce_in_place(&mut self.device, Sum, stream)?);
        let work = self.device.copy_to(&mut self.host, stream)?;
        let to = stream.record_timed()?;
        let bytes = size_of::<f32>() * self.device.len();
        Ok(InFlight { layer: self.layer, bytes, work, from, arrived, to })
    }
}

/// A bucket under way.
pub struct InFlight {
    layer: usize,
    bytes: usize,
    work: Work,
    from: TimedEvent,
    arrived: TimedEvent,
    to: TimedEvent,
}

impl InFlight {
    /// Waits until the sum is back.
    pub fn wait(&self) -> hccl::Result<()> {
        self.work.wait()
    }

    /// When the device did what. `known` is from before it was enqueued until after it was awaited.
    pub fn message(&self, clock: &DeviceClock, known: Span) -> hccl::Result<Message> {
        // Should the thread have lost its core between its readings of the two clocks, what it knows for
        // sure keeps the error small.
        let at =
            |event| -> hccl::Result<f64> { Ok(clock.read(event)?.clamp(known.from, known.to)) };
        let span = Span { from: at(&self.from)?, to: at(&self.to)? };
        let (layer, bytes) = (self.layer, self.bytes);
        Ok(Message { layer, bytes, span, arrived: at(&self.arrived)? })
    }
}

/// The clock of a device, set by that of its rank.
pub struct DeviceClock {
    event: TimedEvent,
    time: f64,
}

impl DeviceClock {
    /// `now` is the time, in seconds. The stream is idle, so that the device reads its clock at once.
    pub fn set(stream: &Stream, now: f64) -> hccl::Result<Self> {
        Ok(Self { event: stream.record_timed()?, time: now })
    }

    fn read(&self, event: &TimedEvent) -> hccl::Result<f64> {
        Ok(self.time + self.event.elapsed_until(event)?.as_secs_f64())
    }
}
