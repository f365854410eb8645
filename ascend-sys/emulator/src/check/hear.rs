//! The hooks that report to checked mode: from the tasks of a stream, and from calls that have
//! waited for tasks.

use super::blocks::{engine, is_on};
use super::clock::ClockPoint;
use super::engine::Apart;
use super::issuer::{KernelClock, issuer_learns};
use super::{CheckedOperation, ClockComponent, reached};
use crate::stream::Stream;
use crate::task::{Passed, Touch};
use std::sync::Arc;

/// Returns the point of the current task of a stream. The caller holds the lock of the stream's
/// queue, so the current task is the one after the last complete task.
pub(super) fn here(stream: &Stream) -> ClockPoint {
    ClockPoint { component: ClockComponent(stream.index()), time: stream.queue.completed() + 1 }
}

/// Makes an operation for the task at the head of a stream.
pub(super) fn at_head(
    stream: &Stream,
    what: String,
    issued: String,
    touches: Vec<Touch>,
) -> Arc<CheckedOperation> {
    let place = stream.describe();
    Arc::new(CheckedOperation { what, place, process: None, member: None, issued, touches })
}

/// Returns the clock of a CPU kernel that begins at the head of the stream. The caller holds the
/// lock of the stream's queue.
pub(crate) fn kernel_begins(stream: &Stream) -> KernelClock {
    let at = here(stream);
    // The kernel itself is not over, so its own step is excluded.
    let before = ClockPoint { time: at.time.saturating_sub(1), ..at };
    KernelClock::new(engine(stream.device_id()), before)
}

/// Reports that the task at the head of the stream, which is over, has waited for other work.
pub(crate) fn passed(stream: &Stream, passed: Passed<Stream>) {
    let Some(engine) = engine(stream.device_id()) else { return };
    let at = here(stream);
    match passed {
        Passed::Ticket(other, time) => {
            engine.learn_point(at, ClockPoint { component: ClockComponent(other.index()), time });
        }
        Passed::Signal { number, name, call } => {
            let operation = at_head(stream, format!("wait for {name}"), call.into(), Vec::new());
            engine.take(number, at, &operation);
        }
        Passed::Told => engine.is_told(at),
    }
}

/// Reports that the task at the head of the stream, which is about to end, has touched memory.
/// `what` describes it, and `touches` are the accesses.
pub(crate) fn was_done(stream: &'static Stream, issued: String, what: String, touches: Vec<Touch>) {
    if let Some(engine) = engine(stream.device_id()) {
        let (at, operation) = (here(stream), at_head(stream, what, issued, touches));
        engine.begin(at, &operation, Apart::None);
        reached::tell_touches(&engine, at, &operation);
    }
}

/// Reports that the kernel at the head of the stream, which has ended, has broken a rule of kernels
/// with the data that it read.
pub(crate) fn kernel_is_wrong(
    stream: &Stream,
    issued: String,
    what: String,
    finding: ascend_program::check::Finding,
) {
    if let Some(engine) = engine(stream.device_id()) {
        let operation = at_head(stream, what, issued, Vec::new());
        engine.kernel_is_wrong(here(stream), &operation, finding);
    }
}

/// Reports that the kernel or server at the head of the stream touches memory of a device, which
/// may be a window. `describe` returns its description and the call that issued it.
pub(crate) fn window_touched(
    stream: &Stream,
    device: u32,
    touches: impl FnOnce() -> Vec<Touch>,
    describe: impl FnOnce() -> (String, String),
) {
    if let Some(engine) = engine(device) {
        let (what, issued) = describe();
        let operation = at_head(stream, what, issued, touches());
        engine.touches_windows(here(stream), &operation);
    }
}

/// Reports that the task at the head of the stream, which has ended, was the free of an allocation
/// by the function `call`. The note before the free has already checked for accesses that nothing
/// orders relative to the free.
pub(crate) fn freed_in_stream(stream: &Stream, start: usize, call: &'static str) {
    if let Some(engine) = engine(stream.device_id()) {
        let operation = at_head(stream, "free".into(), call.into(), Vec::new());
        engine.freed_at(here(stream), start, operation);
    }
}

/// Reports that a signal has ended. A later signal may have the same number.
#[inline]
pub(crate) fn signal_ended(device: u32, signal: u64) {
    if is_on() {
        notify_cleared(device, signal);
    }
}

/// Reports that the host has cleared a notify.
pub(crate) fn notify_cleared(device: u32, handle: u64) {
    if let Some(engine) = engine(device) {
        engine.clear(handle);
    }
}

/// Reports that a call has shown the host that a stream is complete up to a ticket.
#[inline]
pub(crate) fn host_saw(stream: &Stream, ticket: u64) {
    if let Some(engine) = engine(stream.device_id()) {
        let component = ClockComponent(stream.index());
        issuer_learns(&engine, ClockPoint { component, time: ticket });
    }
}
