//! Attempts of a thread to meet other ranks that no communicator remembers: to make one, or a
//! channel. The thread itself is told the outcome of the last attempt, as data.

use std::cell::RefCell;
use std::sync::Arc;

use crate::collective::comm_error::CommError;

thread_local! {
    static LAST: RefCell<Option<Arc<CommError>>> = const { RefCell::new(None) };
}

/// Begins an attempt of the calling thread. Called first in an ABI entry, so that a later query
/// says nothing of an earlier attempt.
pub(crate) fn begin() {
    LAST.set(None);
}

/// The attempt has failed.
#[cold]
pub(crate) fn fail(error: Arc<CommError>) {
    LAST.set(Some(error));
}

/// Returns why the calling thread's last attempt has failed; `None` when it has not.
pub(crate) fn last() -> Option<Arc<CommError>> {
    LAST.with_borrow(Clone::clone)
}
