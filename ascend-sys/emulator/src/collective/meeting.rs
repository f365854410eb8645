//! Where the ranks of a communicator meet: which have arrived, with what, and which must be woken.
//!
//! Every rank has two slots, which that rank alone writes, and uses them in turn. To arrive at
//! operation n, a rank fills the slot and then stores n in its `number`. A rank that finds n in the
//! slots of all ranks goes on by itself; there is no second handshake. A small payload travels
//! inside the slot. For a large operation the slot says where the rank's buffers are, and holds the
//! rank's table of counts, if there is one.
//!
//! Two slots are enough: a rank arrives at the operation after the next only when it has completed
//! the next. All ranks arrived at the next one, and each did so after it had read everything that
//! it needed of this one.
//!
//! Sleepers: a rank arms itself by storing n in `armed`, then looks again. A rank arrives by
//! storing n in `number`, then checks which ranks are armed. With sequentially consistent stores at
//! least one of them sees the other. If no rank sleeps, this costs a load of a line that is being
//! read anyway.

use std::mem::MaybeUninit;
use std::sync::{Arc, PoisonError};

use super::comm_error::CommError;
use super::long_tables::LongTables;
use super::participants::Contribution;
use super::sync::{AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell, announce, announce_or};
use super::table::Table;
use crate::processes::region::{Ground, Placed, SharedWords};

/// The number of bytes that travel inside a slot.
pub(crate) const PAYLOAD: usize = 1024;

/// Something that polls a parked operation again.
pub(crate) trait Wake: Clone {
    /// Polls it now or soon. Must not call back into the meeting while holding a lock that an armed
    /// operation takes.
    fn wake(&self);
}

/// An operation of a communicator. An even or odd number decides the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeetingPlace {
    /// Counts from 1.
    pub(crate) number: u64,
}

/// A rank's claim about its operation. The claims are equal on all ranks, or the operation fails on
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Operation, element type, reduction and root, packed by the caller. The caller leaves one
    /// byte for the [capture](Claim::capture).
    pub(crate) kind: u64,
    /// The number of elements, or a fingerprint of counts.
    pub(crate) count: u64,
}

impl Claim {
    const CAPTURE: u32 = 24;

    /// The claim of an operation that was captured: it matches only the same capture of another
    /// rank.
    #[inline]
    pub(crate) fn of_capture(self, capture: u8) -> Claim {
        Claim { kind: self.kind | u64::from(capture) << Claim::CAPTURE, ..self }
    }

    /// Returns the capture of the communicator that it belongs to; 0: none.
    pub(crate) fn capture(self) -> u8 {
        (self.kind >> Claim::CAPTURE) as u8
    }
}

/// The result of a rank's look at the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeetingView {
    /// All are there, with the same claim.
    All,
    /// This rank is not there.
    Waiting(usize),
    /// This rank is there with another claim.
    Differs(usize),
    /// This rank left before it issued the operation.
    Gone(usize),
    /// The communicator has failed: see [`Meeting::error`].
    Broken,
}

#[repr(C, align(128))]
struct OperationSlot {
    /// The operation this slot holds; 0 while it is being filled.
    number: AtomicU64,
    /// The operation its owner sleeps in.
    armed: AtomicU64,
    kind: AtomicU64,
    count: AtomicU64,
    /// The first bytes share the cache line of the number. A large operation has its
    /// [`Contribution`] here.
    payload: UnsafeCell<[MaybeUninit<u8>; PAYLOAD]>,
}

// A contribution fits into a payload, which begins behind four words.
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
    /// One more than the last operation that the rank had issued when it left; 0 while it is here.
    left_after: AtomicU64,
}

/// The word that all ranks look at when a rank is missing.
#[repr(C)]
struct Alarm(AtomicU32);

// SAFETY: words, and payloads; the module text says which rank touches them when.
unsafe impl SharedWords for RankSlot {}
// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for Alarm {}

/// The state of a rank that only its process needs.
struct OwnSide<W> {
    waker: Mutex<Option<W>>,
    /// The tables of the latest operations that had one, by slot.
    tables: [UnsafeCell<Option<Box<Table>>>; 2],
}

