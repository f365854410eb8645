//! The meeting of the ranks of a communicator. It holds the ranks that have arrived, their claims
//! and payloads, and the sleepers to wake.
//!
//! Every rank has two slots. Only that rank writes them, and it uses them in turn. To arrive at
//! operation n, a rank fills the slot and then stores n in its `number`. A rank that finds n in the
//! slots of all ranks continues by itself; there is no second handshake. A small payload travels
//! inside the slot. For a large operation, the slot holds the addresses of the rank's buffers and,
//! if there is one, the rank's table of counts.
//!
//! Two slots are enough. A rank reuses the slot of operation n for operation n + 2, and it arrives
//! there only after it has completed n + 1. By then all ranks have arrived at n + 1, and each rank
//! did so after it had read all that it needed of n.
//!
//! A rank that is about to sleep stores n in `armed`, then checks the slots again. A rank that
//! arrives stores n in `number`, then checks which ranks are armed. Because the stores are
//! sequentially consistent, at least one of the two sees the other. If no rank sleeps, this costs
//! one load of a cache line that is read anyway.

use std::mem::MaybeUninit;
use std::sync::{Arc, PoisonError};

use super::claim::{Claim, MeetingPlace};
use super::comm_error::CommError;
use super::long_tables::LongTables;
use super::participants::Contribution;
use super::sync::{AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell, announce, announce_or};
use super::table::Table;
use crate::processes::region::{Ground, Placed, SharedWords};

/// The number of bytes of the payload inside a slot.
pub(crate) const PAYLOAD: usize = 1024;

/// A handle that polls a parked operation again.
pub(crate) trait Wake: Clone {
    /// Polls the operation now or soon. Must not call back into the meeting while holding a lock
    /// that an armed operation takes.
    fn wake(&self);
}

/// The result of a rank's check of the other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeetingView {
    /// All ranks have arrived with the same claim.
    All,
    /// The rank with this number has not arrived.
    Waiting(usize),
    /// The rank with this number has arrived with a different claim, or at a later operation.
    Differs(usize),
    /// The rank with this number left before it issued the operation.
    Gone(usize),
    /// The communicator has failed: see [`Meeting::error`].
    Broken,
}

#[repr(C, align(128))]
struct OperationSlot {
    /// The number of the operation in this slot; 0 while the slot is being filled.
    number: AtomicU64,
    /// The number of the operation in which the owner of the slot sleeps.
    armed: AtomicU64,
    kind: AtomicU64,
    count: AtomicU64,
    /// The payload of the rank; for a large operation, its [`Contribution`]. The first bytes share
    /// the cache line of the number.
    payload: UnsafeCell<[MaybeUninit<u8>; PAYLOAD]>,
}

// A contribution fits into a payload. The payload begins after four words.
const _: () = assert!(size_of::<Contribution>() <= PAYLOAD && 32 % align_of::<Contribution>() == 0);

impl OperationSlot {
    fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            armed: AtomicU64::new(0),
            kind: AtomicU64::new(0),
            count: AtomicU64::new(0),
            payload: UnsafeCell::new([MaybeUninit::uninit(); PAYLOAD]),
        }
    }
}

#[repr(C)]
struct RankSlot {
    slots: [OperationSlot; 2],
    /// The number of the last operation that the rank had issued when it left, plus one; 0 as long
    /// as the rank has not left.
    left_after: AtomicU64,
}

/// The word that every rank checks when another rank is missing.
#[repr(C)]
struct Alarm(AtomicU32);

// SAFETY: atomic words and payloads. The module documentation states which rank accesses a payload
// at which time.
unsafe impl SharedWords for RankSlot {}
// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for Alarm {}

/// The state of a rank that only its own process needs.
struct OwnSide<W> {
    waker: Mutex<Option<W>>,
    /// For each slot, the table of the latest operation that had one.
    tables: [UnsafeCell<Option<Box<Table>>>; 2],
}

/// The bit of [`Meeting::alarm`] for a communicator that has failed.
const BROKEN: u32 = 1;
const SOMEONE_LEFT: u32 = 2;

/// The meeting place of one communicator.
pub(crate) struct Meeting<W> {
    rank_slots: Placed<RankSlot>,
    own_sides: Box<[OwnSide<W>]>,
    /// The tables of the two slots of each rank, if the ranks are in several processes: see
    /// [`LongTables`].
    long_tables: LongTables,
    /// The bits `BROKEN` and `SOMEONE_LEFT`; zero as long as the communicator works and no rank has
    /// left.
    alarm: Placed<Alarm>,
    error: Mutex<Option<Arc<CommError>>>,
}

// SAFETY: the owner writes the payload and the table before it stores the number. Other ranks read
// them after they have loaded the number. The module documentation states why the owner does not
// overwrite them too early. Everything else is atomic or locked.
unsafe impl<W: Send> Sync for Meeting<W> {}

