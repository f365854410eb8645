//! How the ranks of a new communicator find each other: by a root info that one of them made, or all at once.
//!
//! A root info serves one communicator, in the process that made it. Every rank brings it, waits until all have, and they
//! leave with one [`Comm`]. What they say must agree: the number of ranks, the product, the configuration.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::attempt;
use super::comm::Comm;
use super::config::CommConfig;
use super::home::{self, Home, Stray};
use super::place::DevicePlace;
use super::root_info::{ROOT_INFO, decode, encode};
use crate::collective::account::Account;
use crate::collective::comm_error::{Cause, CommError, Origin, Presence, RankState};
use crate::collective::sides::list_some;
use crate::executor;
use crate::machine::{self, MAX_DEVICES, Settings};
use crate::message::{Failure, refuse};
use ascend_sync::lock_std as lock;

/// So often ranks that wait look for what other processes have told.
const LOOK: Duration = Duration::from_millis(20);
const ONE_PROCESS: &str =
    "The ranks of an emulated communicator live in one process, as threads or tasks.";
/// One rank on its way in.
#[derive(Clone)]
pub(crate) struct Applicant {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) device: u32,
    pub(crate) settings: Settings,
    pub(crate) config: CommConfig,
}

#[derive(Default)]
struct Gathering {
    /// As the first rank said.
    ranks: u32,
    applicants: BTreeMap<u32, Applicant>,
    /// The rank that is on a device.
    devices: BTreeMap<u32, u32>,
    gone: BTreeMap<u32, String>,
    outcome: Option<Result<Formed, Arc<CommError>>>,
}

struct Formed {
    comm: Weak<Comm>,
    /// Held until the last rank has taken it.
    held: Option<Arc<Comm>>,
    to_take: u32,
}

type Shared = Arc<Mutex<Gathering>>;

static ROOTS: Mutex<Roots> = Mutex::new(Roots::new());

/// What is known of root infos. One that no rank has brought costs nothing.
struct Roots {
    /// Those of which ranks have come, unless all is over.
    open: BTreeMap<u64, Shared>,
    /// When so many are open, those go that are over.
    look_at: usize,
    /// A bit for each number that was made, up to the last one that was brought: whether it was.
    brought: Vec<u64>,
    made: u64,
}

impl Roots {
    const fn new() -> Roots {
        Roots { open: BTreeMap::new(), look_at: 16, brought: Vec::new(), made: 0 }
    }

    fn make(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// The gathering of a root info. `None` when that is over.
    fn gathering(&mut self, number: u64) -> Option<Shared> {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number > self.made {
            return None;
        }
        if word >= self.brought.len() {
            self.brought.resize(word + 1, 0);
        }
        if self.brought[word] & bit != 0 {
            return self.open.get(&number).cloned();
        }
        self.brought[word] |= bit;
        if self.open.len() >= self.look_at {
            self.open.retain(|_, root| !lock(root).is_over());
            self.look_at = 2 * self.open.len().max(8);
        }
        Some(self.open.entry(number).or_default().clone())
    }
}

/// A new root info.
pub(crate) fn create() -> [u8; ROOT_INFO] {
    let number = lock(&ROOTS).make();
    encode(&Home::own(), number)
}

/// The root info that `rank` brings.
fn find(info: &[u8; ROOT_INFO], rank: u32) -> Result<(u64, Shared), Failure> {
    let Some((home, number)) = decode(info) else {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: this is no root info of HcclGetRootInfo, or it was damaged on its way ({ROOT_INFO} bytes belong to it)"
        );
    };
    if home != Home::own() {
        let own = std::process::id();
        let told = match home.tell(number, rank) {
            true => "It was told, so its ranks do not wait",
            false => "It could not be told: its ranks wait for their time limit",
        };
        return refuse!(
            HCCL_E_PARA,
            "EI0015: rank {rank} is in process {own}, and its root info was made in process {}\n{told}.\n{ONE_PROCESS}",
            home.process
        );
    }
    match lock(&ROOTS).gathering(number) {
        Some(root) => Ok((number, root)),
        None => refuse!(
            HCCL_E_PARA,
            "EI0015: the root info has already made its communicator; HcclGetRootInfo makes another"
        ),
    }
}

/// Tells the calling thread that there is no communicator.
#[cold]
fn refused(error: &Arc<CommError>) -> Failure {
    attempt::fail(Arc::clone(error));
    Failure::new(error.cause.hccl_result(), error.text.as_str())
}

