//! Gatherings whose ranks come from several processes.
//!
//! The process that has made the root info decides: ranks of other processes come to it as guests, it compares what all say, and when all are
//! there it makes the words that they will share and tells every process who sits where. Each then maps the device memory of the others, makes its own side of the communicator
//! and says so; when all have, the ranks go on. So nobody goes on with a communicator that another process could not make.
//!
//! The other processes have an image of the gathering, in which their own ranks wait.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::comm::Comm;
use super::gathering::{Applicant, Gathering, Shared};
use super::joint::{Abroad, Joint};
use super::news::{Formation, Newcomer, News, RootNews, Seat};
use super::place::DevicePlace;
use super::{joint, root};
use crate::collective::comm_error::Cause;
use crate::executor;
use crate::machine::{self, MAX_DEVICES, Settings};
use crate::memory::window;
use crate::message::Failure;
use crate::processes::line::Frame;
use crate::processes::listener::{self, Hears, as_bytes};
use crate::processes::peer::{Home, Peer, random};
use crate::processes::region::{Ground, SharedMemory};
use ascend_sync::lock_std as lock;

/// What this process does about what others say.
pub(super) const HEARS: Hears = Hears {
    layout: LAYOUT,
    said: hear,
    lost: lose,
    rung: || {
        joint::wake_own();
        executor::announce();
    },
};

/// Changes whenever two builds could mean something else by the words that they share. To be counted up with any change of them.
const LAYOUT: u64 = 1;

/// So long a process has for answering one that comes to it.
const ANSWER: Duration = Duration::from_secs(20);

/// A rank of another process, at the process of the root info.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(super) peer: Arc<Peer>,
    pub(super) seat: Seat,
}

/// What a gathering has to do with other processes.
#[derive(Default)]
pub(super) enum Side {
    /// Nothing: its ranks are in this one.
    #[default]
    Local,
    /// This one decides. Under the number of the root info.
    Home(u64, Option<Forming>),
    /// Another one does.
    Away(Away),
}

/// A communicator that not all processes have made yet.
pub(super) struct Forming {
    comm: Arc<Comm>,
    waits_for: BTreeSet<Home>,
}

/// The image of a gathering.
pub(super) struct Away {
    root: u64,
    home: Arc<Peer>,
    /// The ranks that are there, as the home says.
    pub(super) here: BTreeSet<u32>,
    /// Ranks of this process that were not taken.
    pub(super) refused: BTreeMap<u32, Failure>,
    /// To be made, by one of those who wait.
    formation: Option<(Formation, OwnedFd)>,
    made: Option<Arc<Comm>>,
}

/// The images of gatherings elsewhere that are not over.
static IMAGES: Mutex<BTreeMap<(Home, u64), Shared>> = Mutex::new(BTreeMap::new());

/// The gathering of a root info of another process. The error says why that one cannot be reached.
pub(super) fn image(home: &Home, root: u64, limit: Duration) -> Result<Shared, String> {
    let peer = listener::reach(home, HEARS, limit.min(ANSWER))?;
    let mut images = lock(&IMAGES);
    images.retain(|_, image| !lock(image).is_over());
    let new = || {
        let away = Away {
            root,
            home: peer,
            here: BTreeSet::new(),
            refused: BTreeMap::new(),
            formation: None,
            made: None,
        };
        Arc::new(Mutex::new(Gathering::new(Side::Away(away))))
    };
    Ok(Arc::clone(images.entry((*home, root)).or_insert_with(new)))
}

/// The same, if ranks of this process are in it.
pub(super) fn known_image(home: &Home, root: u64) -> Option<Shared> {
    lock(&IMAGES).get(&(*home, root)).cloned()
}

fn say(peer: &Peer, root: u64, from_home: bool, news: RootNews, file: Option<Arc<OwnedFd>>) {
    let bytes = as_bytes(&News::Root { root, from_home, news });
    peer.say(&bytes, file.into_iter().collect());
}

fn seat_of(device: u32, settings: &Settings) -> Seat {
    let addresses = machine::device_slot(device).memory.addresses();
    let nominal = window::reserved().map_or(0, |windows| windows.nominal);
    let start = addresses.start.saturating_sub(nominal);
    Seat { card: device.saturating_sub(settings.first), start, bytes: addresses.len() }
}

