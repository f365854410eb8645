//! Tasks of graphs, which a program can inspect and edit.
//!
//! A task is a node of a complete graph. Its handle is valid as long as the graph. Edits take
//! effect when the program calls `aclmdlRIUpdate`, which makes all of them.

use super::graph::{self, GraphState, NodeAction};
use super::group;
use crate::memory::held::{HeldMemory, hold};
use crate::message::{Failure, fail};
use crate::slots::{HandleKind, unknown};
use crate::step::WordTask;
use crate::stream::{Stream, Task};
use ascend_sync::lock_std as lock;
use ascend_sys::{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID};
use std::collections::BTreeMap;
use std::sync::Mutex;

struct GraphTasks {
    last: u64,
    /// The graph and the node of each task, by handle.
    nodes: BTreeMap<u64, (u64, usize)>,
}

static TASKS: Mutex<GraphTasks> = Mutex::new(GraphTasks { last: 0, nodes: BTreeMap::new() });

/// The kind of a task, as far as programs can query it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphTaskKind {
    Other,
    Kernel,
    /// A record of the event with this handle. [`EventWait`](Self::EventWait) has the handle, too.
    EventRecord(u64),
    EventWait(u64),
    ValueWrite(WordTask),
    ValueWait(WordTask),
}

/// The prefix of the names of calls that launch kernels.
pub(crate) const KERNEL: &str = "kernel ";

impl GraphTaskKind {
    fn of(action: &NodeAction) -> GraphTaskKind {
        match action {
            NodeAction::Task(task) => match task.word() {
                Some(word) if word.flag.is_none() => GraphTaskKind::ValueWrite(word),
                Some(word) => GraphTaskKind::ValueWait(word),
                None => GraphTaskKind::Other,
            },
            NodeAction::Call(call) if call.name.starts_with(KERNEL) => GraphTaskKind::Kernel,
            NodeAction::Call(_) | NodeAction::Disabled => GraphTaskKind::Other,
            NodeAction::Record(event) => GraphTaskKind::EventRecord(*event),
            NodeAction::Wait(_, event) => GraphTaskKind::EventWait(*event),
        }
    }
}

/// Returns the handles of the streams that a graph has for its branches. Makes those that the graph
/// does not have yet.
pub(crate) fn streams(graph: u64) -> Result<Vec<u64>, Failure> {
    graph::with_complete(graph, |state| {
        (0..state.branches).map(|branch| state.own_stream(branch).map(Stream::handle)).collect()
    })
}

/// Returns the handles of the tasks of a graph's own stream, in their order.
pub(crate) fn of_stream(stream: &'static Stream) -> Result<Vec<u64>, Failure> {
    let Some((graph, branch)) = graph::owner_of(stream.handle()) else {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{} is not a stream of a graph; pass a stream that aclmdlRIGetStreams returned",
            stream.describe()
        );
    };
    graph::with_complete(graph, |state| {
        let nodes = state.nodes.iter().enumerate();
        // Records and waits that the graph itself has added belong to no event of the program.
        let is_own =
            |action: &NodeAction| matches!(action, NodeAction::Record(0) | NodeAction::Wait(_, 0));
        let of_branch = nodes.filter(|(_, node)| node.branch == branch && !is_own(&node.step));
        let mut tasks = lock(&TASKS);
        let handle = |node: usize| {
            *state.tasks.entry(node).or_insert_with(|| {
                tasks.last += 1;
                let handle = HandleKind::GraphTask.bits() | tasks.last;
                tasks.nodes.insert(handle, (graph, node));
                handle
            })
        };
        Ok(of_branch.map(|(node, _)| node).map(handle).collect())
    })
}

/// Removes the tasks of a graph that ends.
pub(super) fn forget<'a>(handles: impl Iterator<Item = &'a u64>) {
    let mut tasks = lock(&TASKS);
    handles.for_each(|handle| _ = tasks.nodes.remove(handle));
}

/// Calls `use_it` with the graph of a task, and its node.
fn with<R>(
    task: u64,
    use_it: impl FnOnce(&mut GraphState, usize) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let unknown = || unknown(HandleKind::GraphTask, task);
    let (graph, node) = lock(&TASKS).nodes.get(&task).copied().ok_or_else(unknown)?;
    graph::with_complete(graph, |state| use_it(state, node))
}

/// Returns the kind of a task, as it will be executed next.
pub(crate) fn kind(task: u64) -> Result<GraphTaskKind, Failure> {
    with(task, |state, node| {
        let node = state.nodes.get(node);
        Ok(node.map_or(GraphTaskKind::Other, |node| GraphTaskKind::of(&node.step)))
    })
}

/// Returns the index of a task among the nodes of its graph.
pub(crate) fn place(task: u64) -> Result<usize, Failure> {
    with(task, |_, node| Ok(node))
}

/// Returns the handle of the task group that a task belongs to, if there is one.
pub(crate) fn group(task: u64) -> Result<Option<u64>, Failure> {
    with(task, |state, node| Ok(group::of_node(&state.groups, node)))
}

/// Returns the graph's own stream that a task belongs to.
pub(crate) fn stream(task: u64) -> Result<&'static Stream, Failure> {
    with(task, |state, node| {
        let branch = state.nodes.get(node).map_or(0, |node| node.branch);
        state.own_stream(branch)
    })
}

/// Makes a task do nothing from the next update on.
pub(crate) fn disable(task: u64) -> Result<(), Failure> {
    edit(task, |kind| match kind {
        GraphTaskKind::EventRecord(_) | GraphTaskKind::EventWait(_) => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "the task is a record of an event or a wait for one, which orders the streams of the \
             graph; disable other tasks only"
        ),
        _ => Ok((NodeAction::Disabled, Vec::new())),
    })
}

/// Replaces a value write or a value wait by another task of the same kind, from the next update
/// on.
pub(crate) fn set(task: u64, new: Task) -> Result<(), Failure> {
    let held =
        hold(new.touched()).map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text))?;
    let wanted = new.kind();
    edit(task, |kind| match kind {
        GraphTaskKind::ValueWrite(_) | GraphTaskKind::ValueWait(_) => {
            Ok((NodeAction::Task(new), held))
        }
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the task is no longer a {wanted}; query its type with aclmdlRITaskGetType"
        ),
    })
}

fn edit(
    task: u64,
    edit: impl FnOnce(GraphTaskKind) -> Result<(NodeAction, Vec<HeldMemory>), Failure>,
) -> Result<(), Failure> {
    with(task, |state, place| {
        if let Some(node) = state.nodes.get(place) {
            state.edits.insert(place, edit(GraphTaskKind::of(&node.step))?);
        }
        Ok(())
    })
}

/// `aclmdlRIUpdate`: makes all edits. They do not change executions that were issued before.
pub(crate) fn update(graph: u64) -> Result<(), Failure> {
    graph::with_complete(graph, |state| {
        for (place, (step, held)) in std::mem::take(&mut state.edits) {
            if let Some(node) = state.nodes.get_mut(place) {
                (node.step, node.held) = (step, held);
            }
        }
        Ok(())
    })
}
