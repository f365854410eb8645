//! Checked copies of the contributions of all ranks to a large operation, for ranks in several
//! processes.
//!
//! An address in a contribution belongs to the process that has brought it. It is translated to the
//! address at which this process has mapped the device memory of that rank. Every byte that the
//! operation may touch must lie in that mapping. Only the copies are used afterwards, because other
//! processes cannot change them.

use super::claim::MeetingPlace;
use super::meeting::Meeting;
use super::participants::{Contribution, Participants};
use super::request::{CollectiveRequest, Operation};
use super::sleeper::Sleeper;
use super::table::{BlockTable, Extent, RECEIVES, SENDS, Table};

/// Copies of the contributions of all ranks, with addresses of this process: see the
/// [module](self).
pub(crate) struct Gathered {
    contributions: Vec<Contribution>,
    tables: Vec<Table>,
}

// SAFETY: the pointers point into device memory of ranks that have arrived. Only the task of the
// operation uses them.
unsafe impl Send for Gathered {}

/// Returns the number of words that a rank's table has for an operation, and the number of its
/// counts of pairs.
pub(crate) fn words_of(operation: Operation, ranks: usize) -> (usize, usize) {
    match operation {
        Operation::AlltoAllVC => (4 * ranks, ranks * ranks),
        Operation::AlltoAllV => (4 * ranks, 0),
        Operation::AllGatherV | Operation::ReduceScatterV(_) => (2 * ranks, 0),
        _ => (0, 0),
    }
}

impl Gathered {
    /// Copies the contributions of all ranks. `find` takes a rank, an address in the process of
    /// that rank and a number of bytes; it returns the address of these bytes in this process. The
    /// error is a rank whose contribution has an address outside its device's memory, or whose
    /// table is missing or reaches beyond any memory.
    ///
    /// # Safety
    ///
    /// As for [`Meeting::contribution`], for all ranks.
    pub(crate) unsafe fn new(
        meeting: &Meeting<Sleeper>,
        place: MeetingPlace,
        request: &CollectiveRequest,
        find: impl Fn(usize, usize, usize) -> Option<*mut u8>,
    ) -> Result<Self, usize> {
        let ranks = meeting.ranks();
        let (mut contributions, mut tables) = (Vec::with_capacity(ranks), Vec::new());
        for rank in 0..ranks {
            // SAFETY: the caller's promise.
            let brought = unsafe { meeting.contribution(rank, place) };
            let mut ends = request.sizes(rank, ranks);
            if request.operation.has_table() {
                let (words, matrix) = words_of(request.operation, ranks);
                let table = meeting.long_table(rank, place, words, matrix).ok_or(rank)?;
                ends = ends_of(request, &table, rank).ok_or(rank)?;
                tables.push(table);
            }
            let at = |address: *const u8, bytes: usize| match bytes {
                0 => Ok(std::ptr::null_mut()),
                bytes => find(rank, address.addr(), bytes).ok_or(rank),
            };
            let send = at(brought.send, ends.0)?.cast_const();
            let recv = at(brought.recv, ends.1)?;
            contributions.push(Contribution { send, recv, ..brought });
        }
        Ok(Self { contributions, tables })
    }
}

/// Returns the number of bytes that the operation may touch in the send buffer and in the receive
/// buffer of a rank, from their starts. Returns `None` if the table reaches beyond any memory.
fn ends_of(request: &CollectiveRequest, table: &Table, rank: usize) -> Option<(usize, usize)> {
    let end = |half| table.extent(half, request.dtype).ok().map(|Extent { end, .. }| end);
    let own = table.blocks().of(SENDS, rank, request.dtype).0;
    match request.operation {
        Operation::AllGatherV => Some((own, end(SENDS)?)),
        Operation::ReduceScatterV(_) => Some((end(SENDS)?, own)),
        _ => Some((end(SENDS)?, end(RECEIVES)?)),
    }
}

impl Participants for Gathered {
    fn ranks(&self) -> usize {
        self.contributions.len()
    }

    fn contribution(&self, rank: usize) -> Contribution {
        self.contributions[rank]
    }

    fn blocks(&self, rank: usize) -> BlockTable<'_> {
        self.tables[rank].blocks()
    }
}
