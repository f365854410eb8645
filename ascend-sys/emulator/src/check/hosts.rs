//! Makes the hosts of several processes count as one component, as the threads of a process do.
//!
//! Processes can communicate in ways that the checker cannot see: a pipe, a file, MPI. So each call
//! of the C ABI and each host function first receives the clocks that the hosts of other processes
//! had when their last calls returned. When it returns, it sends the clock of this host.

use super::clock::Clock;
use super::engine::Checker;
use crate::processes::listener;
use ascend_sync::lock_std as lock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A function that sends the clock of a checker's host to the other processes of a communicator. It
/// returns false if they cannot receive it now, and `None` if the communicator is gone.
pub(super) type TellHosts = Box<dyn Fn(&Checker) -> Option<bool> + Send>;

/// The connection to the other processes of a communicator.
struct HostLink {
    engine: Arc<Checker>,
    /// The clock that was sent last.
    told: Option<Arc<Clock>>,
    tell: TellHosts,
}

static LINKS: Mutex<Vec<HostLink>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Makes the host send its clock to the processes of a communicator, at once and from now on.
pub(super) fn link(engine: &Arc<Checker>, tell: TellHosts) {
    let mut links = lock(&LINKS);
    links.push(HostLink { engine: Arc::clone(engine), told: None, tell });
    tell_all(&mut links);
}

fn tell_all(links: &mut Vec<HostLink>) {
    links.retain_mut(|HostLink { engine, told, tell }| {
        let known = engine.known_to_host();
        if told.as_ref().is_some_and(|told| Arc::ptr_eq(told, &known)) {
            return true;
        }
        match tell(engine) {
            Some(true) => *told = Some(known),
            // The clock is sent later, together with the following changes.
            Some(false) => {}
            None => return false,
        }
        true
    });
    COUNT.store(links.len(), Ordering::Release);
}

/// A guard for a call of the C ABI or a host function. It exchanges clocks with the hosts of other
/// processes, if there are any.
pub(crate) struct OneHost {
    is_one_with_others: bool,
}

impl OneHost {
    #[inline]
    pub(crate) fn begin() -> OneHost {
        let is_one_with_others = COUNT.load(Ordering::Relaxed) != 0;
        if is_one_with_others {
            tell_all(&mut lock(&LINKS));
            listener::catch_up();
        }
        OneHost { is_one_with_others }
    }
}

impl Drop for OneHost {
    #[inline]
    fn drop(&mut self) {
        if self.is_one_with_others {
            tell_all(&mut lock(&LINKS));
        }
    }
}
