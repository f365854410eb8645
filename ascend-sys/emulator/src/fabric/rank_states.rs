//! The state of each rank of a communicator, as data for errors.

use super::board::LinksState;
use super::comm::Comm;
use crate::collective::comm_error::{CommError, Origin, Presence, RankState};
use crate::collective::request::CollectiveRequest;

impl Comm {
    /// Returns the state of each rank, as seen from the operation that has failed. That operation
    /// is the collective that the error names. If the error comes from a call, it is the newest
    /// first collective in which a rank waits, if there is one. Otherwise messages or a wait for a
    /// notify have failed. Then a rank is missing if the error lists the rank as absent, or if the
    /// other ranks wait for its answer to a first exchange or for a call that all ranks make.
    #[cold]
    pub(crate) fn rank_states(&self, error: &CommError) -> Box<[RankState]> {
        let board = self.board.lock();
        let waits_in = board.slots.iter().filter(|slot| slot.waits).filter_map(|slot| slot.posted);
        let number = match error.origin {
            Origin::Collective(number) => number,
            Origin::Call => waits_in.map(|(number, _)| number).max().unwrap_or_default(),
            Origin::Batch | Origin::Operator => 0,
        };
        let awaited = board.awaited();
        let said = |rank| error.said.iter().find(|(other, _)| *other == rank);
        let state = |rank| match (self.state_of(&board, rank, number), said(rank)) {
            // The rank has brought its side of the disagreement. So it counts as arrived, wherever
            // it is now and even if it called something else.
            (state, Some((_, said))) => {
                RankState { presence: Presence::Arrived, text: said.clone(), ..state }
            }
            // A rank that waits elsewhere has no side in the disagreement, so its wait is left out.
            (state, None) if !error.said.is_empty() && state.presence != Presence::Gone => {
                RankState { text: String::new(), ..state }
            }
            (state, None) => state,
        };
        let state = |rank| match state(rank) {
            state if error.by == Some(rank) => {
                let text = "it has aborted the communicator".into();
                RankState { presence: Presence::Gone, text, ..state }
            }
            state if number != 0 => state,
            state if state.presence == Presence::Gone => state,
            state if awaited.contains(&rank) || error.absent.contains(&rank) => {
                RankState { presence: Presence::Missing, ..state }
            }
            state => RankState { presence: Presence::Arrived, ..state },
        };
        (0..self.ranks()).map(state).collect()
    }

    /// Returns the state of a rank, as seen from collective `number`.
    #[cold]
    pub(crate) fn rank_state(&self, rank: usize, number: u64) -> RankState {
        self.state_of(&self.board.lock(), rank, number)
    }

    /// Returns the newest collective in which a rank was seen, if it was seen in one.
    fn newest(&self, board: &LinksState, rank: usize) -> Option<(u64, Option<CollectiveRequest>)> {
        let latest = self.meeting.latest(rank);
        let latest = latest.map(|(number, claim)| (number, CollectiveRequest::of(claim)));
        let posted = board.slots[rank].posted.map(|(number, said)| (number, Some(said)));
        latest.into_iter().chain(posted).max_by_key(|(number, _)| *number)
    }

    fn state_of(&self, board: &LinksState, rank: usize, number: u64) -> RankState {
        let (seen, request) = self.newest(board, rank).unwrap_or_default();
        let arrived = seen != 0 && seen >= number;
        let (presence, text) = match &board.slots[rank].gone {
            // If `number` is 0, messages have failed. Then the collectives in which the rank was
            // seen before say nothing about its presence.
            Some(why) if !arrived || number == 0 => (Presence::Gone, why.clone()),
            _ if arrived => (Presence::Arrived, String::new()),
            _ => {
                let zeros = self.lone_zeros(rank, 0).map(|said| format!("called {said}"));
                let waits = Some(board.waits_of(rank)).filter(|waits| !waits.is_empty());
                let said: Vec<_> = waits.into_iter().chain(zeros).collect();
                (Presence::Missing, said.join("; "))
            }
        };
        RankState { presence, number: seen, request, text }
    }
}
