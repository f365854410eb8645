//! What the function of an operator is given: who it is recorded for, its memory, its channels.

use std::fmt;
use std::panic::Location;

use ascend_operator::Memory;

use super::channel::Channel;
use super::memory::LocalBuffer;
use super::state::{Shape, State, Tape};
use super::thread::{MainThread, Thread};
use crate::dtype::DType;

/// One rank's view of an operator while its function is recorded.
pub struct Recorder<'r> {
    state: &'r State,
}

/// Records a function onto a tape, in place of what was there.
pub(super) fn record(
    shape: Shape,
    tape: &mut Tape,
    function: &dyn Fn(&Recorder<'_>, &mut MainThread<'_>),
) {
    let state = State::new(shape, std::mem::take(tape));
    let recorder = Recorder { state: &state };
    let mut main = MainThread { thread: Thread { state: &state, index: 0 } };
    function(&recorder, &mut main);
    *tape = state.into_tape();
}

impl<'r> Recorder<'r> {
    /// The rank that this is recorded for.
    pub fn rank(&self) -> u32 {
        self.state.shape.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.state.shape.ranks
    }

    /// The rank so many places behind this one, around the ring: `peer(1)` is the next, `peer(-1)` the one before.
    pub fn peer(&self, distance: i64) -> u32 {
        let (rank, ranks) = (i64::from(self.rank()), i64::from(self.ranks()));
        (rank + distance % ranks).rem_euclid(ranks) as u32
    }

    /// All other ranks, beginning with the next one, around the ring. So no two ranks begin with the same one.
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let (rank, ranks) = (self.rank(), self.ranks());
        (1..ranks).map(move |distance| {
            ((u64::from(rank) + u64::from(distance)) % u64::from(ranks)) as u32
        })
    }

    /// The number of elements that the operator is about: the n in the table of [`Operator`](super::Operator).
    pub fn count(&self) -> usize {
        self.state.shape.count
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.state.shape.dtype
    }

    /// What the rank gives. It may not be written.
    pub fn input(&self) -> LocalBuffer<'r> {
        LocalBuffer::whole(self.state, Memory::Input)
    }

    /// Where the rank's result goes.
    pub fn output(&self) -> LocalBuffer<'r> {
        LocalBuffer::whole(self.state, Memory::Output)
    }

    /// The rank's communication buffer, the only memory that peers reach (CANN: `HcclGetHcclBuffer`). What is in it at the start is unspecified.
    /// It may be smaller than the data, so an operator for any size works in rounds.
    pub fn buffer(&self) -> LocalBuffer<'r> {
        LocalBuffer::whole(self.state, Memory::Buffer)
    }

    /// The channel to a peer. Both ends must open it. A rank that is not there, or this one, is a mistake.
    #[track_caller]
    pub fn channel(&self, peer: u32) -> Channel<'r> {
        let (rank, ranks) = (self.rank(), self.ranks());
        if peer == rank || peer >= ranks {
            let who = if peer == rank { "itself".to_owned() } else { format!("rank {peer}") };
            let text = format!(
                "rank {rank} of {ranks} opens a channel to {who}: a channel joins two different ranks"
            );
            self.state.mistake(Location::caller(), text);
        }
        let number = self.state.tape(|tape| tape.channel(peer));
        Channel { state: self.state, peer, number }
    }

    /// Refuses what it is recorded for, a number of ranks for example: `text` says why, and what would do.
    #[track_caller]
    pub fn refuse(&self, text: impl Into<String>) {
        self.state.mistake(Location::caller(), text.into());
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.state.shape).finish()
    }
}
