//! Begins the work of calls: puts a task into a stream, or reports work that is done at once. This
//! module calls checked mode and captures, so that the submitting modules do not depend on them.
//!
//! Each execution of a graph issues operations of communicators and kernels anew. These enter a
//! captured stream in [another way](crate::capture::record_call), and report to checked mode
//! themselves when they run.

use crate::capture;
use crate::check;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::{TaskBody, Touch};

/// Submits a task to a stream, for the function `call`. See [`capture::submit`].
#[inline(always)]
pub(crate) fn submit(
    stream: &'static Stream,
    call: &'static str,
    task: impl TaskBody<Stream>,
) -> Result<u64, Failure> {
    submit_of(stream, call, || None, task)
}

/// Does the same as [`submit`]. `member` returns the name of the rank that the task belongs to, for
/// checked mode.
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

/// Reports to checked mode that the calling thread is about to touch memory of a device in the
/// function `call`, outside of streams. `describe` returns the operation and its bytes.
#[inline]
pub(crate) fn at_once(
    device: u32,
    call: &'static str,
    describe: impl FnOnce() -> (String, Vec<Touch>),
) {
    check::host_touches(device, call, describe);
}
