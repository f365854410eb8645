//! Communicators: the ranks that work together, and the right to issue operations among them. Make
//! one with [`Rank::communicator`](crate::Rank::communicator) in the closure of
//! [`Runtime::run_ranks`](crate::Runtime::run_ranks), with [`Communicator::from_env`] under a
//! launcher, or with [`Communicator::builder`]. Make one communicator for the whole run instead of
//! one for each operation, because all ranks wait for one another while a communicator is made.
//!
//! All ranks of a communicator must issue the same operations in the same order. `hccl` keeps that
//! order by issuing at once: when a call of [`Communicator::all_reduce`] returns, its operation has
//! its place in the stream. The [`Work`](crate::Work) that the call returns only watches the
//! operation. Each operation takes `&mut Communicator`, so there is one issuer at a time.
//!
//! A communicator ensures the following without help from the program:
//!
//! * Operations are numbered: collectives by communicator, messages by sender and receiver, batches
//!   by communicator on each rank. Errors carry the number. A collective has the same number on all
//!   ranks, and a message has the same number on both of its ranks.
//! * Two operations of one communicator never run at the same time, because CANN shares buffers and
//!   signals among the operations of a communicator. If an operation is issued on another stream
//!   than the previous one, it waits for the previous one on the device.
//! * The operations of all communicators of a device are issued one at a time (the private module
//!   `order::issue_order` says how), as CANN demands.
//! * If a communicator is dropped with operations in flight, it is destroyed later, when these
//!   operations are complete. Dropping never blocks.
//!
//! # First contact
//!
//! Some operations make links: the first collective of a communicator, the first message to or from
//! each peer, the first [custom operator](Communicator::run) with each peer, and the first kernel
//! that communicates. A link is ready when both ranks have made their side of it. The wait for the
//! peers takes at most the connection time-out (120 s unless `HCCL_CONNECT_TIMEOUT` sets another).
//!
//! CANN waits inside the call. In `hccl` a helper thread makes the call, the operation keeps its
//! place in its stream, and its [`Work`](crate::Work) reports errors. So several ranks may share a
//! thread. While links are being made, the helper also issues the later operations of all
//! communicators of the device, and replays of their graphs, in the program's order. Copies, and
//! kernels that do not communicate, are not delayed. [`connect`](Communicator::connect) and
//! [`connect_to`](Communicator::connect_to) make links ahead of time.
//!
//! A helper thread also makes the communicators themselves: a function that makes a communicator
//! returns a future, [`Pending`](crate::Pending).
//!
//! Two kinds of calls may still block until the peers have made their links. The end of a
//! [`group`](crate::group()) does so by contract. CANN may also make more links later, when it
//! chooses another algorithm for another operation or for a much larger one. `hccl` cannot predict
//! this, so that call waits for the peers.
//!
//! [`split`](Communicator::split) and [`subset`](Communicator::subset) make communicators of some
//! of the ranks.

// The order of these modules is the order in which rustdoc lists the methods that they define.
mod build;

mod rank_table;

mod from_raw;

mod sub;

mod connect;

mod queries;

mod suspend;

mod config;
pub(crate) mod detour;
pub(crate) mod handle;
mod issue;
pub(crate) mod links;
mod root_info;
pub(crate) mod scratch;

pub use crate::error::config::ConfigError;
pub use build::{CommunicatorBuilder, Plan};
pub use config::{CommConfig, CommConfigBuilder, Deterministic, Expansion, Retry, RetryBuilder};
pub use handle::AbortHandle;
pub use root_info::RootInfo;
pub use suspend::Unchanged;

use std::ffi::c_char;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ascend_sys::HcclComm;

use crate::api::{call, words};
use crate::batch::{Lists, Peers};
use crate::device::Device;
use crate::error::batch::Direction;
use crate::error::product::Product;
use crate::error::{OpContext, Result};
use crate::operator::Operators;
use crate::order::label::Label;
use crate::order::stamps::Stamps;
use crate::record::member::MemberRecord;
use handle::{CommHandle, Origin, RetiredCommunicator};
use scratch::ScratchBlock;

/// The state of a [`Communicator`] that issues operations.
///
/// ```
/// use hccl::comm::{Active, Communicator};
///
/// /// `Communicator<Active>` is the type that `Communicator` stands for.
/// fn world_size(comm: &Communicator<Active>) -> u32 {
///     comm.world_size()
/// }
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # assert_eq!(runtime.run_ranks(1, |rank| rank.communicator().map(|comm| world_size(&comm)))?, [1]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub enum Active {}

/// The state of a [`Communicator`] after [`suspend`](Communicator::suspend). It issues no
/// operations until it is resumed.
///
/// ```
/// use hccl::comm::{Communicator, Suspended};
///
/// /// Suspends a communicator, repairs the device, and resumes the communicator.
/// fn repair(comm: Communicator, fix: impl FnOnce()) -> hccl::Result<Communicator> {
///     let suspended: Communicator<Suspended> = comm.suspend()?;
///     fix();
///     Ok(suspended.resume()?)
/// }
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # runtime.run_ranks(1, |rank| repair(rank.communicator()?, || ()).map(drop))?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub enum Suspended {}

