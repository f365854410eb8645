//! How a stream ends.

use crate::step::Reason;
use crate::stream::Stream;
use crate::{capture, report};
use ascend_sys::aclError;

/// Takes the handle of a stream away and drops what is queued; waits for nothing but the piece of
/// work that runs.
pub(crate) fn destroy(stream: &'static Stream, code: aclError, reason: Reason) {
    // Of two who destroy it at once, one is late.
    if stream.take_handle() {
        capture::abandon(stream);
        stream.stop(code, reason);
        report::release(stream);
        stream.recycle();
    }
}