/// Brings a rank to the others and waits for them, at most as long as its block's connect timeout.
pub(crate) fn join(info: &[u8; ROOT_INFO], applicant: &Applicant) -> Result<Arc<Comm>, Failure> {
    enter(info, applicant)?.wait()
}

/// A rank that the others can see, and that waits for them.
pub(crate) struct Entered {
    root: Shared,
    ranks: u32,
    limit: Duration,
    since: Instant,
}

/// Brings a rank to the others, and waits for nobody.
pub(crate) fn enter(info: &[u8; ROOT_INFO], applicant: &Applicant) -> Result<Entered, Failure> {
    let (number, root) = find(info, applicant.rank)?;
    let complete = {
        let mut gathering = lock(&root);
        gathering.enter(number, applicant)?;
        gathering.outcome.is_some()
    };
    // Who waits, waits for this; a thousand need not hear of every single one that comes.
    if complete {
        executor::announce();
    }
    let (ranks, limit) = (applicant.ranks, applicant.settings.connect_timeout);
    Ok(Entered { root, ranks, limit, since: Instant::now() })
}

impl Entered {
    /// Waits for the others.
    pub(crate) fn wait(self) -> Result<Arc<Comm>, Failure> {
        let Self { root, ranks, limit, since } = self;
        let left = limit.saturating_sub(since.elapsed());
        let what = || {
            let missing = lock(&root).missing();
            format!("a rank in HcclCommInitRootInfo: waiting for {missing} of {ranks}")
        };
        let looked = Cell::new(None::<Instant>);
        let is_decided = || {
            if looked.get().is_none_or(|at| at.elapsed() >= LOOK) {
                looked.set(Some(Instant::now()));
                hear_of_strays();
            }
            lock(&root).outcome.is_some()
        };
        let waited = executor::await_others(left, what, is_decided);
        let mut gathering = lock(&root);
        if gathering.outcome.is_none() {
            let missing = gathering.missing();
            let (cause, when) = match waited {
                Err(text) => {
                    (Cause::Deadlock, format!("and nobody is left who could: deadlock: {text}"))
                }
                Ok(_) => (Cause::Timeout, format!("within {:.1} s", limit.as_secs_f64())),
            };
            let text = format!(
                "EI0015: {missing} of {ranks} did not call HcclCommInitRootInfo {when}\nStart the missing ranks, or correct the number of ranks. {ONE_PROCESS}"
            );
            gathering.fail(cause, text);
            executor::announce();
        }
        gathering.take()
    }
}

/// Ends the gatherings of which a rank was brought to another process.
fn hear_of_strays() {
    for Stray { number, rank, process } in home::strays() {
        // Maybe before a rank of this process has come, which is told then.
        let Some(root) = lock(&ROOTS).gathering(number) else { continue };
        let mut gathering = lock(&root);
        if gathering.outcome.is_some() || gathering.applicants.contains_key(&rank) {
            continue;
        }
        let own = std::process::id();
        let text = format!(
            "EI0015: rank {rank} is in process {process}, and the root info was made in process {own}, where the others are\n{ONE_PROCESS}"
        );
        gathering.gone.insert(rank, format!("it is in process {process}"));
        gathering.fail(Cause::Timeout, text);
        drop(gathering);
        executor::announce();
    }
}

/// A communicator of ranks that are all known already.
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
        None => refuse!(HCCL_E_PARA, "a communicator needs a rank"),
    }
}

/// Tells the ranks that this one is gone.
pub(crate) fn leave(info: &[u8; ROOT_INFO], rank: u32, reason: &str) -> Result<(), Failure> {
    let (_, root) = find(info, rank)?;
    let comm = {
        let mut gathering = lock(&root);
        match &gathering.outcome {
            Some(Ok(formed)) => formed.comm.upgrade(),
            Some(Err(_)) => None,
            None => {
                gathering.gone.insert(rank, reason.to_owned());
                gathering.give_up_on_the_gone();
                None
            }
        }
    };
    executor::announce();
    if let Some(comm) = comm {
        if rank as usize >= comm.ranks() {
            let ranks = comm.ranks();
            return refuse!(HCCL_E_PARA, "there is no rank {rank}: the communicator has {ranks}");
        }
        comm.leave(rank as usize, reason.to_owned());
        super::registry::leave_subs(&comm, rank as usize, reason);
    }
    Ok(())
}

