//! Gatherings whose ranks come from several processes.
//!
//! One process decides: the process that made the root info, or the first process that brought a
//! [rank table](super::cluster). It is the home of the gathering. Ranks of other processes join it
//! as guests. The home compares the arguments of all ranks. When all ranks have come, it has every
//! process [make its side](super::formation) of the communicator. When every process has made its
//! side, the ranks go on. So no rank goes on with a communicator that another process could not
//! make.
//!
//! Every other process has an image of the gathering, in which its own ranks wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::comm::Comm;
use super::gathering::{Applicant, Gathering, Shared};
use super::news::{Formation, Newcomer, News, RootNews, Seat};
use super::{attempt, endpoint_news, joint, root, stillness};
use crate::executor;
use crate::ipc;
use crate::machine::{self, MAX_DEVICES, Settings};
use crate::memory::window;
use crate::message::Failure;
use crate::processes::line::Frame;
use crate::processes::listener::{self, Hears, as_bytes};
use crate::processes::peer::{Home, Peer};
use ascend_sync::lock_std as lock;

/// The functions by which this process handles messages from other processes.
pub(super) const HEARS: Hears = Hears {
    layout: LAYOUT,
    said: hear,
    lost: lose,
    rung: || {
        joint::wake_own();
        ipc::rung();
        executor::announce();
    },
};

/// The number of the layout of the shared words. Every change of their layout or meaning must
/// increase the number.
const LAYOUT: u64 = 8;

/// The time limit for a process to answer another process that connects to it.
pub(super) const ANSWER: Duration = Duration::from_secs(20);

/// A rank of another process that takes part in a gathering of this process.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(super) peer: Arc<Peer>,
    pub(super) seat: Seat,
}

/// The role of other processes in a gathering.
#[derive(Default)]
pub(super) enum Side {
    /// Other processes have no role: all ranks are in this process.
    #[default]
    Local,
    /// This process decides. The fields are the number of the root info, and the communicator while
    /// it is being made.
    Home(u64, Option<Forming>),
    /// Another process decides.
    Away(Away),
}

/// A communicator that not all processes have made yet.
pub(super) struct Forming {
    pub(super) comm: Arc<Comm>,
    pub(super) waits_for: BTreeSet<Home>,
}

/// The image of a gathering whose home is another process.
pub(super) struct Away {
    root: u64,
    /// The address of the home. It is not a [`Peer`], because an image outlives its communicator.
    pub(super) home: Home,
    /// The ranks that have come, as the home reports them.
    pub(super) here: BTreeSet<u32>,
    /// The ranks in the home process that have come.
    pub(super) at_home: BTreeSet<u32>,
    /// Ranks of this process that were refused.
    pub(super) refused: BTreeMap<u32, Failure>,
    /// The formation that a waiting thread must still carry out, with the file of the shared words.
    pub(super) formation: Option<(Formation, OwnedFd)>,
    pub(super) made: Option<Arc<Comm>>,
}

/// The images of gatherings of other processes, by home and number, until they are over.
static IMAGES: Mutex<BTreeMap<(Home, u64), Shared>> = Mutex::new(BTreeMap::new());

/// Returns the image of a gathering of another process, and makes the image if there is none.
/// `rank` is `None` for a root info. For a rank table, it is a rank that the other process has in
/// the gathering. Waits for the answer of that process, for at most the shorter of `limit` and
/// [`ANSWER`]. The error says why the process cannot be reached.
pub(super) fn image(
    home: &Home,
    root: u64,
    rank: Option<u32>,
    limit: Duration,
) -> Result<Shared, String> {
    listener::reach(home, HEARS, limit.min(ANSWER))?;
    let mut images = lock(&IMAGES);
    images.retain(|_, image| !lock(image).is_over());
    let new = || {
        let side = Side::Away(Away {
            root,
            home: *home,
            here: BTreeSet::new(),
            at_home: rank.into_iter().collect(),
            refused: BTreeMap::new(),
            formation: None,
            made: None,
        });
        Arc::new(Mutex::new(match rank {
            Some(_) => Gathering::of_a_table(side),
            None => Gathering::new(side),
        }))
    };
    Ok(Arc::clone(images.entry((*home, root)).or_insert_with(new)))
}

/// Returns the image of a gathering of another process, if this process has one.
pub(super) fn known_image(home: &Home, root: u64) -> Option<Shared> {
    lock(&IMAGES).get(&(*home, root)).cloned()
}

pub(super) fn say(
    peer: &Peer,
    root: u64,
    from_home: bool,
    news: RootNews,
    file: Option<Arc<OwnedFd>>,
) {
    let bytes = as_bytes(&News::Root { root, from_home, news });
    peer.say(&bytes, file.into_iter().collect());
}

/// Sends news to the process of a root info, if that process is not gone.
fn say_home(home: &Home, root: u64, news: RootNews) {
    if let Some(peer) = listener::find(home) {
        say(&peer, root, false, news, None);
    }
}

