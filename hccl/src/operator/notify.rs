//! Notifies between the threads of a rank.

use std::fmt;
use std::marker::PhantomData;

use super::state::State;

mod sealed {
    pub trait Sealed {}
}

/// The state of a [`Notify`]: [`Clear`] or [`Set`].
///
/// ```
/// use hccl::operator::{Notify, NotifyState};
///
/// /// Works on a notify in either state.
/// fn describe<S: NotifyState>(notify: &Notify<'_, S>) -> String {
///     format!("{notify:?}")
/// }
/// ```
pub trait NotifyState: sealed::Sealed {
    #[doc(hidden)]
    const IS_SET: bool;
}

/// The state of a notify whose bit is clear. The next step is to record the notify.
///
/// ```
/// use hccl::operator::*;
///
/// /// The second thread copies when the first one has.
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     let (shared, count) = (op.buffer(), op.count());
///     main.fork(2, |threads| {
///         let [first, second] = threads.array();
///         let notify: Notify<'_, Clear> = second.notify();
///         first.copy(op.input(), shared.slice(..count));
///         let notify: Notify<'_, Set> = first.record(notify);
///         let _clear: Notify<'_, Clear> = second.wait(notify);
///         second.copy(shared.slice(..count), op.output());
///     });
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub enum Clear {}

/// The state of a notify whose bit is set, or will be set. The next step is to wait for the notify.
///
/// ```
/// use hccl::operator::*;
///
/// /// The second thread copies when the first one has.
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     let (shared, count) = (op.buffer(), op.count());
///     main.fork(2, |threads| {
///         let [first, second] = threads.array();
///         let notify: Notify<'_, Clear> = second.notify();
///         first.copy(op.input(), shared.slice(..count));
///         let notify: Notify<'_, Set> = first.record(notify);
///         let _clear: Notify<'_, Clear> = second.wait(notify);
///         second.copy(shared.slice(..count), op.output());
///     });
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub enum Set {}

impl sealed::Sealed for Clear {}
impl sealed::Sealed for Set {}

impl NotifyState for Clear {
    const IS_SET: bool = false;
}

impl NotifyState for Set {
    const IS_SET: bool = true;
}

/// A latched bit: one thread of a rank waits for it, and another thread sets it. A notify belongs
/// to the thread that waits, and that thread [makes](super::Thread::notify) it.
///
/// The type of a notify determines the next step: [`record`](super::Thread::record) takes a clear
/// notify and returns a set one, and [`wait`](super::Thread::wait) takes a set notify and returns a
/// clear one. So no thread records a notify twice, or waits for a notify that no thread records.
/// Dropping or forgetting a set notify is a mistake: its bit would still be set when the next
/// operator runs.
///
/// ```compile_fail
/// use hccl::operator::*;
///
/// fn twice(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.fork(2, |threads| {
///         let [a, b] = threads.array();
///         let notify = b.notify();
///         let set = a.record(notify);
///         let again = a.record(set); // expected `Notify<Clear>`, found `Notify<Set>`
///     });
/// }
/// ```
pub struct Notify<'f, S: NotifyState = Clear> {
    pub(super) state: &'f State,
    /// The thread that waits for the notify.
    pub(super) thread: u32,
    pub(super) index: u32,
    of: PhantomData<S>,
}

impl<'f, S: NotifyState> Notify<'f, S> {
    pub(super) fn new(state: &'f State, thread: u32, index: u32) -> Self {
        Notify { state, thread, index, of: PhantomData }
    }

    /// Returns the same notify in another state.
    pub(super) fn in_state<T: NotifyState>(self) -> Notify<'f, T> {
        Notify::new(self.state, self.thread, self.index)
    }
}

impl<S: NotifyState> fmt::Debug for Notify<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if S::IS_SET { "set" } else { "clear" };
        write!(f, "Notify({} of thread {}, {state})", self.index, self.thread)
    }
}
