//! Task groups: nodes of a graph that can be replaced by other nodes of the same kinds.

use super::graph::{self, NodeAction};
use super::recording::is_free;
use crate::memory::held::HeldMemory;
use crate::message::{Failure, fail};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::stream::Stream;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_MODEL_UPDATE_FAILED, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
    ACL_ERROR_RT_STREAM_NOT_CAPTURED, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

static GROUPS: Slots<TaskGroup> = Slots::new();

/// The slot of an `aclrtTaskGrp`.
struct TaskGroup {
    index: u32,
    members: Mutex<Members>,
}

#[derive(Clone, Default)]
struct Members {
    graph: u64,
    nodes: Vec<usize>,
}

impl Slotted for TaskGroup {
    const KIND: HandleKind = HandleKind::TaskGroup;

    fn new(index: u32) -> TaskGroup {
        TaskGroup { index, members: Mutex::default() }
    }
}

/// The new nodes for a group, which are collected until its update ends.
struct Update {
    stream: &'static Stream,
    graph: u64,
    /// The nodes to replace, with their kinds.
    old: Vec<(usize, String)>,
    new: Vec<(NodeAction, Vec<HeldMemory>)>,
}

/// The updates that go on. They have a lock of their own. A recording may run while the caller
/// holds the lock of a communicator. An execution of the same graph takes that lock while it holds
/// the lock of the graph. So a recording must not take the lock of the graph.
static UPDATES: Mutex<Vec<Update>> = Mutex::new(Vec::new());

/// `aclmdlRICaptureTaskGrpBegin`: opens a task group on a captured stream.
pub(crate) fn begin(stream: &'static Stream) -> Result<(), Failure> {
    in_capture(stream, |group| match group {
        Some(_) => fail!(
            ACL_ERROR_STREAM_TASK_GROUP_STATUS,
            "a task group of {} is open already; call aclmdlRICaptureTaskGrpEnd first, since \
             groups do not nest",
            stream.describe()
        ),
        None => {
            *group = Some(Vec::new());
            Ok(())
        }
    })
    .map(drop)
}

/// `aclmdlRICaptureTaskGrpEnd`: closes the task group of a captured stream. Returns its handle.
pub(crate) fn end(stream: &'static Stream) -> Result<u64, Failure> {
    let (graph, nodes) = in_capture(stream, |group| match group.take() {
        Some(nodes) => Ok(nodes),
        None => fail!(
            ACL_ERROR_STREAM_TASK_GROUP_STATUS,
            "no task group of {} is open; open one with aclmdlRICaptureTaskGrpBegin",
            stream.describe()
        ),
    })?;
    let taken = GROUPS.take(|group, _| {
        *lock(&group.members) = Members { graph, nodes: nodes.clone() };
    });
    let Some((_, handle)) = taken else {
        return fail!(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "every task group of the process is in use; destroy graphs that are not used"
        );
    };
    graph::with(graph, |state| {
        state.groups.push(handle);
        Ok(handle)
    })
}

/// Calls `use_it` with the open group of a captured stream. Returns the graph as well.
fn in_capture<R>(
    stream: &'static Stream,
    use_it: impl FnOnce(&mut Option<Vec<usize>>) -> Result<R, Failure>,
) -> Result<(u64, R), Failure> {
    let handle = stream.diverted.load(Ordering::Acquire);
    let used = graph::with(handle, |state| match state.captures(stream) {
        Some((recording, branch)) => Ok(Some(use_it(&mut recording.tracks[branch].group)?)),
        None => Ok(None),
    });
    match used {
        Ok(Some(result)) => Ok((handle, result)),
        Err(failure) if handle != 0 => Err(failure),
        _ => fail!(
            ACL_ERROR_RT_STREAM_NOT_CAPTURED,
            "{} is not being captured; call aclmdlRICaptureBegin first",
            stream.describe()
        ),
    }
}

/// `aclmdlRICaptureTaskUpdateBegin`: begins an update, in which the tasks of a stream replace those
/// of a group.
pub(crate) fn begin_update(stream: &'static Stream, handle: u64) -> Result<(), Failure> {
    is_free(stream)?;
    let group = GROUPS.get(handle).ok_or_else(|| unknown(HandleKind::TaskGroup, handle))?;
    let Members { graph, nodes } = lock(&group.members).clone();
    graph::with_complete(graph, |state| {
        if let Some(updater) = state.updater {
            return fail!(
                ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                "{} is updating a task group of the same graph; only one stream at a time can, so \
                 call aclmdlRICaptureTaskUpdateEnd first",
                updater.describe()
            );
        }
        let diverted = &stream.diverted;
        if diverted.compare_exchange(0, graph, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return is_free(stream);
        }
        state.updater = Some(stream);
        let kind = |node: usize| state.nodes.get(node).map_or("", |node| node.step.kind());
        let old = nodes.into_iter().map(|node| (node, kind(node).to_string())).collect();
        lock(&UPDATES).push(Update { stream, graph, old, new: Vec::new() });
        Ok(())
    })
}