/// Bits of [`Meeting::alarm`].
const BROKEN: u32 = 1;
const SOMEONE_LEFT: u32 = 2;

/// The meeting place of one communicator.
pub(crate) struct Meeting<W> {
    rank_slots: Placed<RankSlot>,
    own_sides: Box<[OwnSide<W>]>,
    /// The tables of the two slots of each rank, where the ranks are in several processes: see
    /// [`LongTables`].
    long_tables: LongTables,
    /// Zero as long as nothing is wrong.
    alarm: Placed<Alarm>,
    error: Mutex<Option<Arc<CommError>>>,
}

// SAFETY: payload and table are written by their owner before it stores the number, and read by
// others after they have loaded it; the module text says why they are not written again too early.
// Everything else is atomic or locked.
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

    /// Arrives. `fill` writes the payload; `table`, if there is one, is exchanged for an old one.
    ///
    /// # Safety
    ///
    /// One thread at a time calls this for a rank; numbers ascend by one; the operation before is
    /// complete on this rank.
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
            // SAFETY: the slot is this rank's until the number is stored.
            self.table_cell(rank, place).with_mut(|kept| unsafe { std::ptr::swap(kept, table) });
        }
        announce(&slot.number, place.number);
    }

    /// Checks which other ranks have arrived, from rank `cursor` on; the cursor moves past those
    /// that were seen.
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
                    // The rank has come meanwhile.
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

    /// The rank at `cursor` is missing, and the alarm is set. Returns `None` if the rank is no
    /// longer missing.
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

    /// Declares that the rank sleeps in an operation. The caller looks again after this, and sleeps
    /// only if nothing has changed.
    pub(crate) fn arm(&self, rank: usize, place: MeetingPlace, waker: W) {
        self.set_waker(rank, waker);
        announce(&self.slot(rank, place).armed, place.number);
    }

    /// Sets the waker of a rank that sleeps.
    pub(crate) fn set_waker(&self, rank: usize, waker: W) {
        let place = &self.own_sides[rank].waker;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Wakes every rank that sleeps in an operation. A rank calls it after arriving if it finds all
    /// there, and after the last chunk.
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

    /// Ends the communicator. The first failure stays; all ranks wake up and see it.
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

    /// Whether some process has ended the communicator; this one may not know why yet.
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

    /// Whether the rank has left, and after which operation.
    pub(crate) fn left_after(&self, rank: usize) -> Option<u64> {
        self.rank_slots[rank].left_after.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns the contribution of a rank to a large operation. Meaningful after
    /// [`MeetingView::All`] and until the caller has completed the operation.
    ///
    /// # Safety
    ///
    /// The rank has arrived there, and filled its payload with a [`Contribution`]; the caller's
    /// rank has not arrived since.
    #[inline]
    pub(crate) unsafe fn contribution(&self, rank: usize, place: MeetingPlace) -> Contribution {
        // SAFETY: the caller's promise.
        self.payload(rank, place, |payload| unsafe { payload.cast::<Contribution>().read() })
    }

    /// The table that a rank has brought, if it has arrived.
    ///
    /// # Safety
    ///
    /// The caller's rank has arrived at this place and at none since, and arrives at no other while
    /// it uses the table. The rank's claim is of an operation that has tables.
    #[inline]
    pub(crate) unsafe fn table(&self, rank: usize, place: MeetingPlace) -> Option<&Table> {
        let slot = self.slot(rank, place);
        if slot.number.load(Ordering::SeqCst) != place.number {
            return None;
        }
        // SAFETY: its owner writes the table again only when the caller has arrived twice more.
        self.table_cell(rank, place).with(|table| unsafe { (*table).as_deref() })
    }

    /// Returns the table of a rank of another process, of `words` words and `matrix` counts of
    /// pairs, under the same conditions.
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

    /// The payload of a rank, under the same conditions.
    #[inline]
    pub(crate) fn payload<R>(
        &self,
        rank: usize,
        place: MeetingPlace,
        read: impl FnOnce(*const u8) -> R,
    ) -> R {
        self.slot(rank, place).payload.with(|payload| read(payload.cast()))
    }

    /// Returns the latest operation of a rank, for messages: its number and its claim.
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
        // The clone releases the lock before anything is called.
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
