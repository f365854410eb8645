//! Graphs: their nodes, and their execution.

use super::group;
use super::recording::CaptureRecording;
use super::tasks;
use crate::after::After;
use crate::check;
use crate::context;
use crate::executor;
use crate::machine;
use crate::memory::held::HeldMemory;
use crate::message::{Failure, fail};
use crate::queue;
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::step::{Helpers, Reason, Step as Progress};
use crate::stream::{Mark, Stream, Task};
use crate::task::{Passed, TaskBody};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_MODEL_CAPTURED, ACL_ERROR_RT_MODEL_RUNNING, ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_STREAM_CAPTURED,
    ACL_ERROR_RT_STREAM_CONTEXT, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

static GRAPHS: Slots<Graph> = Slots::new();

/// The time limit of a destroy that waits for a running graph.
const DESTROY: Duration = Duration::from_secs(10);

/// The slot of an `aclmdlRI`.
pub(crate) struct Graph {
    index: u32,
    state: Mutex<Option<GraphState>>,
}

impl Slotted for Graph {
    const KIND: HandleKind = HandleKind::Graph;

    fn new(index: u32) -> Graph {
        Graph { index, state: Mutex::new(None) }
    }
}

pub(crate) struct GraphState {
    pub(super) handle: u64,
    pub(super) context: u64,
    pub(super) device: u32,
    pub(crate) name: CString,
    /// The recording, while streams are captured or bound; `None` for a complete graph.
    pub(super) recording: Option<CaptureRecording>,
    pub(super) nodes: Vec<Node>,
    pub(super) branches: usize,
    /// The stream that is updating one of the graph's task groups.
    pub(super) updater: Option<&'static Stream>,
    /// The handles of the task groups of the graph.
    pub(super) groups: Vec<u64>,
    /// The handles of those tasks that a program has queried, by node.
    pub(super) tasks: BTreeMap<usize, u64>,
    /// The changes that the next `aclmdlRIUpdate` makes to nodes.
    pub(super) edits: BTreeMap<usize, (NodeAction, Vec<HeldMemory>)>,
    /// The handles of the streams that were bound and not unbound. Only a graph that was built has
    /// them.
    pub(super) bound: Vec<u64>,
    pub(crate) on_destroy: Vec<(crate::callback::HostFunction, CallbackArgument)>,
    /// The handles of the graph's own streams, by branch. The stream of branch 0 is for executions
    /// without a stream.
    streams: Vec<u64>,
    /// The end of the newest execution.
    last: Option<Mark>,
    /// The points of the records of an execution, by node. They are kept so that the next execution
    /// does not allocate memory.
    marks: Vec<Mark>,
}

/// The argument of a callback of a graph.
#[derive(Clone, Copy)]
pub(crate) struct CallbackArgument(pub(crate) *mut c_void);

// SAFETY: the registration promised that the callback may be called on any thread with it.
unsafe impl Send for CallbackArgument {}

/// A node: a task or call that every execution issues, or a record or wait that orders branches.
pub(super) struct Node {
    pub(super) branch: usize,
    pub(super) step: NodeAction,
    pub(super) held: Vec<HeldMemory>,
}

pub(super) enum NodeAction {
    Task(Task),
    Call(CapturedCall),
    /// The place of a record of the event with this handle.
    Record(u64),
    /// A wait for the record at this node, of the event with this handle.
    Wait(usize, u64),
    /// A node that a program has disabled. It issues nothing.
    Disabled,
}

/// A call that is made again at every execution.
pub(super) struct CapturedCall {
    pub(super) name: String,
    pub(super) issue: Box<CapturedIssue>,
}

