//! Runs deferred work. Each item waits until other work has ended, and is tried until it is done.
//!
//! The housekeeper tries the items at every tick while anything is unfinished. Other threads try
//! them after they have ended work that an item may wait for.

use ascend_sync::lock_std as lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// An item, which returns whether it is done.
type Look = Box<dyn FnMut() -> bool + Send>;

static ALL: Mutex<Vec<Look>> = Mutex::new(Vec::new());
/// Whether there are items.
static ANY: AtomicBool = AtomicBool::new(false);
/// Held by the thread that tries the items. A second thread tries them again afterwards, because
/// the first may have tried an item before the second ended the work that the item waits for.
static AT_IT: Mutex<()> = Mutex::new(());

/// Calls `look` now, and again later until it returns true. Returns after the first call.
pub(crate) fn until_done(mut look: impl FnMut() -> bool + Send + 'static) {
    if !look() {
        let mut all = lock(&ALL);
        all.push(Box::new(look));
        ANY.store(true, Ordering::Release);
    }
}

/// Tries all items. Call it after ending work that an item may wait for.
#[inline]
pub(crate) fn look() {
    if ANY.load(Ordering::Acquire) {
        look_at_all();
    }
}

#[cold]
fn look_at_all() {
    let _at_it = lock(&AT_IT);
    // Items may be added while these are tried: the end of an item may defer the end of something
    // else.
    let mut due = std::mem::take(&mut *lock(&ALL));
    due.retain_mut(|look| !look());
    let mut all = lock(&ALL);
    all.append(&mut due);
    ANY.store(!all.is_empty(), Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_is_looked_at_until_it_is_done_and_never_again() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        until_done(move || counted.fetch_add(1, Ordering::Relaxed) == 2);
        while Arc::strong_count(&looks) > 1 {
            look();
        }
        assert_eq!(looks.load(Ordering::Relaxed), 3);
    }
}