impl Gathering {
    /// The number of an applicant's device among those of its program.
    pub(super) fn card_of(applicant: &Applicant) -> u32 {
        match &applicant.guest {
            Some(guest) => guest.seat.card,
            None => applicant.device.saturating_sub(applicant.settings.first),
        }
    }

    /// A rank of this process has come to an image: the home is told.
    pub(super) fn announce_to_home(&self, applicant: &Applicant) {
        let Side::Away(Away { root, home, .. }) = &self.side else { return };
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
        say(home, *root, false, RootNews::Enter(newcomer), None);
    }

    fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.applicants.values().filter_map(|applicant| applicant.guest.as_ref())
    }

    /// The processes of the guests, each once.
    fn guest_processes(&self) -> Vec<Arc<Peer>> {
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

    /// Tells the guests who is there.
    pub(super) fn tell_who_is_here(&self) {
        let Side::Home(root, _) = self.side else { return };
        let here: Vec<u32> = self.applicants.keys().copied().collect();
        for peer in self.guest_processes() {
            let news = RootNews::Here { ranks: self.ranks, here: here.clone() };
            say(&peer, root, true, news, None);
        }
    }

    /// It has failed: the other processes are told.
    pub(super) fn tell_failure(&self) {
        let Some(Err(error)) = &self.outcome else { return };
        match &self.side {
            Side::Local => {}
            Side::Home(root, _) => {
                for peer in self.guest_processes() {
                    say(&peer, *root, true, RootNews::Failed((**error).clone()), None);
                }
            }
            Side::Away(Away { root, home, made, .. }) => {
                say(home, *root, false, RootNews::Failed((**error).clone()), None);
                // Others may have gone on with it.
                for (comm, rank) in made
                    .iter()
                    .flat_map(|comm| self.applicants.keys().map(move |rank| (comm, *rank as usize)))
                {
                    comm.leave(rank, "it could not join".into());
                }
            }
        }
    }

    /// All are there, some of them from other processes.
    pub(super) fn form_between(&mut self, name: String, first: &Applicant) {
        let Side::Home(root, _) = self.side else { return };
        let formed = self.formation(name, first).and_then(|(formation, memory)| {
            let file = memory.file().try_clone().map_err(|e| e.to_string())?;
            let peers = self.guest_processes();
            let mut all = vec![None];
            all.extend(peers.iter().cloned().map(Some));
            let comm = self.make_side(&formation, memory, &all)?;
            Ok((formation, Arc::new(file), peers, comm))
        });
        match formed {
            Ok((formation, file, peers, comm)) => {
                let waits_for = peers.iter().map(|peer| peer.home).collect();
                self.side = Side::Home(root, Some(Forming { comm, waits_for }));
                for peer in peers {
                    let news = RootNews::Formed(formation.clone());
                    say(&peer, root, true, news, Some(Arc::clone(&file)));
                }
            }
            Err(text) => drop(self.fail(Cause::Gone, cannot_be_made(&text))),
        }
    }

    fn formation(
        &self,
        name: String,
        first: &Applicant,
    ) -> Result<(Formation, SharedMemory), String> {
        let own = listener::open(HEARS)?;
        let mut processes = vec![own];
        processes.extend(self.guest_processes().iter().map(|peer| peer.home));
        let seat = |applicant: &Applicant| match &applicant.guest {
            None => (0, seat_of(applicant.device, &applicant.settings)),
            Some(Guest { peer, seat }) => {
                let process = processes.iter().position(|home| *home == peer.home);
                (process.unwrap_or_default(), *seat)
            }
        };
        let ranks: Vec<(usize, Seat)> = self.applicants.values().map(seat).collect();
        let mut formation = Formation {
            key: random(),
            name,
            product: first.settings.product,
            connect_timeout: first.settings.connect_timeout,
            processes,
            ranks,
            bytes: 0,
        };
        formation.bytes = Ground::measure(|ground| formation.comm(ground));
        let memory = SharedMemory::new(formation.bytes)
            .map_err(|e| format!("there is no memory to share, {} bytes: {e}", formation.bytes))?;
        Ok((formation, memory))
    }

    /// This process's side of a communicator. Its processes, in the order of the formation; `None` for this one.
    fn make_side(
        &self,
        formation: &Formation,
        memory: SharedMemory,
        processes: &[Option<Arc<Peer>>],
    ) -> Result<Arc<Comm>, String> {
        let ground = Ground::shared(Arc::new(memory));
        let mut comm = formation.comm(&ground);
        if ground.bytes() > formation.bytes {
            return Err("the processes disagree about the size of what they share".into());
        }
        let own = self.applicants.values().find(|applicant| applicant.guest.is_none());
        let block = own.map_or(0, |own| own.settings.block);
        let (mut abroad, mut places) = (Vec::new(), Vec::new());
        for (rank, (process, seat)) in (0..).zip(&formation.ranks) {
            let Some(process) = processes.get(*process) else {
                return Err(format!("rank {rank} is in no process"));
            };
            let applicant = self.applicants.get(&rank).filter(|one| one.guest.is_none());
            let device = applicant.map_or(u32::MAX, |applicant| applicant.device);
            if process.is_none() != applicant.is_some() {
                return Err(format!("the processes disagree about where rank {rank} is"));
            }
            places.push(DevicePlace { device, block, index: seat.card });
            abroad.push(match process {
                None => None,
                Some(peer) => {
                    let memory = peer.memory(seat.start, seat.bytes).map_err(|e| {
                        format!(
                            "the device memory of rank {rank}, {} bytes of process {}, cannot be mapped: {e}",
                            seat.bytes, peer.home.process
                        )
                    })?;
                    Some(Abroad { peer: Arc::clone(peer), memory })
                }
            });
        }
        comm.joint = Some(Joint::new(formation.key, abroad));
        let comm = Arc::new(comm.on(places.into()));
        comm.publish();
        Ok(comm)
    }

    /// A process has made its side.
    fn ready(&mut self, home: &Home) {
        let Side::Home(root, forming) = &mut self.side else { return };
        let root = *root;
        let Some(known) = forming else { return };
        known.waits_for.remove(home);
        if known.waits_for.is_empty()
            && self.outcome.is_none()
            && let Some(Forming { comm, .. }) = forming.take()
        {
            for peer in self.guest_processes() {
                say(&peer, root, true, RootNews::Go, None);
            }
            self.go(comm);
        }
    }

    /// The ranks of a process cannot come any more.
    fn lose_guests(&mut self, lost: &Peer, why: &str) {
        let theirs = |applicant: &&Applicant| {
            applicant.guest.as_ref().is_some_and(|guest| guest.peer.home == lost.home)
        };
        let ranks: Vec<u32> =
            self.applicants.values().filter(theirs).map(|applicant| applicant.rank).collect();
        if self.outcome.is_none() && !ranks.is_empty() {
            self.gone.extend(ranks.into_iter().map(|rank| (rank, why.to_owned())));
            self.give_up_on_the_gone();
        }
    }
}

