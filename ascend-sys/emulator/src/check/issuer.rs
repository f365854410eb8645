//! The knowledge of the code that issues work.
//!
//! A thread of the host knows what the host knows. A CPU kernel is no host: it runs on the device,
//! and knows what its stream knew when it began, and what it has waited for since. So an operation
//! that two kernels of two ranks issue is ordered only by what the operation itself waits for.

use super::clock::{Clock, ClockPoint};
use super::engine::Checker;
use std::cell::RefCell;
use std::sync::Arc;

/// The knowledge of a CPU kernel; none where its device is not checked.
#[derive(Clone)]
pub(crate) struct KernelClock(Option<(Arc<Checker>, Arc<Clock>)>);

thread_local! {
    /// The clock of the CPU kernel that the calling thread runs.
    static KERNEL: RefCell<KernelClock> = const { RefCell::new(KernelClock(None)) };
}

impl KernelClock {
    /// Makes the clock of a kernel whose device `engine` watches, and which begins when `before` is
    /// passed.
    pub(super) fn new(engine: Option<Arc<Checker>>, before: ClockPoint) -> KernelClock {
        KernelClock(engine.map(|engine| {
            let clock = engine.kernel_begins(before);
            (engine, Arc::new(clock))
        }))
    }

    /// The calling thread runs the kernel from now on.
    pub(crate) fn enter(self) {
        KERNEL.set(self);
    }
}

/// Uses the knowledge of the calling thread's kernel, if it runs one that `engine` watches.
fn of_kernel<R>(engine: &Checker, use_it: impl FnOnce(&mut Arc<Clock>) -> R) -> Option<R> {
    KERNEL.with_borrow_mut(|kernel| match &mut kernel.0 {
        Some((own, clock)) if std::ptr::eq(&raw const **own, engine) => Some(use_it(clock)),
        _ => None,
    })
}

/// The knowledge of the calling thread, for an operation that it issues.
pub(super) fn known_to_issuer(engine: &Checker) -> Arc<Clock> {
    of_kernel(engine, |clock| Arc::clone(clock)).unwrap_or_else(|| engine.known_to_host())
}

/// The calling thread has been told that a point is passed.
pub(super) fn issuer_learns(engine: &Checker, point: ClockPoint) {
    let learnt = of_kernel(engine, |clock| {
        let passed = engine.clock_at(point);
        Arc::make_mut(clock).join(&passed);
    });
    if learnt.is_none() {
        engine.host_learns(point);
    }
}

/// While it lives, the calling thread acts as the host: by itself, in no stream.
pub(super) struct AsHost<'a>(&'a Checker);

impl AsHost<'_> {
    pub(super) fn begin(engine: &Checker) -> AsHost<'_> {
        if let Some(clock) = of_kernel(engine, |clock| Arc::clone(clock)) {
            engine.host_joins(&clock);
        }
        AsHost(engine)
    }
}

impl Drop for AsHost<'_> {
    fn drop(&mut self) {
        let engine = self.0;
        of_kernel(engine, |clock| Arc::make_mut(clock).join(&engine.known_to_host()));
    }
}
