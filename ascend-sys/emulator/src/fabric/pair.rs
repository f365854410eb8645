//! Communicators that connect two endpoints. Each has two ranks, in two processes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::comm::Comm;
use super::joint::{Abroad, Joint};
use super::news::Seat;
use super::place::DevicePlace;
use crate::processes::peer::{Peer, random};
use crate::processes::region::{Ground, SharedMemory};
use crate::profile::Product;

/// The data about a pair that both sides have before they meet. This process has the rank `own`.
pub(crate) struct RankPair {
    pub(crate) name: String,
    pub(crate) product: Product,
    pub(crate) connect_timeout: Duration,
    pub(crate) own: usize,
    pub(crate) place: DevicePlace,
    pub(crate) peer: Arc<Peer>,
    /// The seat of the other rank.
    pub(crate) seat: Seat,
}

/// A pair that this process has made, with the data by which the other process joins it.
pub(crate) struct MadePair {
    pub(crate) comm: Arc<Comm>,
    pub(crate) key: u64,
    /// The size of the shared words, in bytes.
    pub(crate) bytes: usize,
    /// The file of the shared words.
    pub(crate) file: OwnedFd,
}

impl RankPair {
    /// Makes a communicator that the other process does not have yet. A thread that waits in this
    /// communicator counts as waiting for that process.
    pub(crate) fn alone(&self) -> Result<Arc<Comm>, String> {
        self.side(&Ground::Heap, random()).map(Arc::new)
    }

    /// Makes a communicator with words that both processes share.
    pub(crate) fn make(&self) -> Result<MadePair, String> {
        let bytes = Comm::measure(|ground| self.comm(ground));
        let memory = SharedMemory::new(bytes)
            .map_err(|e| format!("cannot make {bytes} bytes of shared memory: {e}"))?;
        let file = memory.file().try_clone().map_err(|e| e.to_string())?;
        let key = random();
        let comm = Arc::new(self.side(&Ground::shared(Arc::new(memory)), key)?);
        comm.publish();
        Ok(MadePair { comm, key, bytes, file })
    }

    /// Makes this process's side of a pair that the other process has made.
    pub(crate) fn join(&self, key: u64, bytes: usize, file: OwnedFd) -> Result<Arc<Comm>, String> {
        if Comm::measure(|ground| self.comm(ground)) > bytes {
            return Err("the processes disagree about the size of their shared memory; run the \
                        same build of the emulator in both"
                .into());
        }
        let memory = SharedMemory::map(file, 0, bytes).map_err(|e| e.to_string())?;
        let comm = Arc::new(self.side(&Ground::shared(Arc::new(memory)), key)?);
        comm.publish();
        Ok(comm)
    }

    fn comm(&self, ground: &Ground) -> Comm {
        Comm::new_on(ground, self.name.clone(), self.product, self.connect_timeout, 2)
    }

    fn side(&self, ground: &Ground, key: u64) -> Result<Comm, String> {
        let Self { own, place, ref peer, seat, .. } = *self;
        let memory = peer.memory(seat.start, seat.bytes).map_err(|e| {
            let process = peer.home.process;
            format!(
                "the memory of a device of process {process} cannot be mapped: {e}. Check the \
                 limits on address space and open files (ulimit -v, ulimit -n)"
            )
        })?;
        let mut ranks = vec![None, None];
        let mut places = [place; 2];
        ranks[1 - own] = Some(Abroad { peer: Arc::clone(peer), memory, checked: seat.checked });
        places[1 - own] = DevicePlace { device: u32::MAX, block: place.block, index: seat.card };
        let mut comm = self.comm(ground);
        comm.joint = Some(Joint::new(key, ranks, ground.rest()));
        Ok(comm.on(Box::new(places)))
    }
}
