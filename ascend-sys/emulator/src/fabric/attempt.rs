//! Attempts of a thread to meet other ranks that no communicator remembers: to make one, or a
//! channel. The thread itself is told the outcome of the last attempt, as data.

use std::cell::RefCell;
use std::sync::Arc;

use crate::collective::comm_error::CommError;

thread_local! {
    static LAST: RefCell<Option<Arc<CommError>>> = const { RefCell::new(None) };
}

/// The calling thread begins one. First in an entry, so that nothing is told of an earlier one.
pub(crate) fn begin() {
    LAST.set(None);
}

/// It has come to nothing.
#[cold]
pub(crate) fn fail(error: Arc<CommError>) {
    LAST.set(Some(error));
}

/// Why the calling thread's last one has come to nothing; `None` when it has not.
pub(crate) fn last() -> Option<Arc<CommError>> {
    LAST.with_borrow(Clone::clone)
}
