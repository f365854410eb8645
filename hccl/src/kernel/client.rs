//! The HCCL client in a kernel.
//!
//! The type of a client determines its calls. A declared client can be initialised, an initialised
//! client can be configured, and only a configured client can prepare tasks. `finalise` consumes
//! the client. A prepared task is a [`Prepared`], which holds the number of its turns. Its type
//! says whether the kernel must still commit its turns.

mod states;

pub use states::{Configured, Declaration, Initialised, Started};

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::layout::Number;
use ascend_program::step::{Hccl as Call, Read, Step};
use ascend_program::{Client, ClientId, Core, Declared, Of, TaskId};

use super::control::Kernel;
use super::count::Count;
use super::prepared::{Open, Prepared};
use super::record::{self, Caller, KernelRecorder, NamedKind};
use super::symbol::{CcMember, TilingArgument};
use super::tensor::{Output, rename};
use super::value::{Recordable, Scalar, Value};
use crate::dtype::Element;

/// An HCCL client (`Hccl`), which requests collectives from the communication server of its rank.
/// Made by [`Kernel::hccl`].
///
/// Every core that uses a task makes all calls of the client. Only core 0 writes messages to the
/// server; the other cores only count them. Either the cube cores or the vector cores prepare tasks
/// with a client, unless [`only_from_aiv`](Hccl::only_from_aiv) or
/// [`only_from_aic`](Hccl::only_from_aic) names the core that writes its messages.
///
/// ```
/// use hccl::kernel::*;
/// use hccl::f16;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Gather { init: Mc2InitTiling, all_gather: Mc2CcTiling, count: u64 }
///
/// #[kernel(mix = "aiv_1_0")]
/// fn gather(k: Kernel<Gather>, x: Input<f16>, y: Output<f16>) {
///     let t = k.tiling();
///     k.on_aiv(|| {
///         let hccl = k.hccl(0).init().configure(&t.all_gather);
///         let whole = hccl.all_gather(x, y, t.count).commit_all();
///         hccl.wait(&whole);
///         k.sync_all_aiv(); // no core may still wait when core 0 finalises
///         hccl.finalise();
///     });
/// }
/// # fn main() -> hccl::Result<()> {
/// # gather::record()?; Ok(())
/// # }
/// ```
pub struct Hccl<S> {
    pub(super) recording: u64,
    pub(super) client: ClientId,
    of: PhantomData<fn() -> S>,
}

impl<S> fmt::Debug for Hccl<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hccl({})", self.client.0)
    }
}

impl<S> Recordable for Hccl<S> {
    #[track_caller]
    fn name(&self, name: &str) {
        rename(self.recording, Location::caller(), NamedKind::Client, self.client.0, name);
    }
}

/// The number of communicators that a kernel can use (`GetHcclContext<0>`, `GetHcclContext<1>`).
const GROUPS: u32 = 2;

impl<T: TilingArgument> Kernel<T> {
    /// Makes a client for the communicator of a group. Group 0 is the first group of the operator,
    /// and group 1 is the second. A group has at most one client.
    ///
    /// The tiling struct must begin with an `Mc2InitTiling`; otherwise the call does not compile:
    ///
    /// ```compile_fail
    /// use hccl::kernel::*;
    ///
    /// #[derive(Tiling)]
    /// #[repr(C)]
    /// struct Sizes { length: u64 }
    ///
    /// #[kernel(mix = "aiv_1_0")]
    /// fn nowhere(k: Kernel<Sizes>) {
    ///     k.hccl(0).init().finalise(); // `Sizes` has no `Mc2InitTiling`
    /// }
    /// nowhere::record().unwrap();
    /// ```
    #[track_caller]
    pub fn hccl(self, group: u32) -> Hccl<Declaration> {
        const {
            assert!(
                match T::TABLE {
                    Some(table) => ascend_program::layout::Communication::of(table).has_init(),
                    None => false,
                },
                "a kernel with a client needs a tiling struct whose first field is an `Mc2InitTiling`"
            )
        }
        let client = record::with(self.recording, Location::caller(), |recorder| {
            if group >= GROUPS {
                recorder.mistake(format!(
                    "there is no group {group}: a kernel has groups 0 and 1; use one of them"
                ));
                return ClientId(0);
            }
            if !recorder.groups.insert(group) {
                recorder.mistake(format!(
                    "group {group} already has a client: use that client, because a group has only one"
                ));
            }
            recorder.program.groups = recorder.program.groups.max(group + 1);
            let client = ClientId(recorder.program.clients.len() as u32);
            let name = recorder.unique("hccl");
            let what = Client { group, core: None, by_address: false };
            recorder.program.clients.push(Declared { name, what });
            client
        });
        let recording = client.map_or(0, |_| self.recording);
        Hccl { recording, client: client.unwrap_or(ClientId(0)), of: PhantomData }
    }
}