impl Away {
    pub(super) fn say(&self, news: RootNews) {
        say_home(&self.home, self.root, news);
    }
}

impl Side {
    /// Drops the communicator that was being made, or the formation that was still to be carried
    /// out. Called when the gathering is decided.
    pub(super) fn let_go(&mut self) {
        match self {
            Self::Local => {}
            Self::Home(_, forming) => *forming = None,
            Self::Away(away) => (away.formation, away.made) = (None, None),
        }
    }
}

pub(super) fn seat_of(device: u32, settings: &Settings) -> Seat {
    let addresses = machine::device_slot(device).memory.addresses();
    let nominal = window::reserved().map_or(0, |windows| windows.nominal);
    let start = addresses.start.saturating_sub(nominal);
    let card = device.saturating_sub(settings.first);
    Seat { card, start, bytes: addresses.len(), checked: settings.checked }
}

impl Applicant {
    /// Returns whether the applicant is a rank of the process `peer`.
    pub(super) fn is_of(&self, peer: &Peer) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.peer.home == peer.home)
    }
}

impl Gathering {
    /// Returns the number of an applicant's device among those of its program.
    pub(super) fn card_of(applicant: &Applicant) -> u32 {
        match &applicant.guest {
            Some(guest) => guest.seat.card,
            None => applicant.device.saturating_sub(applicant.settings.first),
        }
    }

    /// Reports to the home that a rank of this process has come to the image. If the home has ended
    /// in the meantime, fails the image, so that no rank waits for the home.
    pub(super) fn announce_to_home(&mut self, applicant: &Applicant) {
        let Side::Away(Away { home, root, .. }) = self.side else { return };
        let Some(peer) = listener::find(&home) else {
            return self.lose_home(&home, &format!("process {} has ended", home.process));
        };
        let Applicant { rank, ranks, device, settings, config, .. } = applicant;
        let newcomer = Newcomer {
            rank: *rank,
            ranks: *ranks,
            seat: seat_of(*device, settings),
            product: settings.product,
            connect_timeout: settings.connect_timeout,
            name: config.name.clone(),
            buffer_megabytes: config.buffer_megabytes,
        };
        say(&peer, root, false, RootNews::Enter(newcomer), None);
    }

    fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.applicants.values().filter_map(|applicant| applicant.guest.as_ref())
    }

    /// Returns the processes of the guests, each once.
    pub(super) fn guest_processes(&self) -> Vec<Arc<Peer>> {
        let mut found: Vec<Arc<Peer>> = Vec::new();
        for Guest { peer, .. } in self.guests() {
            if !found.iter().any(|known| known.home == peer.home) {
                found.push(Arc::clone(peer));
            }
        }
        found
    }

    pub(super) fn has_guests(&self) -> bool {
        self.guests().next().is_some()
    }

    /// Reports to the guests which ranks have come.
    pub(super) fn tell_who_is_here(&self) {
        let Side::Home(root, _) = self.side else { return };
        let here: Vec<u32> = self.applicants.keys().copied().collect();
        let own = self.applicants.values().filter(|one| one.guest.is_none());
        let at_home: Vec<u32> = own.map(|one| one.rank).collect();
        for peer in self.guest_processes() {
            let (here, at_home) = (here.clone(), at_home.clone());
            let news = RootNews::Here { ranks: self.ranks, here, at_home };
            say(&peer, root, true, news, None);
        }
    }

    /// Reports the failure of the gathering to the other processes. If this process has made its
    /// side of the communicator already, its ranks leave that communicator.
    pub(super) fn tell_failure(&self) {
        let Some(Err(error)) = &self.outcome else { return };
        match &self.side {
            Side::Local => {}
            Side::Home(root, _) => {
                for peer in self.guest_processes() {
                    say(&peer, *root, true, RootNews::Failed((**error).clone()), None);
                }
            }
            Side::Away(away) => {
                away.say(RootNews::Failed((**error).clone()));
                // Ranks of other processes may have gone on with the communicator.
                for (comm, rank) in away
                    .made
                    .iter()
                    .flat_map(|comm| self.applicants.keys().map(move |rank| (comm, *rank as usize)))
                {
                    comm.leave(rank, "it could not join".into());
                }
            }
        }
    }

    /// Notes that a process has made its side. When all processes have made their sides, all ranks
    /// go on.
    fn ready(&mut self, home: &Home) {
        let Side::Home(root, forming) = &mut self.side else { return };
        let root = *root;
        let Some(known) = forming else { return };
        known.waits_for.remove(home);
        if known.waits_for.is_empty()
            && self.outcome.is_none()
            && let Some(Forming { comm, .. }) = forming.take()
        {
            // A rank that has gone on may come for the next communicator at once.
            self.rendezvous = None;
            for peer in self.guest_processes() {
                say(&peer, root, true, RootNews::Go, None);
            }
            self.go(comm);
        }
    }
}

