//! Submits primitives as tasks.

use super::primitive::Primitive;
use super::thread::Thread;
use super::traced::{self, Traced};
use crate::message::Failure;
use crate::notify;
use crate::submit;

/// Puts a primitive into the queue of its thread.
#[inline]
pub(super) fn submit(
    thread: &'static Thread,
    call: &'static str,
    primitive: Primitive,
) -> Result<(), Failure> {
    let stream = thread.stream()?;
    let note = Traced::of(thread, call, &primitive);
    match primitive {
        Primitive::Copy(copy) => traced::submit(note, thread, stream, call, copy),
        Primitive::Reduce(reduce) => traced::submit(note, thread, stream, call, reduce),
        Primitive::Signal(signal) => traced::submit(note, thread, stream, call, signal),
        Primitive::Await(wait) => traced::submit(note, thread, stream, call, wait),
        Primitive::Record(handle) => notify::record(handle)
            .and_then(|record| submit::submit(stream, "aclrtRecordNotify", record).map(drop)),
        Primitive::Wait(handle, limit) => notify::wait(handle, stream, limit)
            .and_then(|wait| submit::submit(stream, call, wait).map(drop)),
    }
}
