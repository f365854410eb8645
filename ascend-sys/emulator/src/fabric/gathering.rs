//! Gatherings: the ranks of a new communicator, as they come. Their requests must agree. When all
//! ranks have come, they leave the gathering with one [`Comm`].

#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::attempt;
use super::between::{Guest, Side};
use super::comm::Comm;
use super::config::CommConfig;
use super::formation;
use super::place::DevicePlace;
use crate::collective::account::Account;
use crate::collective::comm_error::{Cause, CommError, Origin, Presence, RankState};
use crate::collective::sides::list_some;
use crate::executor;
use crate::machine::{self, MAX_DEVICES, Settings};
use crate::message::{Failure, refuse};
use crate::processes::rendezvous::KeptRendezvous;
use crate::sleep::Enders;
use ascend_sync::lock_std as lock;

/// A rank that is joining a new communicator.
#[derive(Clone)]
pub(crate) struct Applicant {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) device: u32,
    pub(crate) settings: Settings,
    pub(crate) config: CommConfig,
    /// The guest, if the rank is in another process. In that case, `device` is not a device of this
    /// process.
    pub(crate) guest: Option<Guest>,
}

#[derive(Default)]
pub(super) struct Gathering {
    /// The number of ranks, as the first rank gave it.
    pub(super) ranks: u32,
    pub(super) applicants: BTreeMap<u32, Applicant>,
    /// The rank on each device of this process.
    devices: BTreeMap<u32, u32>,
    gone: BTreeMap<u32, String>,
    pub(super) outcome: Option<Result<Formed, Arc<CommError>>>,
    /// Whether the ranks have a rank table.
    pub(super) by_table: bool,
    pub(super) side: Side,
    /// The rendezvous at which other processes find the gathering. It is dropped when the gathering
    /// is decided.
    pub(super) rendezvous: Option<KeptRendezvous>,
}

/// CANN's name for a communicator of a rank table.
pub(super) const WORLD: &str = "hccl_world_group";

pub(super) struct Formed {
    pub(super) comm: Weak<Comm>,
    /// The communicator of `comm`, kept alive until the last rank has taken it.
    held: Option<Arc<Comm>>,
    to_take: u32,
}

pub(super) type Shared = Arc<Mutex<Gathering>>;

/// A rank that has entered a gathering, in which it waits for the other ranks.
pub(crate) struct Entered {
    gathering: Shared,
    rank: u32,
    device: u32,
    ranks: u32,
    limit: Duration,
    since: Instant,
    /// The function that the ranks call.
    function: &'static str,
}

/// Records for the calling thread that the communicator was not made, and returns the failure.
#[cold]
fn refused(error: &Arc<CommError>) -> Failure {
    attempt::fail(Arc::clone(error));
    Failure::new(error.cause.hccl_result(), error.text.as_str())
}

/// Makes a communicator of ranks that are all known already.
pub(crate) fn form_at_once(applicants: &[Applicant]) -> Result<Comm, Failure> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut gathering = Gathering::default();
    for applicant in applicants {
        if let Some(account) = gathering.disagreement(applicant) {
            return refuse!(HCCL_E_INTERNAL, "{}", account.text);
        }
        gathering.add(applicant);
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    match applicants.first() {
        Some(first) => Ok(gathering.form(format!("127.0.0.1%lo_60000_all_{number}"), first)),
        None => refuse!(HCCL_E_PARA, "a communicator needs a rank; list at least one device"),
    }
}

impl Entered {
    /// Brings a rank into a gathering, without waiting. `name` is the name of the communicator,
    /// unless the ranks have configured one.
    pub(super) fn begin(
        gathering: Shared,
        name: String,
        applicant: &Applicant,
        function: &'static str,
    ) -> Result<Entered, Failure> {
        let complete = {
            let mut gathering = lock(&gathering);
            gathering.enter(name, applicant)?;
            gathering.outcome.is_some()
        };
        // Wakes the waiters only when the last rank has come. With a thousand ranks, waking all of
        // them at every arrival would be expensive.
        if complete {
            executor::announce();
        }
        let (ranks, limit) = (applicant.ranks, applicant.settings.connect_timeout);
        let (rank, device) = (applicant.rank, applicant.device);
        Ok(Entered { gathering, rank, device, ranks, limit, since: Instant::now(), function })
    }