/// Handles a frame from another process.
fn hear(from: &Arc<Peer>, frame: Frame) {
    match serde_json::from_slice::<News>(&frame.bytes) {
        Ok(News::Still(news)) => return stillness::hear(from, news),
        Ok(News::Comm { comm, news }) => {
            joint::hear(from, comm, news, frame.files.into_iter().next());
        }
        Ok(News::Endpoint(news)) => {
            endpoint_news::hear(from, news, frame.files.into_iter().next());
        }
        Ok(News::Root { root, from_home: false, news }) => hear_at_home(from, root, news),
        Ok(News::Root { root, from_home: true, news }) => {
            if let Some(image) = known_image(&from.home, root) {
                hear_from_home(&mut lock(&image), news, frame.files.into_iter().next());
            }
        }
        Err(_) => ipc::hear(from, frame),
    }
    executor::announce();
    from.note_heard();
}

/// Handles news from another process about a root info of this process.
fn hear_at_home(from: &Arc<Peer>, number: u64, news: RootNews) {
    match news {
        RootNews::Enter(newcomer) => {
            let rank = newcomer.rank;
            attempt::begin();
            if let Err(failure) = root::enter_guest(number, from, newcomer) {
                let (code, text) = failure.in_hccl();
                let refused = RootNews::Refused { rank, code: code.0, text: text.to_string() };
                // If the communicator cannot be made at all, the guest gets the error that names
                // the ranks at fault.
                let news = attempt::last().map_or(refused, |it| RootNews::Failed((*it).clone()));
                say(from, number, true, news, None);
            }
        }
        RootNews::Failed(error) => root::with_gathering(number, |gathering| {
            let has_ranks = gathering.applicants.values().any(|applicant| applicant.is_of(from));
            if gathering.outcome.is_none() && has_ranks {
                gathering.end(error);
            }
        }),
        RootNews::Ready => root::with_gathering(number, |gathering| gathering.ready(&from.home)),
        RootNews::Leaves { rank, why } => root::with_gathering(number, |gathering| {
            // A process may only speak for a rank that has come from it.
            let is_theirs = match gathering.applicants.get(&rank) {
                Some(applicant) => applicant.is_of(from),
                None => gathering.applicants.values().any(|applicant| applicant.is_of(from)),
            };
            if is_theirs {
                gathering.give_up_on([rank], &why);
            }
        }),
        RootNews::Here { .. } | RootNews::Refused { .. } | RootNews::Formed(_) | RootNews::Go => {}
    }
}

/// Handles news from the home of a gathering. `gathering` is this process's image of it.
fn hear_from_home(gathering: &mut Gathering, news: RootNews, file: Option<OwnedFd>) {
    if gathering.outcome.is_some() {
        return;
    }
    let Side::Away(away) = &mut gathering.side else { return };
    match news {
        RootNews::Here { ranks, here, at_home } => {
            away.here = here.into_iter().collect();
            away.at_home = at_home.into_iter().collect();
            gathering.ranks = ranks.min(MAX_DEVICES);
        }
        RootNews::Refused { rank, code, text } => {
            let code = ascend_sys::HcclResult(code);
            away.refused.insert(rank, Failure::new(code, text));
            gathering.drop_applicant(rank);
        }
        RootNews::Failed(error) => gathering.end(error),
        RootNews::Formed(formation) if formation.is_sound() => {
            away.formation = file.map(|file| (formation, file));
        }
        RootNews::Go => {
            if let Some(comm) = away.made.take() {
                gathering.go(comm);
            }
        }
        RootNews::Formed(_) | RootNews::Enter(_) | RootNews::Ready | RootNews::Leaves { .. } => {}
    }
}

/// Gives up on the ranks of this process on these devices, in every gathering that has a number and
/// in every image. The only gatherings without a number are those of ranks of another block that
/// bring the same rank table; `cluster::leave` handles them.
pub(super) fn leave(devices: &Range<u32>, why: &str) {
    root::with_all(|gathering| gathering.leave(devices, why));
    let images: Vec<Shared> = lock(&IMAGES).values().cloned().collect();
    images.iter().for_each(|image| lock(image).leave(devices, why));
}

/// Reports to the home of a root info that a rank of this process will not come.
pub(super) fn tell_leave(home: &Home, root: u64, rank: u32, why: &str) {
    say_home(home, root, RootNews::Leaves { rank, why: why.to_owned() });
}

/// Handles the loss of a process.
fn lose(lost: &Arc<Peer>, why: &str) {
    stillness::lose(lost);
    ipc::lose(lost);
    joint::lose(lost, why);
    endpoint_news::lose(lost, why);
    root::with_all(|gathering| gathering.lose_guests(lost, why));
    let images: Vec<Shared> = lock(&IMAGES).values().cloned().collect();
    for image in images {
        lock(&image).lose_home(&lost.home, why);
    }
    lock(&IMAGES).retain(|_, image| !lock(image).is_over());
    executor::announce();
}
