//! Brings the ranks of a new communicator together by a root info that one of them has made.
//!
//! A root info serves one communicator. Every rank brings it, and waits until [all ranks have
//! brought it](super::gathering). The ranks may be in several processes: see
//! [`between`](super::between).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::between::{self, Guest, HEARS, Side};
use super::config::CommConfig;
use super::gathering::{Applicant, Entered, Gathering, Shared, WORLD};
use super::news::Newcomer;
use super::root_info::{ROOT_INFO, decode, encode};
use crate::executor;
use crate::machine::{MAX_DEVICES, Settings};
use crate::message::{Failure, refuse};
use crate::processes::listener;
use crate::processes::peer::Peer;
use ascend_sync::lock_std as lock;

static ROOTS: Mutex<Roots> = Mutex::new(Roots::new());

/// The root infos of this process. A root info that no rank has brought takes no memory.
struct Roots {
    /// The gatherings to which ranks have come. Those that are over are removed from time to time.
    open: BTreeMap<u64, Shared>,
    /// The number of open gatherings at which those that are over are removed.
    look_at: usize,
    /// A bit for each number, up to the largest number that a rank has brought. The bit is set if a
    /// rank has brought that root info.
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

    /// Returns the gathering of a root info, and makes the gathering at the first call. `None` if
    /// the root info was never made, or if its gathering was over and was removed.
    fn gathering(&mut self, number: u64) -> Option<Shared> {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number == 0 || number > self.made {
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
        let new = || Arc::new(Mutex::new(Gathering::new(Side::Home(number, None))));
        Some(self.open.entry(number).or_insert_with(new).clone())
    }
}

/// Makes a root info. From now on, other processes can connect to this one.
pub(crate) fn create() -> Result<[u8; ROOT_INFO], Failure> {
    match listener::open(HEARS) {
        Ok(home) => Ok(encode(&home, lock(&ROOTS).make())),
        Err(text) => refuse!(HCCL_E_TCP_CONNECT, "EI0015: {text}; check ulimit -n and -u"),
    }
}

/// Makes a gathering of ranks that have a rank table. Returns it with the number by which other
/// processes identify it. This process decides.
pub(super) fn of_a_table() -> (u64, Shared) {
    let mut roots = lock(&ROOTS);
    let number = roots.make();
    // No rank has brought the number yet, so the gathering is a new one.
    let gathering = roots.gathering(number).unwrap_or_default();
    lock(&gathering).by_table = true;
    (number, gathering)
}

/// Returns the number and the gathering of a root info. If another process made it, waits for that
/// process, for at most `limit`.
fn find(info: &[u8; ROOT_INFO], rank: u32, limit: Duration) -> Result<(u64, Shared), Failure> {
    let Some((home, number)) = decode(info) else {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: this is not a root info of HcclGetRootInfo, or it is damaged; pass all of \
             its {ROOT_INFO} bytes"
        );
    };
    let found = match listener::open(HEARS) {
        Ok(own) if own == home => lock(&ROOTS).gathering(number),
        Ok(_) => match between::image(&home, number, None, limit) {
            Ok(image) => Some(image),
            Err(why) => {
                return refuse!(
                    HCCL_E_REMOTE,
                    "EI0015: rank {rank} cannot reach the process of its root info: {why}. Keep \
                     that process running until all ranks have joined"
                );
            }
        },
        Err(text) => return refuse!(HCCL_E_TCP_CONNECT, "EI0015: {text}; check ulimit -n and -u"),
    };
    match found {
        Some(root) => Ok((number, root)),
        None => refuse!(
            HCCL_E_PARA,
            "EI0015: the root info has already made its communicator; make another with \
             HcclGetRootInfo"
        ),
    }
}

/// Brings a rank to the other ranks. Waits only for the process that made the root info.
pub(crate) fn enter(info: &[u8; ROOT_INFO], applicant: &Applicant) -> Result<Entered, Failure> {
    let (number, root) = find(info, applicant.rank, applicant.settings.connect_timeout)?;
    let process = decode(info).map_or(0, |(home, _)| home.process);
    Entered::begin(root, name_of(process, number), applicant, "HcclCommInitRootInfo")
}

/// Returns the name of a communicator to which the ranks give no name. The name contains the
/// process that made the root info. A device can be in communicators by root infos of several
/// processes, and each process numbers its own root infos.
fn name_of(process: u32, number: u64) -> String {
    format!("127.0.0.1%lo_60000_{process}_{number}")
}