/// One rank's membership in a group of ranks, and its right to issue operations among them.
///
/// | to | call |
/// | --- | --- |
/// | make one | [`Rank::communicator`](crate::Rank::communicator), [`from_env`](Self::from_env), [`builder`](Self::builder) |
/// | reduce | [`all_reduce`](Self::all_reduce), [`reduce_scatter`](Self::reduce_scatter), [`reduce`](Self::reduce) |
/// | move | [`broadcast`](Self::broadcast), [`all_gather`](Self::all_gather), [`scatter`](Self::scatter), [`all_to_all`](Self::all_to_all) |
/// | send messages | [`batch`](Self::batch), [`send`](Self::send), [`recv`](Self::recv) |
/// | wait for all ranks | [`barrier`](Self::barrier) |
/// | take some of the ranks | [`split`](Self::split), [`subset`](Self::subset) |
/// | end it for all | [`abort`](Self::abort) |
///
/// See the [module](self) for the rules of a communicator, and [`collective`](crate::collective)
/// and [`batch`](crate::batch) for the operations.
///
/// # Dropping and forgetting
///
/// Dropping a communicator never blocks, even with operations in flight. These operations go on.
/// When they are complete, the next operation or allocation on the device destroys the communicator
/// (`HcclCommDestroy`). Forgetting a communicator (`mem::forget`) leaks it and breaks nothing. If
/// the backend can notify the peers, those that still wait for this rank get an error; otherwise
/// their deadline ends the wait.
///
/// ```
/// use hccl::prelude::*;
///
/// # fn main() -> hccl::Result<()> {
/// let runtime = Runtime::emulator(1)?;
/// let device = runtime.device(0)?;
/// let root = RootInfo::new(&device)?;
/// let comm = Communicator::builder()
///     .device(&device)
///     .rank(0)
///     .world_size(1)
///     .root_info(&root)
///     .config(CommConfig::builder().name("alone").build())
///     .build()
///     .wait()?;
/// assert_eq!((comm.rank(), comm.world_size(), comm.name()), (0, 1, "alone"));
/// # Ok(())
/// # }
/// ```
pub struct Communicator<S = Active> {
    pub(crate) member: Box<Member>,
    state: PhantomData<fn() -> S>,
}

/// The fields of a communicator, the same whether it is `Active` or `Suspended`.
pub(crate) struct Member {
    pub(crate) handle: Arc<CommHandle>,
    pub(crate) device: Device,
    /// The product of the device, or `None` if it is not known.
    pub(crate) product: Option<Product>,
    pub(crate) label: Arc<Label>,
    /// CANN's name for the communicator, as opposed to its title.
    pub(crate) name: Box<str>,
    pub(crate) world_size: u32,
    /// The stamps of the operations in flight. Each operation counts as a write of the
    /// communicator.
    pub(crate) stamps: Arc<Stamps>,
    pub(crate) peers: Peers,
    /// The number of batches that this communicator has issued itself.
    pub(crate) batches: u64,
    pub(crate) lists: Lists,
    pub(crate) scratch: ScratchBlock,
    /// The resources for custom operators.
    pub(crate) operators: Operators,
    /// The number of seconds for which operations of the communicator may wait for peers on the
    /// device. 0 means no limit.
    pub(crate) exec_seconds: u32,
    /// The record of the communicator's operations, if the run is recorded.
    pub(crate) record: Option<Arc<MemberRecord>>,
    /// The number of splits so far.
    splits: u64,
    /// The guard of a run, if the communicator belongs to one. The run then notifies the peers
    /// itself when the rank is gone.
    alive: Option<Arc<()>>,
}

/// Returns the context of a call that makes a communicator, for errors that occur before the
/// communicator has a label.
fn making(operation: &'static str, rank: Option<u32>) -> OpContext {
    OpContext { rank, ..OpContext::new(operation, 0) }
}