    /// Sets the moment from which the time limit counts.
    pub(super) fn since(self, since: Instant) -> Entered {
        Entered { since, ..self }
    }

    /// Waits for the other ranks, for at most the connect timeout of the rank's block.
    pub(crate) fn wait(self) -> Result<Arc<Comm>, Failure> {
        let Self { gathering: root, rank, device, ranks, limit, since, function } = self;
        let left = limit.saturating_sub(since.elapsed());
        let what = || {
            let missing = lock(&root).missing();
            format!("a rank in {function}: waiting for {missing} of {ranks}")
        };
        let is_decided = || {
            formation::advance(&root);
            let gathering = lock(&root);
            gathering.outcome.is_some() || gathering.has_refused(rank)
        };
        let ends = match lock(&root).is_for_one_process() {
            true => Enders::Processes(Vec::new()),
            false => Enders::Anybody,
        };
        let waited = executor::goals::await_others(left, ends, what, is_decided);
        let mut gathering = lock(&root);
        if let Some(failure) = gathering.take_refusal(rank) {
            return Err(failure);
        }
        if gathering.outcome.is_none() {
            let missing = gathering.missing();
            let (cause, when) = match waited {
                Err(text) => {
                    (Cause::Deadlock, format!("and no thread is left that could: deadlock: {text}"))
                }
                Ok(_) => (Cause::Timeout, format!("within {:.1} s", limit.as_secs_f64())),
            };
            let advice = match gathering.by_table {
                true => {
                    "Start the missing ranks, each with the same rank table, or correct the table."
                }
                false => "Start the missing ranks, or correct the number of ranks.",
            };
            let text =
                format!("EI0015: {missing} of {ranks} did not call {function} {when}\n{advice}");
            gathering.fail(cause, text);
            executor::announce();
        }
        gathering.take(device)
    }
}

impl Gathering {
    pub(super) fn new(side: Side) -> Self {
        Self { side, ..Self::default() }
    }

    /// Makes a gathering of ranks that have a rank table.
    pub(super) fn of_a_table(side: Side) -> Self {
        Self { by_table: true, ..Self::new(side) }
    }

    /// Returns whether a rank of this process is on a device of another block.
    pub(super) fn has_other_block(&self, block: u32) -> bool {
        let mut own = self.applicants.values().filter(|one| one.guest.is_none());
        own.any(|one| one.settings.block != block)
    }

