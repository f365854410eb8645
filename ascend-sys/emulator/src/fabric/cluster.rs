//! Brings the ranks of a [rank table](super::rank_table) together: ranks whose tables have the same
//! contents join one gathering.
//!
//! The addresses in a table are not addresses of this machine, so the emulator does not use them.
//! Instead, the contents of the table name a [rendezvous](Rendezvous). The name and the layout of
//! the file do not matter. The first process that comes keeps the rendezvous and makes a gathering,
//! as it does for a root info of its own. Every other process asks the keeper for the gathering,
//! and then proceeds as with a root info of the keeper ([`between`](super::between)).
//!
//! A gathering makes one communicator. When the gathering is decided, its rendezvous ends, and the
//! ranks of the table can gather again. A device is in at most one communicator of a rank table at
//! a time.
//!
//! A process takes part with ranks of one block of devices. Ranks of another block that bring the
//! same table at the same time gather among themselves.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::between::{self, ANSWER, HEARS, Side};
use super::gathering::{Applicant, Entered, Gathering, Shared, WORLD};
use super::rank_table::RankTable;
use super::{registry, root};
use crate::collective::comm_error::Cause;
use crate::executor;
use crate::machine;
use crate::message::{Failure, refuse};
use crate::processes::listener;
use crate::processes::rendezvous::{KeeperAnswer, KeeperReply, Rendezvous};
use ascend_sync::lock_std as lock;

/// The gatherings that are not over, by block of devices and contents of the table.
static CLUSTERS: Mutex<Clusters> = Mutex::new(Clusters(BTreeMap::new()));

struct Clusters(BTreeMap<(u32, String), Vec<Shared>>);

/// The pause before a rank tries again, after it has found the rendezvous of a gathering that was
/// ending, or a rendezvous at which no process answers.
const AGAIN: Duration = Duration::from_millis(2);

/// The shortest time limit for the answer of a keeper, even if the rank has less time left.
const LEAST: Duration = Duration::from_millis(100);

/// A rank that looks for the other ranks of its table.
struct Search<'a> {
    /// The block of the rank's device.
    block: u32,
    contents: String,
    rendezvous: Rendezvous,
    applicant: &'a Applicant,
    function: &'static str,
}

/// Enters a rank into the gathering of its rank table. Waits only for the process that keeps the
/// rendezvous, not for the other ranks.
pub(crate) fn enter(
    table: RankTable,
    applicant: &Applicant,
    function: &'static str,
) -> Result<Entered, Failure> {
    let (since, limit) = (Instant::now(), applicant.settings.connect_timeout);
    let search = Search {
        block: applicant.settings.block,
        rendezvous: Rendezvous::of("table", &table.contents),
        contents: table.contents,
        applicant,
        function,
    };
    let mut unreached = None;
    loop {
        if let Some(entered) = search.enter_here()? {
            return Ok(entered.since(since));
        }
        let left = limit.saturating_sub(since.elapsed());
        let why = match search.rendezvous.ask(left.clamp(LEAST, ANSWER)) {
            KeeperReply::Keeper(keeper) => match search.enter_at(&keeper, left)? {
                Ok(Some(entered)) => return Ok(entered.since(since)),
                Ok(None) => "the table's gatherings ended before this rank joined them".to_owned(),
                // The keeper answered twice and could not be reached twice, so it was not just
                // ending.
                Err(why) if unreached.as_ref() == Some(&keeper) => return search.fails(&why),
                Err(why) => {
                    unreached = Some(keeper);
                    why
                }
            },
            KeeperReply::Nobody => {
                "the socket of the rendezvous is in use, but no process answers".to_owned()
            }
            KeeperReply::Unusable(why) => return search.fails(&why),
        };
        if since.elapsed() >= limit {
            return search.fails(&why);
        }
        std::thread::sleep(AGAIN);
    }
}

