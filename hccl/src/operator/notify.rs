//! Notifies between the threads of a rank.

use std::fmt;
use std::marker::PhantomData;

use super::state::State;

mod sealed {
    pub trait Sealed {}
}

/// [`Clear`] or [`Set`].
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

/// The bit is clear: it is next to be recorded.
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

/// The bit is set, or will be: it is next to be waited for.
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

/// One latched bit, with which one thread of a rank holds up another. It belongs to the thread that
/// waits for it, which [makes](super::Thread::notify) it.
///
/// Its type says what comes next: [`record`](super::Thread::record) takes a clear one and gives it
/// back set, [`wait`](super::Thread::wait) the other way round. So no thread records it twice, or
/// waits for a notify that nobody records. Dropping or forgetting a set one is a mistake: the bit
/// would be left over for the next operator.
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
    /// The thread that waits for it.
    pub(super) thread: u32,
    pub(super) index: u32,
    of: PhantomData<S>,
}

impl<'f, S: NotifyState> Notify<'f, S> {
    pub(super) fn new(state: &'f State, thread: u32, index: u32) -> Self {
        Notify { state, thread, index, of: PhantomData }
    }

    /// Returns the same bit in the other state.
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