impl Communicator {
    /// Makes a `Communicator` from a handle that CANN returned. Without a `title`, messages use
    /// CANN's name of the communicator.
    ///
    /// # Safety
    ///
    /// `raw` is a communicator of `device` with this rank and size, and no other code destroys it.
    /// If `origin` is [`Origin::Foreign`], the conditions of [`from_raw`](Self::from_raw) hold
    /// instead.
    unsafe fn from_parts(
        operation: &'static str,
        raw: HcclComm,
        device: &Device,
        (rank, world_size): (u32, u32),
        title: Option<String>,
        origin: Origin,
    ) -> Result<Self> {
        let (name, problem): (Box<str>, _) = match name_of(raw, device) {
            Ok(name) => (name, None),
            Err(error) => {
                let error = error.in_operation(|| making(operation, Some(rank)));
                (Box::default(), Some(error))
            }
        };
        if let Some(title) = &title {
            device.table().title(raw, title);
        }
        if !matches!(origin, Origin::Foreign) {
            device.table().number_zeros(raw);
        }
        let title = title.map_or_else(|| name.clone(), String::into_boxed_str);
        let label = Arc::new(Label::new(title, rank, world_size, device.table().peers_of(raw)));
        let record = MemberRecord::of(&label, device.index(), device.runtime());
        // SAFETY: the caller's promise.
        let handle = unsafe { CommHandle::new(raw, label.clone(), origin) };
        let member = Box::new(Member {
            handle: Arc::new(handle),
            device: device.clone(),
            product: device.runtime().product(),
            label,
            name,
            world_size,
            stamps: Arc::new(Stamps::new()),
            peers: Peers::new(rank, world_size),
            batches: 0,
            lists: Lists::default(),
            scratch: ScratchBlock::default(),
            operators: Operators::default(),
            exec_seconds: device.runtime().exec_seconds(),
            record,
            splits: 0,
            alive: None,
        });
        // The handle now has an owner, so it is destroyed even if reading its name has failed.
        let communicator = Communicator { member, state: PhantomData };
        problem.map_or(Ok(communicator), Err)
    }
}

impl<S> Communicator<S> {
    /// Aborts the communicator, for all ranks if the backend can notify them: see
    /// [`AbortHandle::abort`]. Does not block.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let devices = [runtime.device(0)?, runtime.device(1)?];
    /// let mut comms = Communicator::init_all(&devices).wait()?;
    /// let stream = devices[0].stream()?;
    /// let waits = comms[0].barrier(&stream)?;
    /// comms[1].abort()?;
    /// let error = waits.wait().unwrap_err().to_string();
    /// assert!(error.contains("rank 1 has aborted the communicator"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort(&self) -> Result<()> {
        self.abort_handle().abort()
    }

    /// Returns a handle with which another thread can abort the communicator.
    pub fn abort_handle(&self) -> AbortHandle {
        let (handle, device) = (self.member.handle.clone(), self.member.device.clone());
        AbortHandle { handle, device }
    }

    /// Returns the `HcclComm`, for calls of CANN that `hccl` does not wrap. The communicator still
    /// owns the handle. Operations that are issued with the handle directly get no number and are
    /// not ordered with the operations that `hccl` issues.
    pub fn as_raw(&self) -> HcclComm {
        self.member.handle.raw()
    }

    /// Makes a run responsible for notifying the peers when this rank is gone. The run watches
    /// `alive`.
    pub(crate) fn set_alive(&mut self, alive: Arc<()>) {
        self.member.label.set_alive(&alive);
        self.member.alive = Some(alive);
    }
}

impl AbortHandle {
    /// Returns whether this is a handle of `comm`. A later communicator with the same name is
    /// another one.
    pub fn belongs_to<S>(&self, comm: &Communicator<S>) -> bool {
        Arc::ptr_eq(&self.handle, &comm.member.handle)
    }
}

impl Member {
    /// Returns the number of messages to or from a peer that this communicator and its graphs have
    /// issued.
    #[inline]
    pub(crate) fn messages(&self, direction: Direction, peer: u32) -> u64 {
        self.peers.issued(direction, peer) + self.label.replayed_messages(direction, peer)
    }
}

/// Returns the reason that the peers of a communicator get when this thread drops it.
pub(crate) fn reason_to_leave() -> &'static std::ffi::CStr {
    match std::thread::panicking() {
        false => c"it has dropped its communicator",
        true => c"its task or thread has panicked",
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A graph may still issue operations of this communicator. If so, the peers get this reason
        // when the graph is dropped.
        let reason = reason_to_leave();
        self.label.note_drop(reason);
        match self.alive {
            None => self.handle.leave(&self.device, reason, Duration::ZERO),
            // The run may report a more precise reason.
            Some(_) => self.handle.leave(&self.device, reason, handle::GRACE),
        }
        let handle = self.handle.clone();
        let stamps = std::mem::replace(&mut self.stamps, Arc::new(Stamps::new()));
        self.device.retire(RetiredCommunicator { handle, stamps });
    }
}

impl<S> fmt::Debug for Communicator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("title", &self.title())
            .field("rank", &self.rank())
            .field("world_size", &self.world_size())
            .finish_non_exhaustive()
    }
}

fn name_of(raw: HcclComm, device: &Device) -> Result<Box<str>> {
    let mut name = [0 as c_char; 129];
    // SAFETY: the communicator is live, and CANN writes at most 128 bytes.
    unsafe { call!(device.table(), HcclGetCommName, raw, name.as_mut_ptr()) }?;
    Ok(words(&name))
}