impl<S> Hccl<S> {
    fn into<N>(self) -> Hccl<N> {
        Hccl { recording: self.recording, client: self.client, of: PhantomData }
    }

    pub(super) fn with<R>(
        &self,
        here: Caller,
        what: impl FnOnce(&mut KernelRecorder) -> R,
    ) -> Option<R> {
        record::with(self.recording, here, what)
    }

    /// Records a step of this client that uses a task. Notes a mistake if another client or another
    /// recording has prepared the task.
    fn with_task<Q>(
        &self,
        task: &Prepared<Q>,
        here: Caller,
        what: impl FnOnce(&mut KernelRecorder, TaskId),
    ) {
        self.with(here, |recorder| match recorder.task(task) {
            Some((task, client)) if client == self.client => what(recorder, task),
            Some((task, client)) => {
                let name = |client: ClientId| {
                    recorder.program.clients.get(client.0 as usize).map_or("", |d| &d.name)
                };
                let task = &recorder.program.tasks[task.0 as usize].name;
                let (of, by) = (name(client), name(self.client));
                recorder.mistake(format!(
                    "`{task}` was prepared by `{of}`, but is used with `{by}`: use the client that prepared it"
                ));
            }
            None => recorder.foreign(),
        });
    }
}

impl KernelRecorder {
    /// Returns the number of a task and its client, or `None` if the task belongs to another
    /// recording.
    pub(super) fn task<Q>(&self, task: &Prepared<Q>) -> Option<(TaskId, ClientId)> {
        let known = (task.recording == self.number).then_some(task.task)?;
        self.program.tasks.get(known.0 as usize).map(|declared| (known, declared.what))
    }
}

impl Hccl<Declaration> {
    /// Makes the vector core with index `block` the only core that writes messages to the server
    /// (`HcclServerConfig`). Cube and vector cores may then both call the client.
    #[track_caller]
    pub fn only_from_aiv(self, block: u32) -> Self {
        self.only(Core::Aiv, block, Location::caller())
    }

    /// Makes the cube core with index `block` the only core that writes messages to the server,
    /// like [`only_from_aiv`](Self::only_from_aiv).
    #[track_caller]
    pub fn only_from_aic(self, block: u32) -> Self {
        self.only(Core::Aic, block, Location::caller())
    }

    fn only(self, core: Core, block: u32, here: Caller) -> Self {
        self.with(here, |recorder| {
            if let Some(client) = recorder.program.clients.get_mut(self.client.0 as usize) {
                client.what.core = Some((core, block));
            }
        });
        self
    }

    /// Selects the calls of older releases, `Init` and `SetCcTiling`, which read the tiling struct
    /// in global memory. CANN has deprecated them and does not document them for the Ascend 950.
    /// All clients of a kernel must use the same calls.
    #[track_caller]
    pub fn by_address(self) -> Self {
        self.with(Location::caller(), |recorder| {
            if let Some(client) = recorder.program.clients.get_mut(self.client.0 as usize) {
                client.what.by_address = true;
            }
        });
        self
    }

    /// Initialises the client with the context of its group and the `Mc2InitTiling` of the tiling
    /// struct (`InitV2`).
    #[track_caller]
    pub fn init(self) -> Hccl<Initialised> {
        self.with(Location::caller(), |recorder| {
            recorder.step(Step::Hccl(Call::Init(self.client, 0)));
        });
        self.into()
    }
}

impl<S: Started> Hccl<S> {
    /// Configures an operation (`SetCcTilingV2`). `member` is an
    /// [`Mc2CcTiling`](super::Mc2CcTiling) of the tiling struct. The host has filled it with the
    /// operation, the algorithm and the types. Call this once for each operation that the client
    /// prepares.
    #[track_caller]
    pub fn configure(self, member: &CcMember) -> Hccl<Configured> {
        self.with(Location::caller(), |recorder| {
            if member.recording() != recorder.number {
                return recorder.foreign();
            }
            let (offset, path) = member.place();
            recorder.step(Step::Hccl(Call::Configure(self.client, offset, path)));
        });
        self.into()
    }

    /// Returns the number of this rank in the communicator (`GetRankId`).
    #[track_caller]
    pub fn rank(&self) -> Value<u32> {
        let client = self.client;
        Value::new(record::fresh(self.recording, Location::caller(), |_| {
            (Of::Rank(client), Number::U32)
        }))
    }

