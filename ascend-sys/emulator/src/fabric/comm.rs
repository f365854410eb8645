//! A communicator: the part that its ranks share, and the part of each rank.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::board::Board;
use super::config::CommConfig;
use super::joint::Joint;
use super::joint_subs;
use super::lone_zeros::LoneZeros;
use super::news::{CommNews, SubCommRequest};
use super::parts::{CommPart, CommParts};
use super::place::DevicePlace as Stand;
use crate::batch::exchange::Exchange;
use crate::collective::account::Account;
use crate::collective::claim::MeetingPlace;
use crate::collective::comm_error::{Cause, CommError};
use crate::collective::job::CollectiveJob;
use crate::collective::meeting::Meeting;
use crate::collective::request::{CollectiveRequest, say};
use crate::collective::sides::{Sides, list};
use crate::collective::sleeper::Sleeper;
use crate::collective::table::Table;
use crate::executor;
use crate::processes::region::{Ground, Placed, SharedWords};
use crate::profile::Product;
use crate::sleep::Enders;
use crate::step::{NEEDS, Need};
use ascend_sync::SpinLock;

/// The part of a communicator that all ranks share.
pub(crate) struct Comm {
    /// The id, which is unique in the process and is never used again.
    pub(crate) id: u64,
    /// The name that CANN's functions use.
    pub(crate) name: String,
    /// The name that the program has given the communicator for messages.
    title: OnceLock<Box<str>>,
    pub(crate) product: Product,
    pub(crate) connect_timeout: Duration,
    pub(crate) meeting: Meeting<Sleeper>,
    pub(crate) job: CollectiveJob,
    pub(crate) board: Board,
    pub(crate) exchange: Exchange,
    /// Whether this is a sub-communicator. No communicator can be made from a sub-communicator.
    pub(crate) is_sub: bool,
    /// Whether the communicator was made by a rank table.
    pub(super) is_cluster: bool,
    /// The place of each rank's device.
    pub(super) places: Box<[Stand]>,
    pub(super) parts: CommParts,
    /// The ranks in other processes; `None` if all ranks are in this process.
    pub(crate) joint: Option<Joint>,
    issued: Placed<Issued>,
    lone_zeros: Placed<LoneZeros>,
    words: Placed<RankWords>,
    tables: Box<[SpareTables]>,
}

/// The number of a rank's newest collective, on a cache line of its own.
#[repr(C, align(128))]
struct Issued(AtomicU64);

// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for Issued {}

/// The shared words of a rank for the module that uses the communicator: operators, or, in a
/// communicator [beside](super::beside) another one, kernels. All processes see the words.
#[repr(C, align(128))]
pub(crate) struct RankWords(pub(crate) [AtomicU64; 8]);

// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for RankWords {}

/// Spare tables, for the next operations of a rank that need one.
#[repr(align(128))]
struct SpareTables(
    #[expect(clippy::vec_box, reason = "what is kept is the box")] SpinLock<Vec<Box<Table>>>,
);

/// One rank's side of a communicator.
pub(crate) struct Member {
    pub(crate) comm: Arc<Comm>,
    pub(crate) rank: usize,
    pub(crate) device: u32,
    /// The parent, and the rank in the parent; `None` unless this is a sub-communicator.
    pub(crate) origin: Option<(Weak<Comm>, usize)>,
    pub(crate) config: CommConfig,
    /// The execution time limit; `None` means no limit.
    pub(crate) exec_timeout: Option<Duration>,
    /// Set between `HcclCommSuspend` and `HcclCommResume`.
    pub(crate) suspended: AtomicBool,
    /// Whether a call with nothing to move takes a number and meets the other ranks like any other
    /// call. `ascendExtCommNumbersZeros` sets this.
    pub(crate) numbers_zeros: AtomicBool,
}

impl Member {
    /// Returns an empty table for a new operation.
    pub(crate) fn take_table(&self) -> Box<Table> {
        let spare = self.comm.tables[self.rank].0.lock().pop();
        let mut table = spare.unwrap_or_else(|| Box::new(Table::EMPTY));
        table.reset(self.comm.ranks());
        table
    }

    /// Keeps the table of an operation that no longer needs it, for a later operation. Drops the
    /// table if the rank has [`SPARE_TABLES`] spare tables already.
    pub(crate) fn put_back(&self, table: Box<Table>) {
        let mut tables = self.comm.tables[self.rank].0.lock();
        if tables.len() < SPARE_TABLES {
            tables.push(table);
        }
    }
}

