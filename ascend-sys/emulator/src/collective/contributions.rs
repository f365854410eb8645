//! The contributions of the ranks, in their slots of the meeting.

use super::claim::MeetingPlace;
use super::gathered::Gathered;
use super::meeting::{Meeting, PAYLOAD};
use super::participants::{Contribution, Participants};
use super::sleeper::Sleeper;
use super::table::{BlockTable, Summary};

/// The largest table, in words, that is stored in the payload directly after the contribution. Its
/// words arrive with the contribution, so that a reader need not load one more cache line to find
/// the table.
const NEAR: usize = (PAYLOAD - size_of::<Contribution>()) / size_of::<u64>();

/// Returns the address of the words that follow the contribution in a payload.
fn behind_offer(payload: *const u8) -> *const u64 {
    payload.wrapping_add(size_of::<Contribution>()).cast()
}

/// Writes a contribution into the payload of a rank that arrives. A table of at most [`NEAR`] words
/// is written after it.
///
/// # Safety
///
/// Only the caller accesses the payload. The words of the contribution's table can be read.
#[inline]
pub(crate) unsafe fn write(payload: *mut u8, contribution: Contribution) {
    let Summary { words, length, .. } = contribution.table;
    // SAFETY: the payload has room for a contribution and, after it, for up to `NEAR` words.
    unsafe {
        payload.cast::<Contribution>().write(contribution);
        if (1..=NEAR).contains(&length) {
            behind_offer(payload).cast_mut().copy_from_nonoverlapping(words, length);
        }
    }
}

/// The contributions of all ranks to a large operation.
pub(crate) struct Arrived<'a> {
    pub(crate) meeting: &'a Meeting<Sleeper>,
    pub(crate) place: MeetingPlace,
}

impl Participants for Arrived<'_> {
    #[inline]
    fn ranks(&self) -> usize {
        self.meeting.ranks()
    }

    #[inline]
    fn contribution(&self, rank: usize) -> Contribution {
        // SAFETY: an `Arrived` is made when all ranks have arrived at a large operation, and only
        // the task of that operation uses it.
        unsafe { self.meeting.contribution(rank, self.place) }
    }

    #[inline]
    fn blocks(&self, rank: usize) -> BlockTable<'_> {
        let Summary { words, length, .. } = self.contribution(rank).table;
        let words = match length <= NEAR {
            true => self.meeting.payload(rank, self.place, behind_offer),
            false => words,
        };
        // SAFETY: these are the words that the rank has brought with this contribution. They are
        // either in the payload or in the rank's table; both stay unchanged until the operation is
        // complete.
        let words = unsafe { std::slice::from_raw_parts(words, length) };
        BlockTable { ranks: self.ranks(), words }
    }
}

/// The contributions of all ranks, either in the meeting or as copies.
pub(crate) enum Brought<'a> {
    There(Arrived<'a>),
    Copied(&'a Gathered),
}

impl Participants for Brought<'_> {
    #[inline]
    fn ranks(&self) -> usize {
        match self {
            Self::There(arrived) => arrived.ranks(),
            Self::Copied(gathered) => gathered.ranks(),
        }
    }

    #[inline]
    fn contribution(&self, rank: usize) -> Contribution {
        match self {
            Self::There(arrived) => arrived.contribution(rank),
            Self::Copied(gathered) => gathered.contribution(rank),
        }
    }

    #[inline]
    fn blocks(&self, rank: usize) -> BlockTable<'_> {
        match self {
            Self::There(arrived) => arrived.blocks(rank),
            Self::Copied(gathered) => gathered.blocks(rank),
        }
    }
}
