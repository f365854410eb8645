//! The clock of the code that issues work.
//!
//! A thread of the host has the clock of the host. A CPU kernel has its own clock, because it runs
//! on the device. It begins with the knowledge of its stream, and learns only from its own waits.
//! So if kernels of two ranks issue an operation, only the waits of the operation itself order the
//! ranks.

use super::clock::{Clock, ClockPoint};
use super::engine::Checker;
use std::cell::RefCell;
use std::sync::Arc;

/// The clock of a CPU kernel, with its checker; `None` if its device is not checked.
#[derive(Clone)]
pub(crate) struct KernelClock(Option<(Arc<Checker>, Arc<Clock>)>);

thread_local! {
    /// The clock of the CPU kernel that the calling thread runs.
    static KERNEL: RefCell<KernelClock> = const { RefCell::new(KernelClock(None)) };
}

impl KernelClock {
    /// Makes the clock of a kernel that begins when `before` is passed. `engine` is the checker of
    /// its device, if there is one.
    pub(super) fn new(engine: Option<Arc<Checker>>, before: ClockPoint) -> KernelClock {
        KernelClock(engine.map(|engine| {
            let clock = engine.kernel_begins(before);
            (engine, Arc::new(clock))
        }))
    }

    /// Notes that the calling thread runs the kernel from now on.
    pub(crate) fn enter(self) {
        KERNEL.set(self);
    }
}

/// Calls `use_it` with the clock of the calling thread's kernel, if it runs a kernel that `engine`
/// checks.
fn of_kernel<R>(engine: &Checker, use_it: impl FnOnce(&mut Arc<Clock>) -> R) -> Option<R> {
    KERNEL.with_borrow_mut(|kernel| match &mut kernel.0 {
        Some((own, clock)) if std::ptr::eq(&raw const **own, engine) => Some(use_it(clock)),
        _ => None,
    })
}

/// Returns the clock of the calling thread, for an operation that it issues.
pub(super) fn known_to_issuer(engine: &Checker) -> Arc<Clock> {
    of_kernel(engine, |clock| Arc::clone(clock)).unwrap_or_else(|| engine.known_to_host())
}

/// Notes that the calling thread has learned that a point is passed.
pub(super) fn issuer_learns(engine: &Checker, point: ClockPoint) {
    let learnt = of_kernel(engine, |clock| {
        let passed = engine.clock_at(point);
        Arc::make_mut(clock).join(&passed);
    });
    if learnt.is_none() {
        engine.host_learns(point);
    }
}

/// A guard during which the calling thread acts as the host itself, in no stream.
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