fn cannot_be_made(why: &str) -> String {
    format!("EI0015: the communicator cannot be made: {why}")
}

impl Formation {
    /// The communicator, without its ranks elsewhere.
    fn comm(&self, ground: &Ground) -> Comm {
        let ranks = self.ranks.len();
        Comm::new_on(ground, self.name.clone(), self.product, self.connect_timeout, ranks)
    }

    /// Whether it is one, as far as can be seen.
    fn is_sound(&self) -> bool {
        let within = |(process, _): &(usize, Seat)| *process < self.processes.len();
        (1..=MAX_DEVICES as usize).contains(&self.ranks.len()) && self.ranks.iter().all(within)
    }
}

/// Makes this process's side of a communicator, if that is to be done and another thread is not at it. Called by those who wait; may wait for the answer of
/// another process.
pub(super) fn advance(shared: &Shared) {
    let taken = match &mut lock(shared).side {
        Side::Away(away) => away.formation.take(),
        _ => None,
    };
    let Some((formation, file)) = taken else { return };
    let made = meet_processes(&formation).and_then(|processes| match processes {
        None => Ok(Err((formation, file))),
        Some(processes) => {
            let memory = SharedMemory::map(file, 0, formation.bytes).map_err(|e| e.to_string())?;
            lock(shared).make_side(&formation, memory, &processes).map(Ok)
        }
    });
    let mut gathering = lock(shared);
    if gathering.outcome.is_some() {
        return;
    }
    let Side::Away(away) = &mut gathering.side else { return };
    match made {
        Ok(Ok(comm)) => {
            away.made = Some(comm);
            say(&away.home, away.root, false, RootNews::Ready, None);
        }
        // Another process is still on its way.
        Ok(Err(again)) => away.formation = Some(again),
        Err(text) => {
            gathering.fail(Cause::Gone, cannot_be_made(&text));
            executor::announce();
        }
    }
}