    /// Returns whether ranks may still come.
    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns whether a rank on this device waits for others, or has not yet gone on with the
    /// communicator.
    pub(super) fn is_joined_on(&self, device: u32) -> bool {
        !matches!(self.outcome, Some(Err(_))) && self.devices.contains_key(&device)
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.outcome {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(formed)) => formed.comm.strong_count() == 0,
        }
    }

    /// Names the ranks that have not come, for a message.
    fn missing(&self) -> String {
        // A wrong call may give any number of ranks, so this code does not visit each rank.
        let known: BTreeSet<u32> = match &self.side {
            Side::Away(away) => self.applicants.keys().chain(&away.here).copied().collect(),
            _ => self.applicants.keys().copied().collect(),
        };
        let missing = (0..self.ranks).filter(|rank| !known.contains(rank));
        match self.ranks as usize - known.range(..self.ranks).count() {
            0 => "another process".into(),
            count => list_some(missing.map(|rank| rank as usize), count),
        }
    }

    fn is_here(&self, rank: u32) -> bool {
        let is_elsewhere = matches!(&self.side, Side::Away(away) if away.here.contains(&rank));
        is_elsewhere || self.applicants.contains_key(&rank)
    }

    /// Returns whether all ranks must come from this process.
    pub(super) fn is_for_one_process(&self) -> bool {
        matches!(self.side, Side::Local)
    }

    fn has_refused(&self, rank: u32) -> bool {
        matches!(&self.side, Side::Away(away) if away.refused.contains_key(&rank))
    }

    fn take_refusal(&mut self, rank: u32) -> Option<Failure> {
        match &mut self.side {
            Side::Away(away) => away.refused.remove(&rank),
            _ => None,
        }
    }

    /// Removes a rank of this process that the home process has refused.
    pub(super) fn drop_applicant(&mut self, rank: u32) {
        if let Some(applicant) = self.applicants.remove(&rank) {
            self.devices.remove(&applicant.device);
        }
    }

    /// Ends the gathering without a communicator, and reports this to the other processes.
    pub(super) fn fail(&mut self, cause: Cause, account: impl Into<Account>) -> Arc<CommError> {
        let error = CommError::new(Origin::Call, cause, account);
        let error = Arc::new(CommError { ranks: self.states(&error), ..error });
        self.end_with(Arc::clone(&error));
        self.tell_failure();
        self.let_guests_go();
        error
    }

    /// Ends the gathering because another process has reported that there will be no communicator.
    pub(super) fn end(&mut self, error: CommError) {
        self.end_with(Arc::new(error));
        if !matches!(self.side, Side::Away(_)) {
            self.tell_failure();
        }
        self.let_guests_go();
    }

    /// Sets the outcome. This happens before any other process is notified, so that a rank that
    /// tries again because of the failure finds the next gathering.
    fn end_with(&mut self, error: Arc<CommError>) {
        self.rendezvous = None;
        self.outcome = Some(Err(error));
    }

    /// Ends the gathering with a communicator, with which the ranks of this process go on.
    pub(super) fn go(&mut self, comm: Arc<Comm>) {
        self.rendezvous = None;
        let to_take = self.applicants.values().filter(|one| one.guest.is_none()).count() as u32;
        let weak = Arc::downgrade(&comm);
        let held = (to_take > 0).then_some(comm);
        self.outcome = Some(Ok(Formed { comm: weak, held, to_take }));
        self.let_guests_go();
    }

    /// Drops the guests, and the communicator or formation in progress. Called when the gathering
    /// is decided.
    fn let_guests_go(&mut self) {
        self.applicants.retain(|_, applicant| applicant.guest.is_none());
        self.side.let_go();
    }

    /// Returns the states of the ranks. If there are more ranks than there can be devices, returns
    /// only the states up to the last rank that the error quotes.
    fn states(&self, error: &CommError) -> Box<[RankState]> {
        let said = |rank| error.said.iter().find(|(other, _)| *other == rank as usize);
        let state = |rank: u32| {
            let (presence, text) = match (said(rank), self.gone.get(&rank)) {
                (Some((_, said)), _) => (Presence::Arrived, said.clone()),
                (None, Some(why)) => (Presence::Gone, why.clone()),
                (None, None) if self.is_here(rank) => (Presence::Arrived, String::new()),
                (None, None) => (Presence::Missing, String::new()),
            };
            RankState { presence, number: 0, request: None, text }
        };
        let sides = error.said.iter().map(|(rank, _)| *rank as u32 + 1).max().unwrap_or_default();
        let all = if self.ranks <= MAX_DEVICES { self.ranks } else { 0 };
        (0..all.max(sides.min(MAX_DEVICES))).map(state).collect()
    }

    pub(super) fn enter(&mut self, name: String, applicant: &Applicant) -> Result<(), Failure> {
        match &self.outcome {
            Some(Err(error)) => return Err(refused(error)),
            Some(Ok(_)) => return self.is_made(),
            None => {}
        }
        let Applicant { rank, ranks, device, .. } = *applicant;
        if self.applicants.contains_key(&rank) {
            return refuse!(
                HCCL_E_PARA,
                "EI0015: rank {rank} is here already; every rank joins once: give each caller a \
                 rank of its own"
            );
        }
        if self.applicants.is_empty() {
            self.ranks = ranks;
        }
        let disagreement = self.disagreement(applicant);
        if let Some(account) = disagreement {
            // A wrong call may give a huge number of ranks. The smaller number keeps the list of
            // states short.
            self.ranks = self.ranks.min(ranks);
            let error = self.fail(Cause::Mismatch, account);
            executor::announce();
            return Err(refused(&error));
        }
        if let Some(name) = Some(&applicant.config.name).filter(|name| !name.is_empty())
            && applicant.guest.is_none()
            && super::registry::find_by_name(name, device).is_some()
        {
            return refuse!(
                HCCL_E_PARA,
                "EI0003: device {device} already has a communicator named \"{name}\": give the new one another name",
                device = machine::named(device)
            );
        }
        self.add(applicant);
        self.announce_to_home(applicant);
        self.tell_who_is_here();
        self.give_up_on_the_gone();
        let is_ours = !matches!(self.side, Side::Away(_));
        if is_ours && self.outcome.is_none() && self.applicants.len() == ranks as usize {
            let name = match applicant.config.name.as_str() {
                "" => name,
                name => name.to_owned(),
            };
            if self.has_guests() {
                self.form_between(name, applicant);
            } else {
                let comm = Arc::new(self.form(name, applicant));
                self.go(comm);
            }
        }
        Ok(())
    }

    /// Returns the error for a rank that comes after the communicator was made.
    fn is_made(&self) -> Result<(), Failure> {
        match self.by_table {
            true => refuse!(
                HCCL_E_PARA,
                "EI0015: the ranks of this rank table have already made their communicator; every \
                 rank joins once: destroy the communicator before they join again"
            ),
            false => refuse!(
                HCCL_E_PARA,
                "EI0015: a communicator was already made with this root info; get another root \
                 info with HcclGetRootInfo"
            ),
        }
    }

    /// Gives up on the ranks of this process on some devices.
    pub(super) fn leave(&mut self, devices: &Range<u32>, why: &str) {
        let theirs = |one: &Applicant| one.guest.is_none() && devices.contains(&one.device);
        self.give_up_on_applicants(theirs, why);
    }

    /// Gives up on the applicants for which `which` is true.
    pub(super) fn give_up_on_applicants(&mut self, which: impl Fn(&Applicant) -> bool, why: &str) {
        let theirs = self.applicants.values().filter(|applicant| which(applicant));
        let ranks: Vec<u32> = theirs.map(|applicant| applicant.rank).collect();
        if !ranks.is_empty() {
            self.give_up_on(ranks, why);
        }
    }

    /// Gives up on ranks that will not come any more, unless the gathering is decided.
    pub(super) fn give_up_on(&mut self, ranks: impl IntoIterator<Item = u32>, why: &str) {
        if self.outcome.is_none() {
            self.gone.extend(ranks.into_iter().map(|rank| (rank, why.to_owned())));
            self.give_up_on_the_gone();
        }
    }

    fn add(&mut self, applicant: &Applicant) {
        if applicant.guest.is_none() {
            self.devices.insert(applicant.device, applicant.rank);
        }
        self.applicants.insert(applicant.rank, applicant.clone());
    }

    /// Describes how an applicant differs from the earlier ones; `None` if they agree. The earlier
    /// applicants all agree, so one of them is enough to compare with.
    fn disagreement(&self, applicant: &Applicant) -> Option<Account> {
        let Applicant { rank, ranks, settings, config, .. } = applicant;
        let (other, first) = self.applicants.first_key_value()?;
        let both = |text, theirs: &dyn Display, ours: &dyn Display| {
            let said =
                vec![(*other as usize, theirs.to_string()), (*rank as usize, ours.to_string())];
            Some(Account { text, said })
        };
        if first.ranks != *ranks {
            let text = format!(
                "EI0015: the ranks disagree about their number: rank {other} says {}, rank {rank} \
                 says {ranks}; pass the same number on every rank",
                first.ranks
            );
            return both(text, &format!("{} ranks", first.ranks), &format!("{ranks} ranks"));
        }
        if let Some(other) = self.on_the_card_of(applicant) {
            let device = Self::card_of(applicant);
            let text = format!(
                "EI0015: ranks {other} and {rank} are both on device {device}; give every rank \
                 its own device"
            );
            let said = [other, *rank]
                .map(|rank| (rank as usize, format!("rank {rank} on device {device}")));
            return Some(Account { text, said: said.into() });
        }
        let (theirs, ours) = (first.settings.product, settings.product);
        if theirs != ours {
            let text = format!(
                "EI0016: rank {other} is on {theirs}, rank {rank} on {ours}; use devices of one \
                 product"
            );
            return both(text, &theirs, &ours);
        }
        if first.config.name != config.name
            || first.config.buffer_megabytes != config.buffer_megabytes
        {
            let said = |config: &CommConfig| {
                format!("name \"{}\", buffer {} MB", config.name, config.buffer_megabytes)
            };
            let (theirs, ours) = (said(&first.config), said(config));
            let text = format!(
                "EI0005: the configurations differ: rank {other}: {theirs}; rank {rank}: {ours}; \
                 set the same name and buffer size on every rank"
            );
            return both(text, &theirs, &ours);
        }
        None
    }

    /// Returns the rank on the same device as the applicant, if there is one. Compares two ranks of
    /// this process by their devices, and other ranks by the numbers of their devices in their
    /// programs.
    fn on_the_card_of(&self, applicant: &Applicant) -> Option<u32> {
        let process = |one: &Applicant| one.guest.as_ref().map(|guest| guest.peer.home);
        let own = process(applicant);
        let is_same = |other: &&Applicant| match process(other) == own && own.is_none() {
            true => other.device == applicant.device,
            false => Self::card_of(other) == Self::card_of(applicant),
        };
        self.applicants.values().find(is_same).map(|other| other.rank)
    }

    /// Fails the gathering if one of its ranks is gone.
    fn give_up_on_the_gone(&mut self) {
        // Before the first rank comes, the number of ranks is unknown, and no rank waits.
        if self.outcome.is_none()
            && let Some((rank, why)) = self.gone.iter().find(|(rank, _)| **rank < self.ranks)
        {
            let text = format!(
                "EI0015: rank {rank} is gone ({why}), so the communicator cannot be made; join \
                 again with all ranks, or with those that remain"
            );
            self.fail(Cause::Gone, text);
        }
    }

    fn form(&self, name: String, applicant: &Applicant) -> Comm {
        let Settings { product, connect_timeout, .. } = applicant.settings;
        let places =
            self.applicants.values().map(|one| DevicePlace::new(one.device, &one.settings));
        let comm = Comm::new(name, product, connect_timeout, self.applicants.len());
        comm.on(places.collect()).of_a_table(self.by_table)
    }

    /// Takes the outcome for the rank on a device.
    fn take(&mut self, device: u32) -> Result<Arc<Comm>, Failure> {
        self.devices.remove(&device);
        match &mut self.outcome {
            Some(Err(error)) => Err(refused(error)),
            Some(Ok(formed)) => {
                formed.to_take = formed.to_take.saturating_sub(1);
                let held =
                    if formed.to_take == 0 { formed.held.take() } else { formed.held.clone() };
                match held {
                    Some(comm) => Ok(comm),
                    None => {
                        refuse!(HCCL_E_INTERNAL, "EI9999: too many ranks took the communicator")
                    }
                }
            }
            None => refuse!(HCCL_E_INTERNAL, "EI9999: the communicator has not been made"),
        }
    }
}
