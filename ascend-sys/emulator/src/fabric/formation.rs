//! Makes a communicator in all of its processes, when all ranks are known.
//!
//! The process that decides makes the words that all processes will share, and sends the others the
//! place of each rank. Each process connects to those that it is not connected to, maps the device
//! memory of the others, makes its own side, and reports this. See [`between`](super::between).

use std::sync::Arc;

use super::between::{ANSWER, Forming, Guest, HEARS, Side, say, seat_of};
use super::comm::Comm;
use super::gathering::{Applicant, Gathering, Shared};
use super::joint::{Abroad, Joint};
use super::news::{Formation, RootNews, Seat};
use super::place::DevicePlace;
use crate::collective::comm_error::Cause;
use crate::executor;
use crate::machine::MAX_DEVICES;
use crate::processes::listener;
use crate::processes::peer::{Peer, random};
use crate::processes::region::{Ground, SharedMemory};
use ascend_sync::lock_std as lock;

impl Gathering {
    /// Begins to make the communicator. All ranks have come, some of them from other processes.
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
        formation.bytes = Comm::measure(|ground| formation.comm(ground));
        let memory = SharedMemory::new(formation.bytes)
            .map_err(|e| format!("cannot make {} bytes of shared memory: {e}", formation.bytes))?;
        Ok((formation, memory))
    }

    /// Makes this process's side of a communicator. `processes` holds the processes in the order of
    /// the formation, with `None` for this process.
    fn make_side(
        &self,
        formation: &Formation,
        memory: SharedMemory,
        processes: &[Option<Arc<Peer>>],
    ) -> Result<Arc<Comm>, String> {
        let ground = Ground::shared(Arc::new(memory));
        let mut comm = formation.comm(&ground);
        if Comm::measure(|ground| formation.comm(ground)) > formation.bytes {
            return Err("the processes disagree about the size of their shared memory; run the \
                        same build of the emulator in all of them"
                .into());
        }
        let own = self.applicants.values().find(|applicant| applicant.guest.is_none());
        let block = own.map_or(0, |own| own.settings.block);
        let (mut abroad, mut places) = (Vec::new(), Vec::new());
        for (rank, (process, seat)) in (0..).zip(&formation.ranks) {
            let Some(process) = processes.get(*process) else {
                return Err(format!(
                    "rank {rank} has no process in the formation; run the same build of the \
                     emulator in all processes"
                ));
            };
            let applicant = self.applicants.get(&rank).filter(|one| one.guest.is_none());
            let device = applicant.map_or(u32::MAX, |applicant| applicant.device);
            if process.is_none() != applicant.is_some() {
                return Err(format!(
                    "the processes disagree about which of them has rank {rank}; start all ranks \
                     again"
                ));
            }
            places.push(DevicePlace { device, block, index: seat.card });
            abroad.push(match process {
                None => None,
                Some(peer) => {
                    let memory = peer.memory(seat.start, seat.bytes).map_err(|e| {
                        format!(
                            "the device memory of rank {rank}, {} bytes of process {}, cannot be \
                             mapped: {e}. Check the limits on address space and open files \
                             (ulimit -v, ulimit -n)",
                            seat.bytes, peer.home.process
                        )
                    })?;
                    Some(Abroad { peer: Arc::clone(peer), memory, checked: seat.checked })
                }
            });
        }
        comm.joint = Some(Joint::new(formation.key, abroad, ground.rest()));
        let comm = Arc::new(comm.on(places.into()).of_a_table(self.by_table));
        comm.publish();
        Ok(comm)
    }
}

impl Formation {
    /// Makes the communicator, without the connections to ranks in other processes.
    fn comm(&self, ground: &Ground) -> Comm {
        let ranks = self.ranks.len();
        Comm::new_on(ground, self.name.clone(), self.product, self.connect_timeout, ranks)
    }

    /// Returns whether the formation is consistent, as far as this process can see.
    pub(super) fn is_sound(&self) -> bool {
        let within = |(process, _): &(usize, Seat)| *process < self.processes.len();
        (1..=MAX_DEVICES as usize).contains(&self.ranks.len()) && self.ranks.iter().all(within)
    }
}

/// Makes this process's side of a communicator, if a formation has arrived and no other thread is
/// making it. Threads that wait in the gathering call this. May wait for the answer of another
/// process.
pub(super) fn advance(shared: &Shared) {
    let taken = match &mut lock(shared).side {
        Side::Away(away) => away.formation.take(),
        _ => None,
    };
    let Some((formation, file)) = taken else { return };
    let made = match meet_processes(&formation) {
        Ok(None) => Ok(Err((formation, file))),
        Ok(Some(processes)) => SharedMemory::map(file, 0, formation.bytes)
            .map_err(|e| e.to_string())
            .and_then(|memory| lock(shared).make_side(&formation, memory, &processes).map(Ok)),
        Err(Unmet { process, why }) => {
            let mut gathering = lock(shared);
            if gathering.outcome.is_none() {
                gathering.give_up_on_process(&formation, process, &why);
                executor::announce();
            }
            return;
        }
    };
    let mut gathering = lock(shared);
    if gathering.outcome.is_some() {
        return;
    }
    let Side::Away(away) = &mut gathering.side else { return };
    match made {
        Ok(Ok(comm)) => {
            away.made = Some(comm);
            away.say(RootNews::Ready);
        }
        // Another process has not connected yet.
        Ok(Err(again)) => away.formation = Some(again),
        Err(text) => {
            gathering.fail(Cause::Gone, cannot_be_made(&text));
            executor::announce();
        }
    }
}

/// A process that this process could not connect to, by its number in the formation. The number is
/// `usize::MAX` if this process cannot listen to other processes at all.
struct Unmet {
    process: usize,
    why: String,
}

/// Connects to all processes of a communicator. Returns them in the order of the formation, with
/// `None` for this process. Of two processes that are not connected yet, the one with the greater
/// address connects to the other. The outer `None` means that a process that must connect to this
/// one has not done so yet.
fn meet_processes(formation: &Formation) -> Result<Option<Vec<Option<Arc<Peer>>>>, Unmet> {
    let unmet = |process: usize| move |why: String| Unmet { process, why };
    let own = listener::open(HEARS).map_err(unmet(usize::MAX))?;
    let mut found = Vec::with_capacity(formation.processes.len());
    for (process, home) in formation.processes.iter().enumerate() {
        found.push(if *home == own {
            None
        } else if let Some(peer) = listener::find(home) {
            Some(peer)
        } else if own > *home {
            let limit = formation.connect_timeout.min(ANSWER);
            Some(listener::reach(home, HEARS, limit).map_err(unmet(process))?)
        } else {
            return Ok(None);
        });
    }
    Ok(Some(found))
}

pub(super) fn cannot_be_made(why: &str) -> String {
    format!("EI0015: the communicator cannot be made: {why}")
}