/// A function that issues a captured call on a stream.
pub(crate) type CapturedIssue = dyn Fn(&'static Stream) -> Result<(), Failure> + Send;

impl NodeAction {
    /// Returns the kind of the action. Actions of one kind can replace each other.
    pub(super) fn kind(&self) -> &str {
        match self {
            NodeAction::Task(task) => task.kind(),
            // The name up to the arguments.
            NodeAction::Call(call) => call.name.split('(').next().unwrap_or(&call.name),
            NodeAction::Record(_) => "record of an event",
            NodeAction::Wait(..) => "wait for an event",
            NodeAction::Disabled => "disabled task",
        }
    }

    /// Describes the action.
    pub(super) fn describe(&self) -> String {
        match self {
            NodeAction::Task(task) => task.describe(),
            NodeAction::Call(call) => call.name.clone(),
            NodeAction::Record(_) => "record of an event".into(),
            NodeAction::Wait(node, _) => format!("wait for node {node}"),
            NodeAction::Disabled => "disabled task".into(),
        }
    }
}

/// Makes a new graph without nodes.
pub(super) fn create(
    context: u64,
    device: u32,
    recording: CaptureRecording,
) -> Result<u64, Failure> {
    let mut recording = Some(recording);
    let taken = GRAPHS.take(|graph, handle| {
        *lock(&graph.state) = Some(GraphState {
            handle,
            context,
            device,
            name: CString::default(),
            recording: recording.take(),
            nodes: Vec::new(),
            branches: 1,
            updater: None,
            groups: Vec::new(),
            tasks: BTreeMap::new(),
            edits: BTreeMap::new(),
            bound: Vec::new(),
            on_destroy: Vec::new(),
            streams: Vec::new(),
            last: None,
            marks: Vec::new(),
        });
    });
    match taken {
        Some((_, handle)) => Ok(handle),
        None => {
            fail!(
                ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                "every graph of the process is in use; destroy one with aclmdlRIDestroy"
            )
        }
    }
}

/// Calls `use_it` with the graph of a handle, after any current user has released it.
pub(crate) fn with<R>(
    handle: u64,
    use_it: impl FnOnce(&mut GraphState) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let graph = GRAPHS.get(handle).ok_or_else(|| unknown(HandleKind::Graph, handle))?;
    match &mut *lock(&graph.state) {
        // The slot may belong to another graph by now.
        Some(state) if state.handle == handle => use_it(state),
        _ => Err(unknown(HandleKind::Graph, handle)),
    }
}

/// Calls `use_it` with a graph that is complete.
pub(crate) fn with_complete<R>(
    handle: u64,
    use_it: impl FnOnce(&mut GraphState) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(handle, |state| match &state.recording {
        None => use_it(state),
        Some(recording) if recording.is_built => {
            fail!(
                ACL_ERROR_RT_MODEL_CAPTURED,
                "the graph is being built; call aclmdlRIBuildEnd first"
            )
        }
        Some(_) => fail!(
            ACL_ERROR_RT_MODEL_CAPTURED,
            "the graph is being captured; call aclmdlRICaptureEnd first"
        ),
    })
}

/// Returns the graph to which a stream belongs, and the branch of the stream.
pub(super) fn owner_of(stream: u64) -> Option<(u64, usize)> {
    GRAPHS.live_handles().find_map(|(graph, handle)| {
        let state = lock(&graph.state);
        let state = state.as_ref().filter(|state| state.handle == handle)?;
        let branch = state.streams.iter().position(|own| *own == stream)?;
        Some((handle, branch))
    })
}

/// `aclmdlRIExecuteAsync`: executes a graph on a stream.
pub(crate) fn execute(handle: u64, stream: &'static Stream) -> Result<(), Failure> {
    if stream.is_diverted() {
        return fail!(
            ACL_ERROR_RT_STREAM_CAPTURED,
            "{} is being captured; a graph cannot be part of another, so execute it on a stream \
             that is not captured",
            stream.describe()
        );
    }
    with_complete(handle, |state| {
        if state.device != stream.device_id() {
            return fail!(
                ACL_ERROR_RT_STREAM_CONTEXT,
                "the graph was captured on device {}, but {} is on another device; use a stream of \
                 the graph's device",
                machine::named(state.device),
                stream.describe()
            );
        }
        state.execute(stream)
    })
}

/// `aclmdlRIExecute`: executes a graph on a stream of its own, and waits for the execution.
pub(crate) fn execute_and_wait(handle: u64, limit: Option<Duration>) -> Result<(), Failure> {
    let (stream, ticket) = with_complete(handle, |state| {
        let stream = state.own_stream(0)?;
        state.execute(stream)?;
        Ok((stream, stream.queue.submitted()))
    })?;
    if executor::wait(stream, ticket, limit) {
        return stream.take_unreported();
    }
    fail!(
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        "not complete after {:?}, and {}; pass a longer timeout, or find out why",
        limit.unwrap_or_default(),
        stream.unfinished()
    )
}

impl GraphState {
    /// Issues every node once more.
    fn execute(&mut self, stream: &'static Stream) -> Result<(), Failure> {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            for held in &mut node.held {
                if let Err(text) = held.check() {
                    let step = node.step.describe();
                    return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "node {index} of the graph ({step}): {text}; memory that a graph uses must \
                         live until aclmdlRIDestroy"
                    );
                }
            }
        }
        // Executions of one graph come one after the other, even on different streams.
        if let Some(last) = self.last
            && (!last.is_complete() || check::is_on())
            && !is_in(last, stream)
        {
            stream.enqueue(After(last))?;
        }
        let own: Vec<&'static Stream> =
            (1..self.branches).map(|branch| self.own_stream(branch)).collect::<Result<_, _>>()?;
        let before: Vec<u64> = own.iter().map(|own| own.queue.submitted()).collect();
        let issued = self.issue(stream, &own);
        // Joins the branches even if a node was refused, because those that have begun must be
        // waited for.
        let joined = own.iter().zip(before).try_for_each(|(own, before)| {
            let tickets = before + 1..own.queue.submitted() + 1;
            if tickets.is_empty() {
                return Ok(());
            }
            stream.enqueue(Branch { stream: own, tickets }).map(drop)
        });
        self.last = Some(Mark::now(stream));
        issued.and(joined)
    }

    fn issue(&mut self, stream: &'static Stream, own: &[&'static Stream]) -> Result<(), Failure> {
        let GraphState { nodes, marks, .. } = self;
        marks.resize(nodes.len(), Mark::now(stream));
        for (index, node) in nodes.iter().enumerate() {
            let on = node.branch.checked_sub(1).map_or(stream, |branch| own[branch]);
            match &node.step {
                NodeAction::Task(task) => {
                    if let Some(task) = task.again() {
                        on.enqueue(task)?;
                    }
                }
                NodeAction::Call(call) => (call.issue)(on)?,
                NodeAction::Record(_) => {
                    // As in `Event::record`: a held stream does not begin a record.
                    if on.queue.is_held() {
                        on.enqueue(After(Mark::now(on)))?;
                    }
                    marks[index] = Mark::now(on);
                }
                NodeAction::Disabled => {}
                NodeAction::Wait(record, _) => {
                    let mark = marks[*record];
                    if (!mark.is_complete() || check::is_on()) && !is_in(mark, on) {
                        on.enqueue(After(mark))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the graph's own stream for a branch, and makes it first if there is none.
    pub(super) fn own_stream(&mut self, branch: usize) -> Result<&'static Stream, Failure> {
        if self.streams.len() <= branch {
            self.streams.resize(branch + 1, 0);
        }
        let handle = &mut self.streams[branch];
        if let Ok(stream) = Stream::named(*handle) {
            return Ok(stream);
        }
        let stream = context::create_stream(self.context, machine::device_slot(self.device), 0)?;
        *handle = stream.handle();
        Ok(stream)
    }
}

fn is_in(mark: Mark, stream: &'static Stream) -> bool {
    mark.stream().is_some_and(|other| std::ptr::eq(other, stream))
}

/// `aclmdlRIDestroy`: destroys a graph. Blocks until its last execution is over, and returns an
/// error if that takes longer than `DESTROY`. Succeeds for a graph that was destroyed before.
pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
    let last = match with_complete(handle, |state| Ok(state.last)) {
        Ok(last) => last,
        Err(_) if Graph::KIND.is_kind_of(handle) && GRAPHS.get(handle).is_none() => return Ok(()),
        Err(failure) => return Err(failure),
    };
    if let Some(last) = last.filter(|last| !last.is_complete())
        && let Some(stream) = last.stream()
    {
        crate::callback::may_block()?;
        if !executor::wait(stream, last.ticket(), Some(DESTROY)) {
            return fail!(
                ACL_ERROR_RT_MODEL_RUNNING,
                "the graph still runs after {DESTROY:?}: {}; wait for its executions first",
                stream.waiting_for()
            );
        }
    }
    discard(handle);
    Ok(())
}

/// Removes a graph, even if it is in use.
pub(super) fn discard(handle: u64) {
    let Some(graph) = GRAPHS.get(handle) else { return };
    if !GRAPHS.retire(handle) {
        return;
    }
    let state = lock(&graph.state).take();
    GRAPHS.recycle(graph.index);
    let Some(state) = state else { return };
    group::destroy(&state.groups);
    tasks::forget(state.tasks.values());
    for stream in state.streams.into_iter().filter_map(|handle| Stream::named(handle).ok()) {
        // Nothing else uses the stream: it is not captured, and no thread is subscribed to it.
        if stream.take_handle() {
            stream.stop(ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
            stream.recycle();
        }
    }
    for (function, argument) in state.on_destroy {
        // SAFETY: the registration promised that the callback may be called with its argument when
        // the graph ends.
        unsafe { function(argument.0) };
    }
}

/// Destroys the graphs of devices that end.
pub(crate) fn destroy_all(devices: &Range<u32>) {
    for (graph, handle) in GRAPHS.live_handles() {
        let found = lock(&graph.state).as_ref().map(|state| (state.handle, state.device));
        if found.is_some_and(|(found, device)| found == handle && devices.contains(&device)) {
            super::recording::forget(handle);
            discard(handle);
        }
    }
}

/// The task that waits for the work of one branch in an execution of a graph. It is in the stream
/// on which the graph was executed, and fails if the branch fails.
pub(crate) struct Branch {
    stream: &'static Stream,
    tickets: Range<u64>,
}

impl Branch {
    fn end(&self) -> Mark {
        Mark::new(self.stream, self.tickets.end - 1)
    }
}

impl TaskBody<Stream> for Branch {
    fn poll(&mut self, _: &'static Stream) -> Progress {
        if !self.end().is_complete() {
            return queue::JobStep::Park;
        }
        match self.stream.failure_within(&self.tickets) {
            None => queue::JobStep::Done(Ok(())),
            Some(failure) => {
                // The failure is reported here, so that it is not reported twice.
                let _ = self.stream.take_unreported();
                queue::JobStep::Done(Err(failure))
            }
        }
    }

    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        self.end().point()
    }

    fn helpers(&self) -> Helpers {
        Helpers::Point
    }

    fn passed(&self, _: &Result<(), Failure>) -> Option<Passed<Stream>> {
        self.upstream().map(|(stream, ticket)| Passed::Ticket(stream, ticket))
    }

    fn describe(&self) -> String {
        format!("wait for a branch of a graph, on {}", self.stream.describe())
    }
}

impl GraphState {
    /// Returns the number of the graph among the graphs that exist.
    pub(crate) fn id(&self) -> u32 {
        self.handle as u32 & 0xff_ffff
    }

    /// Returns the nodes as JSON, one per line.
    pub(crate) fn to_json(&self) -> String {
        let node = |(index, node): (usize, &Node)| {
            let Node { branch, step, .. } = node;
            format!(
                "    {{\"id\": {index}, \"branch\": {branch}, \"task\": {}}}",
                quote(&step.describe())
            )
        };
        let nodes: Vec<_> = self.nodes.iter().enumerate().map(node).collect();
        format!(
            "{{\n  \"name\": {},\n  \"branches\": {},\n  \"nodes\": [\n{}\n  ]\n}}\n",
            quote(&self.name.to_string_lossy()),
            self.branches,
            nodes.join(",\n")
        )
    }
}

/// Returns a text as a string of JSON.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..='\x1f' => quoted.push_str(&format!("\\u{:04x}", character as u32)),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