/// Brings a rank of another process to a root info of this process.
pub(super) fn enter_guest(
    number: u64,
    peer: &Arc<Peer>,
    newcomer: Newcomer,
) -> Result<(), Failure> {
    let Some(root) = lock(&ROOTS).gathering(number) else {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: rank {} comes too late: the root info has already made its communicator \
             (make another with HcclGetRootInfo), or the ranks of the rank table have failed \
             (start them all again)",
            newcomer.rank
        );
    };
    let Newcomer { rank, ranks, seat, product, connect_timeout, name, buffer_megabytes } = newcomer;
    if rank >= ranks || ranks > MAX_DEVICES {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: rank {rank} of {ranks} is out of range; pass a rank below the number of \
             ranks, and at most {MAX_DEVICES} ranks"
        );
    }
    let settings = Settings {
        block: 0,
        first: 0,
        count: 0,
        product,
        connect_timeout,
        exec_timeout: connect_timeout,
        buffer_megabytes,
        expansion: 0,
        checked: seat.checked,
        kernel_seed: 0,
        kernel_late: None,
    };
    let config = CommConfig::of_guest(name, buffer_megabytes);
    let guest = Some(Guest { peer: Arc::clone(peer), seat });
    let applicant = Applicant { rank, ranks, device: u32::MAX, settings, config, guest };
    let mut root = lock(&root);
    if root.is_for_one_process() {
        return refuse!(
            HCCL_E_PARA,
            "EI0015: the program has restricted this root info to the process that made it \
             (ascendExtRootInfoStays); join with a rank of that process"
        );
    }
    let name = match root.by_table {
        true => WORLD.to_owned(),
        false => name_of(std::process::id(), number),
    };
    root.enter(name, &applicant)
}

/// Returns a gathering of this process by its number. `None` if the number was never given out, or
/// if the gathering was over and was removed.
pub(super) fn of_number(number: u64) -> Option<Shared> {
    lock(&ROOTS).gathering(number)
}

/// Calls `use_it` with the gathering of a root info of this process, if [`of_number`] finds it.
pub(super) fn with_gathering(number: u64, use_it: impl FnOnce(&mut Gathering)) {
    if let Some(root) = of_number(number) {
        use_it(&mut lock(&root));
    }
}

/// Calls `use_it` with every gathering of this process that has a number.
pub(super) fn with_all(use_it: impl Fn(&mut Gathering)) {
    let all: Vec<Shared> = lock(&ROOTS).open.values().cloned().collect();
    all.iter().for_each(|root| use_it(&mut lock(root)));
}

/// Restricts a root info to this process: the program states that no rank of another process joins
/// by it. Has no effect if a rank of another process has come already, or if another process made
/// the root info.
pub(crate) fn keep_here(info: &[u8; ROOT_INFO]) -> Result<(), Failure> {
    let (_, root) = find(info, 0, Duration::ZERO)?;
    let mut gathering = lock(&root);
    if matches!(gathering.side, Side::Home(_, None)) && !gathering.has_guests() {
        gathering.side = Side::Local;
    }
    Ok(())
}

/// Reports to the other ranks of a root info that the rank `rank` is gone.
pub(crate) fn leave(info: &[u8; ROOT_INFO], rank: u32, reason: &str) -> Result<(), Failure> {
    // This does not connect to a process that is not known yet.
    let known = decode(info).and_then(|(home, number)| {
        let image = between::known_image(&home, number)?;
        Some((home, number, image))
    });
    let (home, number, root) = match known {
        Some((home, number, image)) => (Some(home), number, image),
        None => {
            let (number, root) = find(info, rank, Duration::ZERO)?;
            (None, number, root)
        }
    };
    let comm = {
        let mut gathering = lock(&root);
        match &gathering.outcome {
            Some(Ok(formed)) => formed.comm.upgrade(),
            Some(Err(_)) => None,
            None => {
                if let Some(home) = home {
                    between::tell_leave(&home, number, rank, reason);
                }
                gathering.give_up_on([rank], reason);
                None
            }
        }
    };
    executor::announce();
    if let Some(comm) = comm {
        if rank as usize >= comm.ranks() {
            let ranks = comm.ranks();
            return refuse!(
                HCCL_E_PARA,
                "there is no rank {rank}: the communicator has {ranks}; pass a rank below that"
            );
        }
        comm.leave(rank as usize, reason.to_owned());
        super::registry::leave_subs(&comm, rank as usize, reason);
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::collective::comm_error::Cause;

    #[test]
    fn root_infos_that_nobody_brings_or_that_are_over_take_no_room() {
        let mut roots = Roots::new();
        let many = if cfg!(miri) { 1000 } else { 10_000 };
        for _ in 0..many {
            roots.make();
        }
        assert!(roots.open.is_empty() && roots.brought.is_empty());
        let mut last = Shared::default();
        let last_of_all = many / 10;
        for number in 1..=last_of_all {
            last = roots.gathering(number).expect("nobody has brought it");
            assert!(roots.gathering(number).is_some_and(|again| Arc::ptr_eq(&again, &last)));
            if number != last_of_all {
                lock(&last).fail(Cause::Timeout, String::from("over"));
            }
        }
        assert!(roots.open.len() <= 17, "{}", roots.open.len());
        assert!(roots.gathering(1).is_none(), "over, and not anew");
        assert!(roots.gathering(last_of_all).is_some_and(|again| Arc::ptr_eq(&again, &last)));
        assert!(roots.gathering(200_000).is_none(), "never made");
        assert!(roots.gathering(0).is_none(), "the first one is 1");
    }
}