/// All processes of a communicator. Of two that do not know each other one goes to the other; `None` while one is still to come.
fn meet_processes(formation: &Formation) -> Result<Option<Vec<Option<Arc<Peer>>>>, String> {
    let own = listener::open(HEARS)?;
    let mut found = Vec::with_capacity(formation.processes.len());
    for home in &formation.processes {
        found.push(if *home == own {
            None
        } else if let Some(peer) = listener::find(home) {
            Some(peer)
        } else if own > *home {
            Some(listener::reach(home, HEARS, formation.connect_timeout.min(ANSWER))?)
        } else {
            return Ok(None);
        });
    }
    Ok(Some(found))
}

/// A process says something.
fn hear(from: &Arc<Peer>, frame: Frame) {
    let Ok(news) = serde_json::from_slice::<News>(&frame.bytes) else { return };
    let file = frame.files.into_iter().next();
    match news {
        News::Comm { comm, news } => joint::hear(from, comm, news, file),
        News::Root { root, from_home: false, news } => hear_at_home(from, root, news),
        News::Root { root, from_home: true, news } => {
            if let Some(image) = known_image(&from.home, root) {
                hear_from_home(&mut lock(&image), news, file);
            }
        }
    }
    executor::announce();
}

/// A process speaks of a root info of this one.
fn hear_at_home(from: &Arc<Peer>, number: u64, news: RootNews) {
    match news {
        RootNews::Enter(newcomer) => {
            let rank = newcomer.rank;
            if let Err(failure) = root::enter_guest(number, from, newcomer) {
                let (code, text) = failure.in_hccl();
                let (code, text) = (code.0, text.to_string());
                say(from, number, true, RootNews::Refused { rank, code, text }, None);
            }
        }
        RootNews::Failed(error) => root::with_gathering(number, |gathering| {
            if gathering.outcome.is_none() && gathering.guests().any(|it| it.peer.home == from.home)
            {
                gathering.end(error);
            }
        }),
        RootNews::Ready => root::with_gathering(number, |gathering| gathering.ready(&from.home)),
        RootNews::Leaves { rank, why } => root::with_gathering(number, |gathering| {
            let is_theirs = gathering.guests().any(|guest| guest.peer.home == from.home);
            if gathering.outcome.is_none() && is_theirs {
                gathering.gone.insert(rank, why);
                gathering.give_up_on_the_gone();
            }
        }),
        RootNews::Here { .. } | RootNews::Refused { .. } | RootNews::Formed(_) | RootNews::Go => {}
    }
}

/// The process of a root info speaks of it.
fn hear_from_home(gathering: &mut Gathering, news: RootNews, file: Option<OwnedFd>) {
    if gathering.outcome.is_some() {
        return;
    }
    let Side::Away(away) = &mut gathering.side else { return };
    match news {
        RootNews::Here { ranks, here } => {
            away.here = here.into_iter().collect();
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

/// Tells the process of a root info that a rank of this one will not come.
pub(super) fn tell_leave(home: &Home, root: u64, rank: u32, why: &str) {
    if let Some(peer) = listener::find(home) {
        say(&peer, root, false, RootNews::Leaves { rank, why: why.to_owned() }, None);
    }
}

/// A process is gone.
fn lose(lost: &Arc<Peer>, why: &str) {
    joint::lose(lost, why);
    root::with_all(|gathering| gathering.lose_guests(lost, why));
    let images: Vec<Shared> = lock(&IMAGES).values().cloned().collect();
    for image in images {
        let mut gathering = lock(&image);
        let is_home = matches!(&gathering.side, Side::Away(away) if away.home.home == lost.home);
        if is_home && gathering.outcome.is_none() {
            let text = format!(
                "EI0015: {why}, which has made the root info, so the communicator cannot be made"
            );
            gathering.fail(Cause::Gone, text);
        }
    }
    lock(&IMAGES).retain(|_, image| !lock(image).is_over());
    executor::announce();
}