impl<W: Wake> Meeting<W> {
    pub(crate) fn new(ranks: usize, ground: &Ground) -> Self {
        let rank_slot = |_| RankSlot {
            slots: [OperationSlot::new(), OperationSlot::new()],
            left_after: AtomicU64::new(0),
        };
        let own_side = |_| OwnSide {
            waker: Mutex::new(None),
            tables: [UnsafeCell::new(None), UnsafeCell::new(None)],
        };
        Self {
            rank_slots: ground.place(ranks, rank_slot),
            own_sides: (0..ranks).map(own_side).collect(),
            long_tables: LongTables::new(ranks, ground),
            alarm: ground.place(1, |_| Alarm(AtomicU32::new(0))),
            error: Mutex::new(None),
        }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.rank_slots.len()
    }

    #[inline]
    fn slot(&self, rank: usize, place: MeetingPlace) -> &OperationSlot {
        &self.rank_slots[rank].slots[(place.number & 1) as usize]
    }

    #[inline]
    fn table_cell(&self, rank: usize, place: MeetingPlace) -> &UnsafeCell<Option<Box<Table>>> {
        &self.own_sides[rank].tables[(place.number & 1) as usize]
    }

    /// Arrives at an operation. `fill` writes the payload. If there is a `table`, it is exchanged
    /// for the table that the slot held before.
    ///
    /// # Safety
    ///
    /// Only one thread at a time calls this for a rank. The numbers ascend by one. The previous
    /// operation is complete on this rank.
    #[inline]
    pub(crate) unsafe fn arrive(
        &self,
        rank: usize,
        place: MeetingPlace,
        claim: Claim,
        table: &mut Option<Box<Table>>,
        fill: impl FnOnce(*mut u8),
    ) {
        let slot = self.slot(rank, place);
        slot.number.store(0, Ordering::Relaxed);
        slot.kind.store(claim.kind, Ordering::Release);
        slot.count.store(claim.count, Ordering::Release);
        slot.payload.with_mut(|payload| fill(payload.cast()));
        if let Some(table) = table {
            self.long_tables.write(rank, place, table);
        }
        if table.is_some() {
            // SAFETY: only this rank accesses the slot until the number is stored.
            self.table_cell(rank, place).with_mut(|kept| unsafe { std::ptr::swap(kept, table) });
        }
        announce(&slot.number, place.number);
    }

    /// Checks which ranks have arrived with the same claim, from rank `cursor` on. The cursor moves
    /// past these ranks.
    #[inline]
    pub(crate) fn look(
        &self,
        place: MeetingPlace,
        claim: Claim,
        cursor: &mut usize,
    ) -> MeetingView {
        while let Some(rank_slot) = self.rank_slots.get(*cursor) {
            let slot = &rank_slot.slots[(place.number & 1) as usize];
            let there = slot.number.load(Ordering::SeqCst);
            if there < place.number {
                if self.alarm[0].0.load(Ordering::SeqCst) == 0 {
                    return MeetingView::Waiting(*cursor);
                }
                match self.look_closely(place, *cursor) {
                    Some(look) => return look,
                    // The rank has arrived in the meantime.
                    None => continue,
                }
            }
            if there > place.number
                || slot.kind.load(Ordering::Relaxed) != claim.kind
                || slot.count.load(Ordering::Relaxed) != claim.count
            {
                return MeetingView::Differs(*cursor);
            }
            *cursor += 1;
        }
        MeetingView::All
    }

    /// Finds out why the rank at `cursor` is missing while the alarm is set. Returns `None` if the
    /// rank is no longer missing.
    #[cold]
    fn look_closely(&self, place: MeetingPlace, cursor: usize) -> Option<MeetingView> {
        let number = place.number;
        if self.alarm[0].0.load(Ordering::SeqCst) & BROKEN != 0 {
            return Some(MeetingView::Broken);
        }
        let mut gone = None;
        for rank in cursor..self.ranks() {
            let rank_slot = &self.rank_slots[rank];
            if self.slot(rank, place).number.load(Ordering::SeqCst) >= number {
                if rank == cursor {
                    return None;
                }
            } else if (1..=number).contains(&rank_slot.left_after.load(Ordering::SeqCst)) {
                gone = gone.or(Some(rank));
            }
        }
        Some(gone.map_or(MeetingView::Waiting(cursor), MeetingView::Gone))
    }

    /// Registers the rank as a sleeper in an operation. The caller then checks the other ranks
    /// again, and sleeps only if nothing has changed.
    pub(crate) fn arm(&self, rank: usize, place: MeetingPlace, waker: W) {
        self.set_waker(rank, waker);
        announce(&self.slot(rank, place).armed, place.number);
    }