impl Gathering {
    fn is_over(&self) -> bool {
        match &self.outcome {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(formed)) => formed.comm.strong_count() == 0,
        }
    }

    /// Who has not come, for a text.
    fn missing(&self) -> String {
        let missing = (0..self.ranks).filter(|rank| !self.applicants.contains_key(rank));
        list_some(missing.map(|rank| rank as usize), self.ranks as usize - self.applicants.len())
    }

    /// There will be no communicator.
    fn fail(&mut self, cause: Cause, account: impl Into<Account>) -> Arc<CommError> {
        let error = CommError::new(Origin::Call, cause, account);
        let error = Arc::new(CommError { ranks: self.states(&error), ..error });
        self.outcome = Some(Err(Arc::clone(&error)));
        error
    }

    /// Where the ranks are; of more than there can be devices, nothing.
    fn states(&self, error: &CommError) -> Box<[RankState]> {
        let said = |rank| error.said.iter().find(|(other, _)| *other == rank as usize);
        let state = |rank: u32| {
            let (presence, text) = match (said(rank), self.gone.get(&rank)) {
                (Some((_, said)), _) => (Presence::Arrived, said.clone()),
                (None, Some(why)) => (Presence::Gone, why.clone()),
                (None, None) if self.applicants.contains_key(&rank) => {
                    (Presence::Arrived, String::new())
                }
                (None, None) => (Presence::Missing, String::new()),
            };
            RankState { presence, number: 0, request: None, text }
        };
        let sides = error.said.iter().map(|(rank, _)| *rank as u32 + 1).max().unwrap_or_default();
        let all = if self.ranks <= MAX_DEVICES { self.ranks } else { 0 };
        (0..all.max(sides.min(MAX_DEVICES))).map(state).collect()
    }

    fn enter(&mut self, number: u64, applicant: &Applicant) -> Result<(), Failure> {
        match &self.outcome {
            Some(Err(error)) => return Err(refused(error)),
            Some(Ok(_)) => {
                return refuse!(
                    HCCL_E_PARA,
                    "EI0015: the root info has already made its communicator; HcclGetRootInfo makes another"
                );
            }
            None => {}
        }
        let Applicant { rank, ranks, device, .. } = *applicant;
        if self.applicants.contains_key(&rank) {
            return refuse!(
                HCCL_E_PARA,
                "EI0015: rank {rank} is here already; every rank joins once"
            );
        }
        if self.applicants.is_empty() {
            self.ranks = ranks;
        }
        let disagreement = self.disagreement(applicant);
        if let Some(account) = disagreement {
            // Nobody makes a list of as many as a mistake may say.
            self.ranks = self.ranks.min(ranks);
            let error = self.fail(Cause::Mismatch, account);
            executor::announce();
            return Err(refused(&error));
        }
        if let Some(name) = Some(&applicant.config.name).filter(|name| !name.is_empty())
            && super::registry::find_by_name(name, device).is_some()
        {
            return refuse!(
                HCCL_E_PARA,
                "EI0003: device {device} has a communicator named \"{name}\" already",
                device = machine::named(device)
            );
        }
        self.add(applicant);
        self.give_up_on_the_gone();
        if self.outcome.is_none() && self.applicants.len() == ranks as usize {
            let comm = Arc::new(self.form(format!("127.0.0.1%lo_60000_0_{number}"), applicant));
            let weak = Arc::downgrade(&comm);
            self.outcome = Some(Ok(Formed { comm: weak, held: Some(comm), to_take: ranks }));
        }
        Ok(())
    }

    fn add(&mut self, applicant: &Applicant) {
        self.devices.insert(applicant.device, applicant.rank);
        self.applicants.insert(applicant.rank, applicant.clone());
    }

    /// What this applicant says that those before did not. They all say the same, so one of them is enough.
    fn disagreement(&self, applicant: &Applicant) -> Option<Account> {
        let Applicant { rank, ranks, device, settings, config } = applicant;
        let (other, first) = self.applicants.first_key_value()?;
        let both = |text, theirs: &dyn Display, ours: &dyn Display| {
            let said =
                vec![(*other as usize, theirs.to_string()), (*rank as usize, ours.to_string())];
            Some(Account { text, said })
        };
        if first.ranks != *ranks {
            let text = format!(
                "EI0015: the ranks disagree about their number: rank {other} says {}, rank {rank} says {ranks}",
                first.ranks
            );
            return both(text, &format!("{} ranks", first.ranks), &format!("{ranks} ranks"));
        }
        if let Some(other) = self.devices.get(device) {
            let device = machine::named(*device);
            let text = format!(
                "EI0015: ranks {other} and {rank} are both on device {device}; every rank needs its own"
            );
            let said = [*other, *rank]
                .map(|rank| (rank as usize, format!("rank {rank} on device {device}")));
            return Some(Account { text, said: said.into() });
        }
        let (theirs, ours) = (first.settings.product, settings.product);
        if theirs != ours {
            let text = format!("EI0016: rank {other} is on {theirs}, rank {rank} on {ours}");
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
                "EI0005: the configurations differ: rank {other}: {theirs}; rank {rank}: {ours}"
            );
            return both(text, &theirs, &ours);
        }
        None
    }

    /// Nobody need wait for a rank that is gone.
    fn give_up_on_the_gone(&mut self) {
        // Before the first rank came, nobody knows how many there are, and nobody waits.
        if let Some((rank, why)) = self.gone.iter().find(|(rank, _)| **rank < self.ranks) {
            let text =
                format!("EI0015: rank {rank} is gone ({why}), so the communicator cannot be made");
            self.fail(Cause::Gone, text);
        }
    }

    fn form(&self, default_name: String, applicant: &Applicant) -> Comm {
        let name = match applicant.config.name.as_str() {
            "" => default_name,
            name => name.to_owned(),
        };
        let Settings { product, connect_timeout, .. } = applicant.settings;
        let places =
            self.applicants.values().map(|one| DevicePlace::new(one.device, &one.settings));
        Comm::new(name, product, connect_timeout, self.applicants.len()).on(places.collect())
    }

    /// The outcome for one rank.
    fn take(&mut self) -> Result<Arc<Comm>, Failure> {
        match &mut self.outcome {
            Some(Err(error)) => Err(refused(error)),
            Some(Ok(formed)) => {
                formed.to_take = formed.to_take.saturating_sub(1);
                let held =
                    if formed.to_take == 0 { formed.held.take() } else { formed.held.clone() };
                match held {
                    Some(comm) => Ok(comm),
                    None => {
                        refuse!(HCCL_E_INTERNAL, "EI9999: the communicator was taken too often")
                    }
                }
            }
            None => refuse!(HCCL_E_INTERNAL, "EI9999: the communicator has not been made"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::profile::Product;

    fn applicant(rank: u32) -> Applicant {
        let (connect_timeout, exec_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
        let product = Product::A3;
        let settings = Settings {
            block: 1,
            first: 64,
            count: 2,
            product,
            connect_timeout,
            exec_timeout,
            buffer_megabytes: 200,
            kernel_seed: 0,
            kernel_late: None,
        };
        Applicant { rank, ranks: 2, device: 64 + rank, settings, config: CommConfig::default() }
    }

    #[test]
    fn root_infos_that_nobody_brings_or_that_are_over_take_no_room() {
        let mut roots = Roots::new();
        for _ in 0..10_000 {
            roots.make();
        }
        assert!(roots.open.is_empty() && roots.brought.is_empty());
        let mut last = Shared::default();
        for number in 1..=1000 {
            last = roots.gathering(number).expect("nobody has brought it");
            assert!(roots.gathering(number).is_some_and(|again| Arc::ptr_eq(&again, &last)));
            if number != 1000 {
                lock(&last).fail(Cause::Timeout, String::from("over"));
            }
        }
        assert!(roots.open.len() <= 17, "{}", roots.open.len());
        assert!(roots.gathering(1).is_none(), "over, and not anew");
        assert!(roots.gathering(1000).is_some_and(|again| Arc::ptr_eq(&again, &last)));
        assert!(roots.gathering(200_000).is_none(), "never made");
    }

    #[test]
    fn disagreements_print_both_sides() {
        assert!(form_at_once(&[applicant(0), applicant(1)]).is_ok());
        let refused = |change: fn(&mut Applicant), pieces: &[&str]| {
            let mut second = applicant(1);
            change(&mut second);
            let Err(failure) = form_at_once(&[applicant(0), second]) else {
                panic!("{pieces:?} is accepted");
            };
            for piece in pieces {
                assert!(failure.text.contains(piece), "{piece} is not in: {}", failure.text);
            }
        };
        refused(|it| it.ranks = 3, &["EI0015", "rank 0 says 2, rank 1 says 3"]);
        refused(|it| it.device = 64, &["EI0015", "ranks 0 and 1 are both on device"]);
        refused(
            |it| it.settings.product = Product::Ascend950,
            &["EI0016", "rank 0 is on Atlas A3, rank 1 on Ascend 950"],
        );
        refused(
            |it| it.config.buffer_megabytes = 64,
            &["EI0005", "rank 0: name \"\", buffer 200 MB", "rank 1: name \"\", buffer 64 MB"],
        );
        refused(
            |it| it.config.name = "other".into(),
            &["EI0005", "rank 0: name \"\"", "rank 1: name \"other\""],
        );
    }
}