impl Search<'_> {
    /// Joins the gathering of this process, or becomes the keeper of the rendezvous. Returns `None`
    /// if the rendezvous has another keeper: another process, or another block of this process.
    fn enter_here(&self) -> Result<Option<Entered>, Failure> {
        let mut clusters = lock(&CLUSTERS);
        let gatherings = self.gatherings(&mut clusters)?;
        if let Some(open) = find_open(gatherings) {
            return self.begin(open).map(Some);
        }
        let socket = match self.rendezvous.bind() {
            Ok(Some(socket)) => socket,
            Ok(None) => return Ok(None),
            Err(e) => return self.fails(&e.to_string()),
        };
        let (number, new) = root::of_a_table();
        gatherings.push(Arc::clone(&new));
        // The rank joins before other processes can learn of the gathering. So whenever another
        // process joins, this process, which decides, has a rank in it.
        let entered = self.begin(Arc::clone(&new));
        let mut gathering = lock(&new);
        match &entered {
            Ok(_) if gathering.is_open() => {
                match listener::keep(socket, HEARS, number, self.applicant.rank) {
                    Ok(kept) => gathering.rendezvous = Some(kept),
                    Err(why) => {
                        gathering.fail(Cause::Gone, format!("EI0015: {why}"));
                        return self.fails(&why);
                    }
                }
            }
            Ok(_) => {}
            Err(failure) => drop(gathering.fail(Cause::Gone, failure.text.to_string())),
        }
        entered.map(Some)
    }

    /// Joins the gathering that a keeper names. Returns `Ok(Ok(None))` if that gathering is over,
    /// and `Ok(Err(_))` if the keeper cannot be reached. Both can happen because the gathering was
    /// ending.
    fn enter_at(
        &self,
        keeper: &KeeperAnswer,
        left: Duration,
    ) -> Result<Result<Option<Entered>, String>, Failure> {
        let KeeperAnswer { home, number, rank } = *keeper;
        let is_own = match listener::open(HEARS) {
            Ok(own) => own == home,
            Err(why) => return self.fails(&why),
        };
        let there = match is_own {
            true => root::of_number(number),
            false => match between::image(&home, number, Some(rank), left) {
                Ok(image) => Some(image),
                Err(why) => return Ok(Err(why)),
            },
        };
        let mut clusters = lock(&CLUSTERS);
        let gatherings = self.gatherings(&mut clusters)?;
        let is_open = |there: &Shared| lock(there).is_open();
        let Some(there) = there.filter(is_open) else { return Ok(Ok(None)) };
        // Another thread of this process may have joined the gathering meanwhile.
        if let Some(open) = find_open(gatherings) {
            return self.begin(open).map(|entered| Ok(Some(entered)));
        }
        let there = match lock(&there).has_other_block(self.block) {
            true => Arc::new(Mutex::new(Gathering::of_a_table(Side::Local))),
            false => Arc::clone(&there),
        };
        gatherings.push(Arc::clone(&there));
        self.begin(there).map(|entered| Ok(Some(entered)))
    }

    /// Returns the gatherings of this table and block that are not over. Returns an error if the
    /// rank's device is in a communicator of a rank table, or is joining one.
    fn gatherings<'c>(&self, clusters: &'c mut Clusters) -> Result<&'c mut Vec<Shared>, Failure> {
        let device = self.applicant.device;
        let mut all = clusters.0.values().flatten();
        if all.any(|of| lock(of).is_joined_on(device)) || registry::has_cluster(device) {
            return refuse!(
                HCCL_E_UNAVAIL,
                "EI0003: device {} is already in a communicator of a rank table; a device can be \
                 in only one at a time: destroy that one first (HcclCommDestroy)",
                machine::named(device)
            );
        }
        clusters.0.retain(|_, gatherings| {
            gatherings.retain(|gathering| {
                let gathering = lock(gathering);
                !gathering.is_over() && !gathering.applicants.is_empty()
            });
            !gatherings.is_empty()
        });
        Ok(clusters.0.entry((self.block, self.contents.clone())).or_default())
    }

    /// Brings the rank into a gathering, without waiting. The caller holds the lock of
    /// [`CLUSTERS`], so that no other thread brings a rank on the same device meanwhile.
    fn begin(&self, gathering: Shared) -> Result<Entered, Failure> {
        Entered::begin(gathering, WORLD.to_owned(), self.applicant, self.function)
    }

    #[cold]
    fn fails<T>(&self, why: &str) -> Result<T, Failure> {
        refuse!(
            HCCL_E_REMOTE,
            "EI0015: rank {} cannot meet the other ranks of its rank table: {why}\n\
             Ranks of one user on this machine meet if their rank tables have the same contents. \
             To meet apart, give the tables another server_id (net_instance_id in version 2.0).",
            self.applicant.rank
        )
    }
}

fn find_open(gatherings: &[Shared]) -> Option<Shared> {
    gatherings.iter().find(|of| lock(of).is_open()).cloned()
}

/// Gives up on the ranks of devices that are gone, in gatherings of a table or a root info.
pub(crate) fn leave(devices: &Range<u32>, why: &str) {
    between::leave(devices, why);
    // The gatherings that are in this process only.
    let all: Vec<Shared> = lock(&CLUSTERS).0.values().flatten().cloned().collect();
    all.iter().for_each(|gathering| lock(gathering).leave(devices, why));
    executor::announce();
}