    /// Returns the number of ranks of the communicator (`GetRankDim`).
    #[track_caller]
    pub fn ranks(&self) -> Value<u32> {
        let client = self.client;
        Value::new(record::fresh(self.recording, Location::caller(), |_| {
            (Of::Ranks(client), Number::U32)
        }))
    }

    /// Returns the input window of a rank, to which other ranks write, as a tensor
    /// (`GetWindowsInAddr`). Not on the Ascend 950.
    #[track_caller]
    pub fn window_in<E: Element>(&self, rank: impl Count) -> Output<E> {
        let (rank, here) = (rank.count(), Location::caller());
        Output::window(self.recording, self.client, rank, true, here)
    }

    /// Returns the output window of a rank, from which other ranks read, as a tensor
    /// (`GetWindowsOutAddr`). Not on the Ascend 950.
    #[track_caller]
    pub fn window_out<E: Element>(&self, rank: impl Count) -> Output<E> {
        let (rank, here) = (rank.count(), Location::caller());
        Output::window(self.recording, self.client, rank, false, here)
    }

    /// Returns the number of queues of each core for `BatchWrite` (`GetQueueNum`). Only on the A3.
    #[track_caller]
    pub fn queues(&self) -> Value<u16> {
        self.read(Location::caller(), "queues", Read::Queues)
    }

    fn read<N: Scalar>(
        &self,
        here: Caller,
        name: &str,
        read: impl FnOnce(ClientId) -> Read,
    ) -> Value<N> {
        Value::new(record::fresh(self.recording, here, |recorder| {
            let variable = recorder.variable(name, N::NUMBER);
            recorder.step(Step::Read(variable, read(self.client)));
            (Of::Variable(variable), N::NUMBER)
        }))
    }

    /// Ends the server after all prepared tasks, and waits until the server has ended (`Finalize`).
    /// This is the last call of a client.
    ///
    /// Core 0 clears the counters that other cores read while they wait. So no core may still wait
    /// at this call: synchronise the cores before it with [`sync_all_aiv`](Kernel::sync_all_aiv) or
    /// [`sync_all_aic`](Kernel::sync_all_aic).
    #[track_caller]
    pub fn finalise(self) {
        self.end(true, Location::caller());
    }

    /// Ends the server like [`finalise`](Self::finalise), but does not wait for it
    /// (`Finalize<false>`). Only for `BatchWrite` on the A3, after a
    /// [`queue_barrier`](Self::queue_barrier) in each queue.
    #[track_caller]
    pub fn finalise_without_waiting(self) {
        self.end(false, Location::caller());
    }

    fn end(self, sync: bool, here: Caller) {
        self.with(here, |recorder| {
            recorder.step(Step::Hccl(Call::Finalize(self.client, sync)));
        });
    }
}

impl Hccl<Configured> {
    /// Commits the next turn of a task (`Commit`). The input of the turn must be in memory. The
    /// server runs the turns in the order in which their tasks were prepared, each turn after its
    /// commit.
    ///
    /// An `AlltoAllV` with a `step_size` in its tiling is fine-grained: a commit is for the next
    /// `step_size` blocks, not for a whole turn.
    ///
    /// Other cores must have finished their writes for the turn: synchronise the cores first.
    #[track_caller]
    pub fn commit(&self, task: &Prepared<Open>) {
        self.with_task(task, Location::caller(), |recorder, task| {
            recorder.step(Step::Hccl(Call::Commit(task)));
        });
    }

    /// Waits for the next turn of a task (`Wait`). Each core that uses the result must wait once
    /// for each turn, in the order in which the tasks were prepared. For a fine-grained `AlltoAllV`
    /// (see [`commit`](Self::commit)), this waits for the next `step_size` blocks.
    #[track_caller]
    pub fn wait<Q>(&self, task: &Prepared<Q>) {
        self.with_task(task, Location::caller(), |recorder, task| {
            recorder.step(Step::Hccl(Call::Wait(task)));
        });
    }

    /// Waits for all turns of a task: calls [`wait`](Self::wait) once for each turn. A fine-grained
    /// `AlltoAllV` may need more waits: use [`iterate`](Self::iterate) for it.
    #[track_caller]
    pub fn wait_all<Q>(&self, task: &Prepared<Q>) {
        let here = Location::caller();
        let wait = || {
            self.with_task(task, here, |recorder, task| {
                recorder.step(Step::Hccl(Call::Wait(task)));
            });
        };
        let once = self.with(here, |recorder| {
            let turns = recorder.own(task.turns.handle, Number::U64);
            recorder.known(turns) == Some(1)
        });
        if once == Some(true) {
            return wait();
        }
        let constant = |bits| Value::new(record::constant(bits, Number::U64));
        let kernel = <Kernel<()> as super::control::First>::first(self.recording);
        kernel.repeat(constant(0), task.turns, constant(1), |_| wait(), here);
    }

