//! The windows of ranks in other processes, for the kernels and servers of this process.
//!
//! A rank stores the addresses of its windows in [shared words](RankWindows) before it meets the
//! other ranks for its context. The windows are device memory that this process has mapped, so a
//! write of a kernel is at once in the memory of the other device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fabric::Comm;

/// The windows of a rank, as they are stored in its words. The window for input comes first.
pub(super) struct RankWindows {
    /// The addresses of their data in the process of the rank.
    pub(super) data: [usize; 2],
    pub(super) bytes: usize,
}

/// The index of the word with the state, which tells whether the other words are valid.
const STATE: usize = 3;

/// The state of windows that other processes may use.
const OPEN: u64 = 1;
const CLOSED: u64 = 2;

/// A window of a rank in another process.
#[derive(Clone)]
pub(super) struct AbroadWindow {
    comm: Arc<Comm>,
    pub(super) rank: usize,
    pub(super) bytes: usize,
    /// The address at which this process has mapped the window; valid as long as the communicator
    /// exists. Kernels use this address, because the address in the other process may belong to
    /// other memory here.
    pub(super) data: usize,
}

impl RankWindows {
    /// Makes the windows available to other processes. This is called once for each rank.
    pub(super) fn open(&self, comm: &Comm, rank: usize) {
        let words = comm.words_of(rank);
        let numbers = self.data.into_iter().chain([self.bytes]);
        for (word, number) in words.iter().zip(numbers) {
            word.store(number as u64, Ordering::Relaxed);
        }
        // Stored after the other words; pairs with the load in `is_open`.
        words[STATE].store(OPEN, Ordering::Release);
    }

    /// Closes the windows of a rank, whose memory is about to be freed.
    pub(super) fn close(comm: &Comm, rank: usize) {
        comm.words_of(rank)[STATE].store(CLOSED, Ordering::Release);
    }
}

fn is_open(comm: &Comm, rank: usize) -> bool {
    // Pairs with the store in `open`.
    comm.words_of(rank)[STATE].load(Ordering::Acquire) == OPEN
        && comm.joint.as_ref().is_none_or(|joint| !joint.is_lost(rank))
}

impl AbroadWindow {
    /// Returns the window for output, or for input, of a rank in another process, if the windows of
    /// that rank are open. The words are read once. Their values are used only if the addresses lie
    /// in the memory of the rank's device.
    pub(super) fn find(comm: &Arc<Comm>, rank: usize, output: bool) -> Option<Self> {
        let joint =
            comm.joint.as_ref().filter(|joint| rank < comm.ranks() && !joint.is_own(rank))?;
        if !is_open(comm, rank) {
            return None;
        }
        let word = |at: usize| {
            usize::try_from(comm.words_of(rank)[at].load(Ordering::Relaxed)).unwrap_or(usize::MAX)
        };
        let (theirs, bytes) = (word(usize::from(output)), word(2));
        let data = joint.find(rank, theirs, bytes)?.addr();
        Some(Self { comm: Arc::clone(comm), rank, bytes, data })
    }

    /// Returns the window that contains the `bytes` bytes from `address` on, and the offset of the
    /// bytes in that window. `address` is an address that kernels of this process use. `None` if no
    /// open window of another process contains the bytes.
    pub(super) fn holding(comm: &Arc<Comm>, address: u64, bytes: u64) -> Option<(Self, usize)> {
        let address = usize::try_from(address).ok()?;
        let ranks = 0..if comm.is_joint() { comm.ranks() } else { 0 };
        let all = ranks.flat_map(|rank| [false, true].map(|output| Self::find(comm, rank, output)));
        all.flatten().find_map(|window| {
            let offset = address.checked_sub(window.data)?;
            let is_within = offset < window.bytes && bytes <= (window.bytes - offset) as u64;
            is_within.then_some((window, offset))
        })
    }

    /// Returns the address of `bytes` bytes at an offset of the window.
    pub(super) fn at(&self, offset: usize, bytes: u64) -> Result<*mut u8, String> {
        self.check()?;
        let is_within = offset <= self.bytes && bytes <= (self.bytes - offset) as u64;
        match is_within {
            true => Ok(std::ptr::with_exposed_provenance_mut(self.data + offset)),
            false => Err(format!(
                "{bytes} bytes at the offset {offset} exceed a window of {} bytes; write fewer, \
                 or raise HCCL_BUFFSIZE",
                self.bytes
            )),
        }
    }

    /// Checks that the rank still has the window.
    pub(super) fn check(&self) -> Result<(), String> {
        if is_open(&self.comm, self.rank) {
            return Ok(());
        }
        let why = self.comm.board.departure(self.rank);
        let why = why.unwrap_or_else(|| "it has ended its communicator".into());
        Err(format!(
            "rank {} is gone ({why}), so its windows are too; let it keep its communicator until \
             all kernels that use them have ended",
            self.rank
        ))
    }
}
