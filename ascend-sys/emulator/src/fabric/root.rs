//! How the ranks of a new communicator find each other: by a root info that one of them made, or all at once.
//!
//! A root info serves one communicator, in the process that made it. Every rank brings it, waits until all have, and they
//! leave with one [`Comm`]. What they say must agree: the number of ranks, the product, the configuration.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use ascend_sys::HcclResult;

use super::comm::Comm;
use super::config::CommConfig;
use super::place::DevicePlace;
use crate::collective::sides::list;
use crate::executor;
use crate::machine::Settings;
use crate::message::{Failure, refuse};
use ascend_sync::lock_std as lock;

/// Bytes of a root info.
pub(crate) const ROOT_INFO: usize = 4108;
/// What it starts with, as text: programs print it, and some parse it as an address.
const ADDRESS: &[u8] = b"127.0.0.1\0";
/// Where our own words lie: a mark, the process, a number, and a check of the three.
const WORDS_AT: usize = 64;
const MARK: u64 = u64::from_le_bytes(*b"ascendEM");

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
    outcome: Option<Result<Formed, Failure>>,
}

struct Formed {
    comm: Weak<Comm>,
    /// Held until the last rank has taken it.
    held: Option<Arc<Comm>>,
    to_take: u32,
}

type Shared = Arc<Mutex<Gathering>>;

static ROOTS: Mutex<BTreeMap<u64, Shared>> = Mutex::new(BTreeMap::new());

/// A new root info.
pub(crate) fn create() -> [u8; ROOT_INFO] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut roots = lock(&ROOTS);
    roots.retain(|_, root| !lock(root).is_over());
    roots.insert(number, Shared::default());
    let process = u64::from(std::process::id());
    let mut info = [0; ROOT_INFO];
    info[..ADDRESS.len()].copy_from_slice(ADDRESS);
    let words = [MARK, process, number, check(process, number)];
    for (place, word) in info[WORDS_AT..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    info
}

fn check(process: u64, number: u64) -> u64 {
    (MARK ^ process).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        ^ number.wrapping_mul(MARK | 1)
}

fn find(info: &[u8; ROOT_INFO]) -> Result<(u64, Shared), Failure> {
    let mut words = info[WORDS_AT..]
        .chunks_exact(8)
        .map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    let [mark, process, number, sum] = std::array::from_fn(|_| words.next().unwrap_or_default());
    if mark != MARK || sum != check(process, number) {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: this is no root info of HcclGetRootInfo, or it was damaged on its way ({ROOT_INFO} bytes belong to it)"
        );
    }
    if process != u64::from(std::process::id()) {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: the root info was made in process {process}; the ranks of an emulated communicator live in one process"
        );
    }
    match lock(&ROOTS).get(&number) {
        Some(root) => Ok((number, Arc::clone(root))),
        None => refuse!(
            HCCL_E_PARA,
            "EI0015: the root info has already made its communicator; HcclGetRootInfo makes another"
        ),
    }
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
    let (number, root) = find(info)?;
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
        executor::wait_until(Some(left), || lock(&root).outcome.is_some());
        let mut gathering = lock(&root);
        if gathering.outcome.is_none() {
            let missing = gathering.missing();
            let text = format!(
                "EI0015: {} of {ranks} did not call HcclCommInitRootInfo within {:.1} s\nStart the missing ranks, or correct the number of ranks.",
                list(&missing),
                limit.as_secs_f64()
            );
            gathering.outcome = Some(Err(Failure::new(HcclResult::HCCL_E_TIMEOUT, text)));
            executor::announce();
        }
        gathering.take()
    }
}

/// A communicator of ranks that are all known already.
pub(crate) fn form_at_once(applicants: &[Applicant]) -> Result<Comm, Failure> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut gathering = Gathering::default();
    for applicant in applicants {
        if let Some(text) = gathering.disagreement(applicant) {
            return refuse!(HCCL_E_INTERNAL, "{text}");
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
    let (_, root) = find(info)?;
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

    fn missing(&self) -> Vec<usize> {
        (0..self.ranks)
            .filter(|rank| !self.applicants.contains_key(rank))
            .map(|r| r as usize)
            .collect()
    }

    fn enter(&mut self, number: u64, applicant: &Applicant) -> Result<(), Failure> {
        match &self.outcome {
            Some(Err(failure)) => return Err(failure.clone()),
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
        if let Some(text) = disagreement {
            let failure = Failure::new(HcclResult::HCCL_E_PARA, text);
            self.outcome = Some(Err(failure.clone()));
            executor::announce();
            return Err(failure);
        }
        if let Some(name) = Some(&applicant.config.name).filter(|name| !name.is_empty())
            && super::registry::find_by_name(name, device).is_some()
        {
            return refuse!(
                HCCL_E_PARA,
                "EI0003: device {device} has a communicator named \"{name}\" already"
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
    fn disagreement(&self, applicant: &Applicant) -> Option<String> {
        let Applicant { rank, ranks, device, settings, config } = applicant;
        let (other, first) = self.applicants.first_key_value()?;
        if first.ranks != *ranks {
            return Some(format!(
                "EI0015: the ranks disagree about their number: rank {other} says {}, rank {rank} says {ranks}",
                first.ranks
            ));
        }
        if let Some(other) = self.devices.get(device) {
            return Some(format!(
                "EI0015: ranks {other} and {rank} are both on device {device}; every rank needs its own"
            ));
        }
        if first.settings.product != settings.product {
            return Some(format!(
                "EI0016: rank {other} is on {}, rank {rank} on {}",
                first.settings.product, settings.product
            ));
        }
        if first.config.name != config.name
            || first.config.buffer_megabytes != config.buffer_megabytes
        {
            return Some(format!(
                "EI0005: the configurations differ: rank {other}: name \"{}\", buffer {} MB; rank {rank}: name \"{}\", buffer {} MB",
                first.config.name,
                first.config.buffer_megabytes,
                config.name,
                config.buffer_megabytes
            ));
        }
        None
    }

    /// Nobody need wait for a rank that is gone.
    fn give_up_on_the_gone(&mut self) {
        // Before the first rank came, nobody knows how many there are, and nobody waits.
        if let Some((rank, why)) = self.gone.iter().find(|(rank, _)| **rank < self.ranks) {
            let text =
                format!("EI0015: rank {rank} is gone ({why}), so the communicator cannot be made");
            self.outcome = Some(Err(Failure::new(HcclResult::HCCL_E_TIMEOUT, text)));
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
            Some(Err(failure)) => Err(failure.clone()),
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
        };
        Applicant { rank, ranks: 2, device: 64 + rank, settings, config: CommConfig::default() }
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
        refused(|it| it.device = 64, &["EI0015", "ranks 0 and 1 are both on device 64"]);
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
