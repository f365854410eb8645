//! How this process is reached, and reaches others, for whatever they share.

use std::sync::Arc;
use std::time::Duration;

use super::between::{HEARS, seat_of};
use super::news::Seat;
use crate::machine::Settings;
use crate::processes::listener;
use crate::processes::peer::{Home, Peer};

/// Where this process is reached from now on.
pub(crate) fn home() -> Result<Home, String> {
    listener::open(HEARS)
}

/// The process at an address. Waits for its answer, at most so long.
pub(crate) fn reach(home: &Home, limit: Duration) -> Result<Arc<Peer>, String> {
    listener::reach(home, HEARS, limit)
}

/// Whether an address is that of this process.
pub(crate) fn is_this_process(home: &Home) -> bool {
    listener::is_own(home)
}

/// Where a device of this process sits.
pub(crate) fn seat_of_device(device: u32, settings: &Settings) -> Seat {
    seat_of(device, settings)
}