/// Returns whether a diverted stream is updating a group, and is not captured.
pub(super) fn is_updating(stream: &'static Stream) -> bool {
    lock(&UPDATES).iter().any(|update| std::ptr::eq(update.stream, stream))
}

/// Records a task for the update of a group. The task must be of the same kind as the task that it
/// replaces.
pub(super) fn replace(
    stream: &'static Stream,
    step: NodeAction,
    held: Vec<HeldMemory>,
) -> Result<(), Failure> {
    let mut updates = lock(&UPDATES);
    let Some(update) = updates.iter_mut().find(|update| std::ptr::eq(update.stream, stream)) else {
        return fail!(
            ACL_ERROR_RT_STREAM_NOT_CAPTURED,
            "the update of {} has just ended; submit tasks before aclmdlRICaptureTaskUpdateEnd",
            stream.describe()
        );
    };
    let position = update.new.len();
    match update.old.get(position) {
        Some((_, kind)) if kind == step.kind() => {
            update.new.push((step, held));
            Ok(())
        }
        Some((_, kind)) => fail!(
            ACL_ERROR_RT_MODEL_UPDATE_FAILED,
            "task {position} of the group is a {kind}, and cannot become a {}; submit tasks of the \
             same kinds in the same order",
            step.kind()
        ),
        None => fail!(
            ACL_ERROR_RT_MODEL_UPDATE_FAILED,
            "the number of tasks in the group is {position}, but the update has more; submit \
             only that many"
        ),
    }
}

/// Removes and returns the update of a stream, if it has one.
fn take_update(stream: &'static Stream) -> Option<Update> {
    let mut updates = lock(&UPDATES);
    let at = updates.iter().position(|update| std::ptr::eq(update.stream, stream))?;
    Some(updates.swap_remove(at))
}

/// `aclmdlRICaptureTaskUpdateEnd`: ends an update. The graph changes here, completely or not at
/// all.
pub(crate) fn end_update(stream: &'static Stream) -> Result<(), Failure> {
    let Some(Update { graph, old, new, .. }) = take_update(stream) else {
        return fail!(
            ACL_ERROR_STREAM_TASK_GROUP_STATUS,
            "{} updates no task group; call aclmdlRICaptureTaskUpdateBegin first",
            stream.describe()
        );
    };
    stream.diverted.store(0, Ordering::Release);
    graph::with(graph, |state| {
        state.updater = None;
        if old.len() != new.len() {
            return fail!(
                ACL_ERROR_RT_MODEL_UPDATE_FAILED,
                "the number of tasks in the group is {}, but the update has only {}; the graph is \
                 unchanged, so repeat the update with all tasks",
                old.len(),
                new.len()
            );
        }
        for ((node, _), (step, held)) in old.into_iter().zip(new) {
            if let Some(node) = state.nodes.get_mut(node) {
                (node.step, node.held) = (step, held);
            }
        }
        Ok(())
    })
}

/// Abandons the update of a stream that ends. Returns false if the stream was not updating a group.
pub(super) fn abandon(stream: &'static Stream) -> bool {
    let Some(update) = take_update(stream) else { return false };
    // If the graph is gone, it has no updater either.
    let _ = graph::with(update.graph, |state| {
        state.updater = None;
        Ok(())
    });
    true
}

/// Returns the one of the `groups` that a node belongs to.
pub(super) fn of_node(groups: &[u64], node: usize) -> Option<u64> {
    let has_it = |handle: &u64| {
        GROUPS.get(*handle).is_some_and(|group| lock(&group.members).nodes.contains(&node))
    };
    groups.iter().copied().find(has_it)
}

/// Ends the groups of a graph that ends.
pub(super) fn destroy(handles: &[u64]) {
    for handle in handles {
        if let Some(group) = GROUPS.get(*handle)
            && GROUPS.retire(*handle)
        {
            GROUPS.recycle(group.index);
        }
    }
}