impl Comm {
    /// Makes a communicator of `ranks` ranks, all in this process.
    pub(crate) fn new(
        name: String,
        product: Product,
        connect_timeout: Duration,
        ranks: usize,
    ) -> Self {
        Self::new_on(&Ground::Heap, name, product, connect_timeout, ranks)
    }

    /// Makes a communicator whose words are on this ground.
    pub(super) fn new_on(
        ground: &Ground,
        name: String,
        product: Product,
        connect_timeout: Duration,
        ranks: usize,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            title: OnceLock::new(),
            product,
            connect_timeout,
            meeting: Meeting::new(ranks, ground),
            job: CollectiveJob::new(ranks, ground),
            board: Board::new(ranks),
            exchange: Exchange::new(ranks, ground),
            is_sub: false,
            is_cluster: false,
            places: Box::default(),
            parts: CommParts::default(),
            joint: None,
            issued: ground.place(ranks, |_| Issued(AtomicU64::new(0))),
            lone_zeros: ground.place(ranks, |_| LoneZeros::new()),
            words: ground.place(ranks, |_| RankWords(std::array::from_fn(|_| AtomicU64::new(0)))),
            tables: (0..ranks).map(|_| SpareTables(SpinLock::new(Vec::new()))).collect(),
        }
    }

    /// Sets the places of the ranks.
    pub(crate) fn on(self, places: Box<[Stand]>) -> Self {
        Self { places, ..self }
    }

    /// Sets whether the communicator was made by a rank table.
    pub(super) fn of_a_table(self, is_cluster: bool) -> Self {
        Self { is_cluster, ..self }
    }

    /// Makes a sub-communicator of some ranks of this communicator.
    pub(super) fn new_sub_on(&self, ground: &Ground, wish: &SubCommRequest) -> Self {
        let SubCommRequest { name, ranks, .. } = wish;
        let (product, limit) = (self.product, self.connect_timeout);
        let comm = Self::new_on(ground, name.clone(), product, limit, ranks.len());
        let places = ranks.iter().filter_map(|rank| self.places.get(*rank)).copied().collect();
        Self { is_sub: true, places, ..comm }
    }

    /// Sets the title that messages use from now on. Only the first call has an effect.
    pub(crate) fn set_title(&self, title: &str) {
        let _ = self.title.set(title.into());
    }

    /// Returns the title that messages use: the name, unless the program has set a title.
    pub(crate) fn title(&self) -> &str {
        self.title.get().map_or(&self.name, |title| title)
    }

    /// Returns the place of a rank's device, if the place is known.
    pub(crate) fn place_of(&self, rank: usize) -> Option<Stand> {
        self.places.get(rank).copied()
    }

    /// Returns the rank of this process on a device, if there is one.
    pub(crate) fn rank_on(&self, device: u32) -> Option<usize> {
        self.places.iter().position(|place| place.device == device)
    }

    pub(crate) fn ranks(&self) -> usize {
        self.tables.len()
    }

    #[inline]
    pub(crate) fn note_issued(&self, rank: usize, number: u64) {
        self.issued[rank].0.store(number, Ordering::Release);
    }

    pub(crate) fn issued(&self, rank: usize) -> u64 {
        self.issued[rank].0.load(Ordering::Acquire)
    }

    /// Notes that a rank has made a call with nothing to move.
    #[cold]
    pub(crate) fn note_lone_zero(&self, rank: usize, request: CollectiveRequest) {
        self.lone_zeros[rank].note(request, self.issued(rank));
    }

    /// Describes the calls with nothing to move that a rank made after collective `from` or a later
    /// one. `None` if there are none.
    #[cold]
    pub(crate) fn lone_zeros(&self, rank: usize, from: u64) -> Option<String> {
        self.lone_zeros[rank].say(from)
    }

    /// Describes the calls with nothing to move, one line per rank, for at most [`MENTIONED`]
    /// ranks. The text is empty unless `cause` is a mismatch, a timeout, a deadlock or a rank that
    /// is gone.
    #[cold]
    fn say_lone_zeros(&self, cause: Cause) -> String {
        if !matches!(cause, Cause::Mismatch | Cause::Timeout | Cause::Deadlock | Cause::Gone) {
            return String::new();
        }
        let say = |rank| Some(format!("\n  rank {rank} called {}", self.lone_zeros(rank, 0)?));
        (0..self.ranks()).filter_map(say).take(MENTIONED).collect()
    }

    /// Returns the number of bytes that the words of a communicator take, with those of the
    /// communicator [beside](super::beside) it.
    pub(super) fn measure(make: impl Fn(&Ground) -> Self) -> usize {
        Ground::measure(|ground| [make(ground), make(ground)])
    }

    /// Returns the [`RankWords`] of a rank.
    pub(crate) fn words_of(&self, rank: usize) -> &[AtomicU64; 8] {
        &self.words[rank].0
    }

    /// Returns a module's part in the communicator, and makes it first if there is none.
    pub(crate) fn part<P: CommPart>(&self, make: impl Fn() -> P) -> &P {
        let part = self.parts.get_or_make(make);
        // Delivers the news that arrived before the part existed.
        if self.joint.as_ref().is_some_and(|joint| joint.has_unheard()) {
            self.deliver();
        }
        part
    }

    /// Fails the communicator for all ranks. Returns its first error, which is an earlier one if
    /// the communicator has failed before.
    #[cold]
    pub(crate) fn fail(&self, error: CommError) -> Arc<CommError> {
        let known = self.meeting.error();
        let first = known.clone().unwrap_or_else(|| self.fail_here(error));
        if known.is_none() {
            self.tell_failure();
        }
        first
    }

    /// Reports the failure of the communicator to the other processes, if there is one that this
    /// process has not reported yet.
    #[cold]
    fn tell_failure(&self) {
        if let (Some(error), Some(joint)) = (self.meeting.error(), &self.joint)
            && joint.says_first_that_it_is_broken()
        {
            self.tell(|| CommNews::Broken { error: (*error).clone() });
        }
    }

    /// Fails the communicator for the ranks of this process. Returns its first error.
    #[cold]
    pub(super) fn fail_here(&self, error: CommError) -> Arc<CommError> {
        if let Some(first) = self.meeting.error() {
            return first;
        }
        // An error from another process already has the states of the ranks.
        let error = match error.ranks.is_empty() {
            true => {
                let text = error.text.clone() + &self.say_lone_zeros(error.cause);
                CommError { ranks: self.rank_states(&error), text, ..error }
            }
            false => error,
        };
        let first = self.meeting.fail(error);
        self.parts.all().for_each(|part| part.broken());
        self.wake_all();
        first
    }

    /// Wakes every waiter, because the state has changed for all ranks.
    #[cold]
    pub(super) fn wake_all(&self) {
        self.meeting.wake_all();
        self.exchange.wake_all();
        executor::announce();
    }

    /// Notes that a rank will issue nothing more, and reports this to all ranks that may wait for
    /// the rank.
    #[cold]
    pub(crate) fn leave(&self, rank: usize, why: String) {
        let is_own = self.joint.as_ref().is_none_or(|joint| joint.is_own(rank));
        if is_own && self.board.departure(rank).is_none() {
            // The rank may leave because of a failure that other processes have not learned of yet.
            // So the failure is reported first.
            self.tell_failure();
            self.tell(|| CommNews::Left { rank, why: why.clone() });
        }
        self.leave_here(rank, why);
        joint_subs::keep(self);
    }

    /// Does the same as [`leave`](Self::leave), but only in this process.
    #[cold]
    pub(super) fn leave_here(&self, rank: usize, why: String) {
        self.board.note_departure(rank, why.clone());
        self.parts.all().for_each(|part| part.left(rank, &why));
        self.meeting.leave(rank, self.issued(rank));
        self.exchange.leave(rank);
        executor::announce();
    }

    /// Returns the needs that must be met before all ranks have arrived at collective `number`. If
    /// there are many, returns only some of them.
    pub(crate) fn needed_for(&self, number: u64) -> Vec<Need> {
        let is_own = |rank: &usize| self.joint.as_ref().is_none_or(|joint| joint.is_own(*rank));
        let absent = self.absentees(number);
        let abroad = if absent.is_empty() { None } else { self.abroad() };
        let own = absent.into_iter().filter(is_own);
        let (issued, others): (Vec<usize>, Vec<usize>) =
            own.partition(|rank| self.issued(*rank) >= number);
        let part = |rank| Need::Collective { comm: self.id, rank, number };
        let parts = issued.into_iter().take(NEEDS).map(part);
        let parts = parts.chain((!others.is_empty()).then_some(Need::Call));
        parts.chain(abroad).collect()
    }

    /// Returns a need for an action of another process, if the communicator has ranks in other
    /// processes. Each of these processes can end the communicator, or cause a rank to come. So the
    /// need also exists if only ranks of this process are missing.
    pub(crate) fn abroad(&self) -> Option<Need> {
        self.joint.as_ref().map(|joint| Need::Abroad(joint.names().collect()))
    }

    /// Returns the processes whose calls can end a wait for ranks.
    pub(crate) fn enders(&self) -> Enders {
        Enders::Processes(self.joint.iter().flat_map(Joint::names).collect())
    }

    /// Names the ranks that have not arrived at collective `number`, and the last action of each.
    #[cold]
    pub(crate) fn missing(&self, number: u64) -> String {
        let missing = self.absentees(number);
        if missing.is_empty() {
            return "all ranks have arrived".into();
        }
        let said = missing.iter().take(MENTIONED).map(|rank| self.last_of(*rank, number));
        let mut text = format!("waiting for {}", said.collect::<Vec<_>>().join("; "));
        if missing.len() > MENTIONED {
            let _ = write!(text, "; and {} more", missing.len() - MENTIONED);
        }
        text
    }

    /// Describes the last action of a rank, as seen from collective `number`.
    #[cold]
    fn last_of(&self, rank: usize, number: u64) -> String {
        let issued = self.issued(rank);
        let mut text = match self.meeting.latest(rank) {
            Some((n, claim)) => format!("rank {rank} (last: #{n} {}", say(claim)),
            None => format!("rank {rank} (no collective so far"),
        };
        text += if issued >= number {
            "; it has issued this one, but its stream has not reached it)"
        } else {
            "; it has not issued this one)"
        };
        text
    }

    /// Describes both sides of a disagreement about a collective, with the tables that ranks have
    /// brought.
    #[cold]
    pub(crate) fn mismatch<'a>(
        &self,
        place: MeetingPlace,
        table: impl Fn(usize) -> Option<Cow<'a, Table>>,
    ) -> Account {
        let number = place.number;
        // The claim is read before the table: the table of a rank that has arrived is there. A rank
        // that arrives between the two reads counts as absent.
        let look = |rank| (self.meeting.latest(rank), table(rank));
        let looks: Vec<_> = (0..self.ranks()).map(look).collect();
        let mut sides = Sides::default();
        let captures = self.captures(number);
        for (rank, (latest, table)) in looks.iter().enumerate() {
            let (n, claim) = match *latest {
                Some((n, claim)) if n >= number => (n, CollectiveRequest::of(claim)),
                _ => (0, None),
            };
            match claim {
                Some(request) if n == number && captures.is_some() => {
                    let mut columns = request.columns();
                    columns.extend(captures.iter().filter_map(|said| said.get(rank).cloned()));
                    sides.says(rank, columns);
                }
                Some(request) if n == number => sides.called(rank, request, table.as_deref()),
                _ => sides.silent(rank),
            }
        }
        match captures {
            Some(_) => sides.under(
                "the ranks replay different captures; execute the graphs of one capture on all \
                 ranks",
            ),
            None => sides.compare(),
        }
    }

    /// Returns the captures that collective `number` belongs to, by rank, if the captures differ.
    fn captures(&self, number: u64) -> Option<Vec<String>> {
        let capture = |rank| match self.meeting.latest(rank) {
            Some((n, claim)) if n == number => Some(claim.capture()),
            _ => None,
        };
        let all: Vec<_> = (0..self.ranks()).map(capture).collect();
        let mut known = all.iter().flatten();
        let first = known.next()?;
        let say = |capture: &Option<u8>| match capture.unwrap_or_default() {
            0 => "not captured".to_string(),
            nth => format!("capture {nth} of the communicator"),
        };
        known.any(|other| other != first).then(|| all.iter().map(say).collect())
    }

    /// Names the ranks that did not come to collective `number` in time, and the last action of
    /// each.
    #[cold]
    pub(crate) fn absent(&self, number: u64, limit: Duration) -> String {
        let absent = self.absentees(number);
        let seconds = limit.as_secs_f64();
        let mut text = format!("{} did not come within {seconds:.1} s", list(&absent));
        for rank in absent.iter().take(MENTIONED) {
            let _ = write!(text, "\n  {}", self.last_of(*rank, number));
        }
        text
    }

    pub(crate) fn absentees(&self, number: u64) -> Vec<usize> {
        let arrived = |rank: &usize| self.meeting.latest(*rank).is_some_and(|(n, _)| n >= number);
        (0..self.ranks()).filter(|rank| !arrived(rank)).collect()
    }

    /// Describes why a rank that has left will not come.
    #[cold]
    pub(crate) fn gone(&self, rank: usize) -> String {
        let why = self.board.why_gone(rank);
        let last = self.meeting.left_after(rank).unwrap_or_default();
        format!("rank {rank} is gone ({why}); the last collective that it has issued is #{last}")
    }
}

/// The largest number of spare tables of a rank: more than a program has in flight at a time.
const SPARE_TABLES: usize = 256;

/// The largest number of ranks that a message mentions.
const MENTIONED: usize = 8;
