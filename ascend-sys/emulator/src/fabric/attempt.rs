//! The outcome of a thread's last attempt to make a communicator or a channel. If an attempt fails,
//! no communicator exists that could record the error. So the error is kept here, as data, for the
//! thread that made the attempt.

use std::cell::RefCell;
use std::sync::Arc;

use crate::collective::comm_error::CommError;

thread_local! {
    static LAST: RefCell<Option<Arc<CommError>>> = const { RefCell::new(None) };
}

/// Begins an attempt of the calling thread. An ABI entry calls this first, so that a later query
/// does not return the error of an earlier attempt.
pub(crate) fn begin() {
    LAST.set(None);
}

/// Records that the attempt of the calling thread has failed.
#[cold]
pub(crate) fn fail(error: Arc<CommError>) {
    LAST.set(Some(error));
}

/// Returns the error of the calling thread's last attempt; `None` if the attempt has not failed.
pub(crate) fn last() -> Option<Arc<CommError>> {
    LAST.with_borrow(Clone::clone)
}