    /// Sets the waker of a rank that sleeps.
    pub(crate) fn set_waker(&self, rank: usize, waker: W) {
        let place = &self.own_sides[rank].waker;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Wakes every rank that sleeps in an operation. A rank calls this when it arrives and finds
    /// that all ranks have arrived, and after the last chunk.
    #[inline]
    pub(crate) fn wake(&self, place: MeetingPlace) {
        for (rank_slot, own_side) in self.rank_slots.iter().zip(&self.own_sides) {
            let slot = &rank_slot.slots[(place.number & 1) as usize];
            if slot.armed.load(Ordering::SeqCst) == place.number {
                own_side.wake();
            }
        }
    }

    /// Wakes every rank that sleeps, in any operation.
    #[cold]
    pub(crate) fn wake_all(&self) {
        self.own_sides.iter().for_each(OwnSide::wake);
    }

    /// Wakes the rank, if it sleeps in any operation.
    #[cold]
    pub(crate) fn wake_rank(&self, rank: usize) {
        if self.rank_slots[rank].slots.iter().any(|slot| slot.armed.load(Ordering::SeqCst) != 0) {
            self.own_sides[rank].wake();
        }
    }

    /// Ends the communicator and wakes all ranks, so that they see the failure. Only the first
    /// failure is kept. Returns that failure.
    #[cold]
    pub(crate) fn fail(&self, error: CommError) -> Arc<CommError> {
        let first = {
            let mut place = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(place.get_or_insert_with(|| Arc::new(error)))
        };
        announce_or(&self.alarm[0].0, BROKEN);
        self.wake_all();
        first
    }

    /// Returns the reason why the communicator cannot be used any more, if there is one.
    #[inline]
    pub(crate) fn error(&self) -> Option<Arc<CommError>> {
        if self.alarm[0].0.load(Ordering::SeqCst) & BROKEN == 0 {
            return None;
        }
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether any process has ended the communicator. This process may not have received
    /// the reason yet.
    pub(crate) fn is_broken(&self) -> bool {
        self.alarm[0].0.load(Ordering::SeqCst) & BROKEN != 0
    }

    /// Notes that the rank will issue no operation beyond `last`.
    #[cold]
    pub(crate) fn leave(&self, rank: usize, last: u64) {
        let left = &self.rank_slots[rank].left_after;
        if left.load(Ordering::Relaxed) == 0 {
            announce(left, last + 1);
            announce_or(&self.alarm[0].0, SOMEONE_LEFT);
            self.wake_all();
        }
    }

    /// Returns the number of the last operation that the rank issued before it left; `None` if it
    /// has not left.
    pub(crate) fn left_after(&self, rank: usize) -> Option<u64> {
        self.rank_slots[rank].left_after.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns the contribution of a rank to a large operation. It is valid after
    /// [`MeetingView::All`] and until the caller has completed the operation.
    ///
    /// # Safety
    ///
    /// The rank has arrived at this place, and has filled its payload with a [`Contribution`]. The
    /// caller's rank has not arrived at a later operation.
    #[inline]
    pub(crate) unsafe fn contribution(&self, rank: usize, place: MeetingPlace) -> Contribution {
        // SAFETY: the caller's promise.
        self.payload(rank, place, |payload| unsafe { payload.cast::<Contribution>().read() })
    }

    /// Returns the table that a rank has brought. Returns `None` if the rank has not arrived.
    ///
    /// # Safety
    ///
    /// The caller's rank has arrived at this place and not at a later place. It does not arrive at
    /// another place while it uses the table. The claim of `rank` is that of an operation with
    /// tables.
    #[inline]
    pub(crate) unsafe fn table(&self, rank: usize, place: MeetingPlace) -> Option<&Table> {
        let slot = self.slot(rank, place);
        if slot.number.load(Ordering::SeqCst) != place.number {
            return None;
        }
        // SAFETY: its owner overwrites the table only after the caller has arrived twice more.
        self.table_cell(rank, place).with(|table| unsafe { (*table).as_deref() })
    }

    /// Returns the table of a rank of another process, under the same conditions as
    /// [`Meeting::table`]. The table has `words` counts and displacements, and `matrix` counts of
    /// pairs.
    pub(crate) fn long_table(
        &self,
        rank: usize,
        place: MeetingPlace,
        words: usize,
        matrix: usize,
    ) -> Option<Table> {
        let is_there = self.slot(rank, place).number.load(Ordering::SeqCst) == place.number;
        is_there.then(|| self.long_tables.read(rank, place, words, matrix))
    }

    /// Calls `read` with the address of the payload of a rank. The payload is valid under the same
    /// conditions as [`Meeting::contribution`].
    #[inline]
    pub(crate) fn payload<R>(
        &self,
        rank: usize,
        place: MeetingPlace,
        read: impl FnOnce(*const u8) -> R,
    ) -> R {
        self.slot(rank, place).payload.with(|payload| read(payload.cast()))
    }

    /// Returns the number and the claim of the latest operation of a rank, for use in error texts.
    /// Returns `None` if the rank has arrived at none, or is arriving just now.
    #[cold]
    pub(crate) fn latest(&self, rank: usize) -> Option<(u64, Claim)> {
        let read = |slot: &OperationSlot| {
            let number = slot.number.load(Ordering::Acquire);
            let kind = slot.kind.load(Ordering::Acquire);
            let count = slot.count.load(Ordering::Acquire);
            let stable = number != 0 && slot.number.load(Ordering::Acquire) == number;
            stable.then_some((number, Claim { kind, count }))
        };
        let rank_slot = &self.rank_slots[rank];
        rank_slot.slots.iter().filter_map(read).max_by_key(|(number, _)| *number)
    }
}

impl<W: Wake> OwnSide<W> {
    #[cold]
    fn wake(&self) {
        // The waker is cloned so that the lock is released before the waker is called.
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