    /// Returns the number of finished turns of a task, without waiting (`Query`). Not on the Ascend
    /// 950.
    #[track_caller]
    pub fn query<Q>(&self, task: &Prepared<Q>) -> Value<i32> {
        let mut finished = None;
        self.with_task(task, Location::caller(), |recorder, task| {
            let variable = recorder.variable("finished", Number::I32);
            recorder.step(Step::Read(variable, Read::Finished(task)));
            finished = Some(recorder.handle(Of::Variable(variable), Number::I32));
        });
        Value::new(finished.unwrap_or(record::ValueHandle::NONE))
    }

    /// Returns the number of the next block that a fine-grained `AlltoAllV` sends
    /// (`Iterate<false>`). Call this once for each rank and turn. Only on the A3.
    #[track_caller]
    pub fn next_to_send<Q>(&self, task: &Prepared<Q>) -> Value<u16> {
        self.slice(task, false, Location::caller())
    }

    /// Waits for the next block that a fine-grained `AlltoAllV` receives, and returns its number
    /// (`Iterate<true>`). Call this once for each rank and turn. Only on the A3.
    #[track_caller]
    pub fn next_received<Q>(&self, task: &Prepared<Q>) -> Value<u16> {
        self.slice(task, true, Location::caller())
    }

    fn slice<Q>(&self, task: &Prepared<Q>, received: bool, here: Caller) -> Value<u16> {
        let mut slice = None;
        self.with_task(task, here, |recorder, task| {
            let variable = recorder.variable("block", Number::U16);
            recorder.step(Step::Read(variable, Read::Slice(task, received)));
            slice = Some(recorder.handle(Of::Variable(variable), Number::U16));
        });
        Value::new(slice.unwrap_or(record::ValueHandle::NONE))
    }

    /// Loops over the blocks of a fine-grained `AlltoAllV` as they arrive (`Iterate<true>`): one
    /// block of each rank, in each turn. Only on the A3.
    ///
    /// The body gets the number of the block, which is the rank that has sent it.
    #[track_caller]
    pub fn iterate<Q>(&self, task: &Prepared<Q>, body: impl FnMut(Value<u16>)) {
        self.slices(task, true, body, Location::caller());
    }

    /// Loops over the blocks of a fine-grained `AlltoAllV` in the order in which they are sent
    /// (`Iterate<false>`). The body makes the block, and calls [`commit`](Self::commit) after each
    /// group of blocks. The `step_size` of the tiling is the number of blocks in a group. Only on
    /// the A3.
    #[track_caller]
    pub fn iterate_to_send<Q>(&self, task: &Prepared<Q>, body: impl FnMut(Value<u16>)) {
        self.slices(task, false, body, Location::caller());
    }

    fn slices<Q>(
        &self,
        task: &Prepared<Q>,
        received: bool,
        mut body: impl FnMut(Value<u16>),
        here: Caller,
    ) {
        let constant = |bits| Value::<u64>::new(record::constant(bits, Number::U64));
        let blocks = self.ranks().cast::<u64>() * task.turns;
        let kernel = <Kernel<()> as super::control::First>::first(self.recording);
        let each = |_| body(self.slice(task, received, here));
        kernel.repeat(constant(0), blocks, constant(1), each, here);
    }

    /// Makes tasks that this client prepares later wait for a task of another client
    /// (`InterHcclGroupSync`). The call counts as a prepared task of this client. Only on the A3.
    #[track_caller]
    pub fn after<Q>(&self, task: &Prepared<Q>) {
        self.with(Location::caller(), |recorder| match recorder.task(task) {
            Some((task, client)) => {
                if client == self.client {
                    recorder.mistake("a client runs its own tasks in order: pass `after` a task of another client");
                }
                recorder.step(Step::Hccl(Call::After(self.client, task)));
            }
            None => recorder.foreign(),
        });
    }

    /// Makes a queue finish all items that are already in it before it begins later items
    /// (`QueueBarrier`). Only on the A3.
    #[track_caller]
    pub fn queue_barrier(&self, queue: impl Count) {
        let queue = queue.count();
        self.with(Location::caller(), |recorder| {
            let queue = queue.value(recorder);
            recorder.step(Step::Hccl(Call::Barrier(self.client, queue)));
        });
    }
}
