//! The address of this process, and functions that connect to other processes.

use std::sync::Arc;
use std::time::Duration;

use super::between::{HEARS, seat_of};
use super::news::Seat;
use crate::machine::Settings;
use crate::processes::listener;
use crate::processes::peer::{Home, Peer};
use crate::processes::rendezvous::{KeeperReply, KeptRendezvous, Rendezvous};

/// Returns the address of this process. From now on, other processes can connect to it.
pub(crate) fn home() -> Result<Home, String> {
    listener::open(HEARS)
}

/// Connects to the process at an address. Waits for its answer, for at most `limit`.
pub(crate) fn reach(home: &Home, limit: Duration) -> Result<Arc<Peer>, String> {
    listener::reach(home, HEARS, limit)
}

/// Gives the address of this process to each process of the user that searches for the number,
/// until the returned value is dropped. Returns an error if the number is already announced.
pub(crate) fn announce(number: u64) -> Result<KeptRendezvous, String> {
    match place_of(number).bind() {
        Ok(Some(socket)) => listener::keep(socket, HEARS, number, 0),
        Ok(None) => Err(format!("{number:#x} is already announced on this machine")),
        Err(e) => Err(format!("{number:#x} cannot be announced: {e}")),
    }
}

/// Returns the address of the process that has announced a number, if there is one. Waits for its
/// answer, for at most `limit`.
pub(crate) fn find(number: u64, limit: Duration) -> Result<Option<Home>, String> {
    match place_of(number).ask(limit) {
        KeeperReply::Keeper(keeper) if keeper.number == number => Ok(Some(keeper.home)),
        KeeperReply::Keeper(_) | KeeperReply::Nobody => Ok(None),
        KeeperReply::Unusable(why) => Err(why),
    }
}

fn place_of(number: u64) -> Rendezvous {
    Rendezvous::of("number", &format!("{number:x}"))
}

/// Returns whether an address is that of this process.
pub(crate) fn is_this_process(home: &Home) -> bool {
    listener::is_own(home)
}

/// Returns the seat of a device of this process.
pub(crate) fn seat_of_device(device: u32, settings: &Settings) -> Seat {
    seat_of(device, settings)
}
