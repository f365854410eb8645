//! The registry of the communicators of this process, by handle and by name.
//!
//! A handle refers to an *issue state*: the state that one rank needs to issue operations. The lock
//! of the issue state is held during a call, so that a rank issues one operation after the other. A
//! destroy that finds the lock held returns `HCCL_E_AGAIN`. Queries do not wait for the lock.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::comm::{Comm, Member};
use crate::collective::claim::MeetingPlace;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::message::{Failure, refuse};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::stream::Mark;
use ascend_sync::{Guard, SpinLock, lock_std as lock};

static COMMS: Slots<CommEntry> = Slots::new();

struct CommEntry {
    index: u32,
    handle: AtomicU64,
    member: Mutex<Option<Arc<Member>>>,
    issue_state: SpinLock<Option<IssueState>>,
}

impl Slotted for CommEntry {
    const KIND: HandleKind = HandleKind::Communicator;

    fn new(index: u32) -> Self {
        let handle = AtomicU64::new(0);
        Self { index, handle, member: Mutex::new(None), issue_state: SpinLock::new(None) }
    }
}

/// The state that a rank needs to issue operations.
pub(crate) struct IssueState {
    pub(crate) handle: u64,
    pub(crate) member: Arc<Member>,
    /// The newest collective.
    pub(crate) newest: MeetingPlace,
    /// Whether the rank has met all other ranks in a collective.
    pub(crate) linked: bool,
    /// Whether the rank has exchanged messages with each peer, by rank.
    pub(crate) peers: Vec<bool>,
    /// The mark of the rank's newest operation.
    pub(crate) mark: Option<Mark>,
    /// The newest graph that has collectives of the communicator, and the number of this graph: see
    /// [`IssueState::capture`].
    capture: (u64, u8),
}

impl IssueState {
    /// Returns the number of a capture among those of the communicator, from 1. All ranks make the
    /// same captures in the same order, so the graphs of one capture have the same number on every
    /// rank. A byte is enough to distinguish a capture from those next to it; 0 means no capture.
    pub(crate) fn capture(&mut self, graph: u64) -> u8 {
        let (newest, number) = self.capture;
        if newest != graph {
            self.capture = (graph, number.checked_add(1).unwrap_or(1));
        }
        self.capture.1
    }
}

/// Registers a rank, and returns the new handle for it.
pub(crate) fn register(member: Member) -> Result<u64, Failure> {
    let member = Arc::new(member);
    let ranks = member.comm.ranks();
    let taken = COMMS.take(|entry, handle| {
        *lock(&entry.member) = Some(Arc::clone(&member));
        *entry.issue_state.lock() = Some(IssueState {
            handle,
            member,
            newest: MeetingPlace { number: 0 },
            linked: ranks == 1,
            peers: vec![false; ranks],
            mark: None,
            capture: (0, 0),
        });
        entry.handle.store(handle, Ordering::Release);
    });
    match taken {
        Some((_, handle)) => Ok(handle),
        None => {
            refuse!(
                HCCL_E_UNAVAIL,
                "EI0007: every communicator handle of the process is in use; destroy \
                 communicators that are no longer needed (HcclCommDestroy)"
            )
        }
    }
}

fn stale<T>(handle: u64) -> Result<T, Failure> {
    refuse!(HCCL_E_PARA, "EI0003: {}", unknown(HandleKind::Communicator, handle).text)
}

fn entry(handle: u64) -> Result<&'static CommEntry, Failure> {
    COMMS.get(handle).map_or_else(|| stale(handle), Ok)
}

/// Calls `use_it` with the issue state of a handle, after any current user has released it.
#[inline]
pub(crate) fn with_issue_state<R>(
    handle: u64,
    use_it: impl FnOnce(&mut IssueState) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let entry = entry(handle)?;
    let mut issue_state = entry.issue_state.lock();
    let result = match &mut *issue_state {
        // The slot may belong to another communicator by now.
        Some(issue_state) if entry.handle.load(Ordering::Relaxed) == handle => use_it(issue_state),
        _ => stale(handle),
    };
    if result.is_err() {
        drop(issue_state);
        leave_now();
    }
    result
}

