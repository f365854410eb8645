//! How the ranks of a new communicator find each other: by a root info that one of them made.
//!
//! A root info serves one communicator, in the process that made it. Every rank brings it, and waits until [all have](super::gathering).

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::gathering::{Applicant, Entered, ONE_PROCESS, Shared};
use super::home::{self, Home, Stray};
use super::root_info::{ROOT_INFO, decode, encode};
use crate::collective::comm_error::Cause;
use crate::executor;
use crate::message::{Failure, refuse};
use ascend_sync::lock_std as lock;

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

/// Brings a rank to the others, and waits for nobody.
pub(crate) fn enter(info: &[u8; ROOT_INFO], applicant: &Applicant) -> Result<Entered, Failure> {
    let (number, root) = find(info, applicant.rank)?;
    let name = format!("127.0.0.1%lo_60000_0_{number}");
    Entered::begin(root, name, applicant, "HcclCommInitRootInfo", hear_of_strays)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::collective::comm_error::Cause;

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
}
