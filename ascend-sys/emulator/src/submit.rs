//! Where the work of calls begins: a task goes into a stream, or something is done at once. Checked
//! mode and captures hook in here, so that the submitting modules know of neither.
//!
//! Operations of communicators and kernels are issued anew by each execution of a graph. They go
//! [another way](crate::capture::record_call) into a stream that is captured, and tell checked mode
//! themselves when they run.

use crate::capture;
use crate::check;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::{TaskBody, Touch};

/// Gives a task to a stream, from the function `call`. See [`capture::submit`].
#[inline(always)]
pub(crate) fn submit(
    stream: &'static Stream,
    call: &'static str,
    task: impl TaskBody<Stream>,
) -> Result<u64, Failure> {
    submit_of(stream, call, || None, task)
}

/// As [`submit`], of a task that belongs to somebody.
#[inline(always)]
pub(crate) fn submit_of(
    stream: &'static Stream,
    call: &'static str,
    member: impl FnOnce() -> Option<String>,
    task: impl TaskBody<Stream>,
) -> Result<u64, Failure> {
    let returns = check::is_on() && check::announce(stream, call, member(), task.effects())?;
    let ticket = capture::submit(stream, task)?;
    if returns {
        check::returns_to_stream(stream)?;
    }
    Ok(ticket)
}

/// The calling thread is about to touch memory of a device in the function `call`, in no stream.
/// `describe` returns the operation and its bytes.
#[inline]
pub(crate) fn at_once(
    device: u32,
    call: &'static str,
    describe: impl FnOnce() -> (String, Vec<Touch>),
) {
    check::host_touches(device, call, describe);
}