thread_local! {
    /// The device of the rank that leaves when the current call of the thread has failed.
    static LEAVING: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Makes the rank of a device leave when the current call of the thread has failed.
pub(crate) fn leave_with_call(device: u32) {
    LEAVING.set(Some(device));
}

/// Makes the rank leave that [`leave_with_call`] has registered, if there is one. Called when the
/// call has failed and holds no lock any more.
#[cold]
fn leave_now() {
    if let Some(device) = LEAVING.take() {
        destroy_all(&(device..device + 1), "this fault was set for its device");
    }
}

/// Returns the rank of a handle, even while the rank is in a call.
pub(crate) fn member(handle: u64) -> Result<Arc<Member>, Failure> {
    let entry = entry(handle)?;
    let member = lock(&entry.member);
    match &*member {
        Some(member) if entry.handle.load(Ordering::Acquire) == handle => Ok(Arc::clone(member)),
        _ => stale(handle),
    }
}

/// Returns the handle of the communicator with this name on a device; `None` if the device has
/// none.
pub(crate) fn find_by_name(name: &str, device: u32) -> Option<u64> {
    COMMS.live_handles().map(|(_, handle)| handle).find(|handle| {
        member(*handle).is_ok_and(|member| member.device == device && member.comm.name == name)
    })
}

/// Returns whether a device is in a communicator of a rank table.
pub(super) fn has_cluster(device: u32) -> bool {
    members().any(|member| member.device == device && member.comm.is_cluster)
}

/// Returns the number of communicators that a device has in this process.
pub(crate) fn count_on(device: u32) -> usize {
    members().filter(|member| member.device == device).count()
}

/// Returns all members of communicators in this process.
fn members() -> impl Iterator<Item = Arc<Member>> {
    COMMS.live_handles().filter_map(|(_, handle)| member(handle).ok())
}

/// Makes a rank that has left a communicator also leave the sub-communicators that it has made from
/// that communicator.
pub(crate) fn leave_subs(comm: &Arc<Comm>, rank: usize, why: &str) {
    for member in members() {
        if let Some((parent, there)) = &member.origin
            && *there == rank
            && std::ptr::eq(parent.as_ptr(), Arc::as_ptr(comm))
        {
            member.comm.leave(member.rank, why.to_owned());
        }
    }
}

/// Ends a communicator and its sub-communicators, for all their ranks.
pub(crate) fn abort(member: &Member) {
    let (rank, whole) = (member.rank, &member.comm);
    let end = |comm: &Comm, by: Option<usize>, text: String| {
        let error = CommError::new(Origin::Call, Cause::Aborted, text);
        comm.fail(CommError { by, ..error });
    };
    end(
        whole,
        Some(rank),
        format!("rank {rank} has aborted the communicator \"{}\"", whole.title()),
    );
    for part in members() {
        let of = part.origin.as_ref().map(|(parent, _)| parent.as_ptr());
        if of == Some(Arc::as_ptr(whole)) && part.comm.meeting.error().is_none() {
            let is_own = |other: &Arc<Member>| {
                Arc::ptr_eq(&other.comm, &part.comm)
                    && other.origin.as_ref().is_some_and(|(_, there)| *there == rank)
            };
            let by = members().find(is_own).map(|own| own.rank);
            let text = format!(
                "rank {rank} has aborted the communicator \"{}\", of which \"{}\" is a part",
                whole.title(),
                part.comm.title()
            );
            end(&part.comm, by, text);
        }
    }
}

/// Ends a rank's side of a communicator. Its handle is invalid from now on, and the other ranks are
/// notified that it will issue nothing more. Returns `HCCL_E_AGAIN` if another thread is in a call
/// with the handle.
pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
    let entry = entry(handle)?;
    let Some(issue_state) = entry.issue_state.try_lock() else {
        return refuse!(
            HCCL_E_AGAIN,
            "the communicator is in a call of another thread; destroy it when that has returned"
        );
    };
    remove(entry, issue_state, handle, "it has destroyed its communicator")
}

fn remove(
    entry: &'static CommEntry,
    mut issue_state: Guard<'_, Option<IssueState>>,
    handle: u64,
    why: &str,
) -> Result<(), Failure> {
    if entry.handle.load(Ordering::Relaxed) != handle || !COMMS.retire(handle) {
        return stale(handle);
    }
    let gone = issue_state.take();
    lock(&entry.member).take();
    drop(issue_state);
    COMMS.recycle(entry.index);
    if let Some(IssueState { member, mark, .. }) = gone {
        let (rank, comm) = (member.rank, &member.comm);
        // A program ends a stuck communicator in this way: the operations in flight fail, also on
        // this rank.
        if mark.is_some_and(|mark| !mark.is_complete()) {
            let text = format!("rank {rank} ended the communicator during an operation: {why}");
            comm.fail(CommError::new(Origin::Call, Cause::Gone, text));
        }
        comm.leave(rank, why.into());
    }
    Ok(())
}

/// Ends every communicator of devices that are released, or whose ranks leave. Each rank leaves
/// before its handle is removed. So if the handle is in a call that waits for other ranks, the call
/// fails, because the other ranks see the rank leave.
pub(crate) fn destroy_all(devices: &Range<u32>, why: &str) {
    let handles: Vec<_> = COMMS.live_handles().map(|(_, handle)| handle).collect();
    for handle in handles {
        let Ok(member) = member(handle) else { continue };
        if devices.contains(&member.device) {
            member.comm.leave(member.rank, why.to_owned());
            if let Ok(entry) = entry(handle) {
                // An error means that another thread has destroyed it just now.
                let _ = remove(entry, entry.issue_state.lock(), handle, why);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use ascend_sys::HcclResult;

    use super::*;
    use crate::fabric::config::CommConfig;
    use crate::profile::Product;

    #[test]
    fn a_communicator_that_is_in_a_call_is_not_destroyed() {
        let comm = Comm::new("busy".into(), Product::A3, Duration::from_secs(1), 1);
        let member = Member {
            comm: Arc::new(comm),
            rank: 0,
            device: u32::MAX,
            origin: None,
            config: CommConfig::default(),
            exec_timeout: None,
            suspended: false.into(),
            numbers_zeros: false.into(),
        };
        let handle = register(member).unwrap();
        let destroy_elsewhere =
            || std::thread::scope(|scope| scope.spawn(|| destroy(handle)).join().unwrap());
        let refused = with_issue_state(handle, |_| Ok(destroy_elsewhere())).unwrap().unwrap_err();
        assert_eq!(refused.code, HcclResult::HCCL_E_AGAIN, "{}", refused.text);
        assert!(refused.text.contains("in a call of another thread"), "{}", refused.text);
        // The call is over.
        destroy_elsewhere().unwrap();
        assert_eq!(destroy(handle).unwrap_err().code, HcclResult::HCCL_E_PARA);
    }
}
