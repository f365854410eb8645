//! Notes of the calls in which a rank had nothing to move. Error texts quote them; no decision
//! depends on them.
//!
//! As in CANN, a call with nothing to move returns at once, takes no number and meets no other
//! rank. If only one rank makes a call with nothing to move, the operation of the other ranks pairs
//! with the next operation of that rank. The note shows where the two sides diverged. All processes
//! see the notes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::collective::claim::Claim;
use crate::collective::request::CollectiveRequest;
use crate::processes::region::SharedWords;

/// The number of entries of a rank. One entry may be half written, so texts name at most `ENTRIES -
/// 1` calls.
const ENTRIES: u64 = 4;

/// The notes of one rank, on cache lines of their own. Only the rank writes them, one call at a
/// time. If a program makes two calls of one rank at once, a note may be lost.
#[repr(C, align(128))]
pub(super) struct LoneZeros {
    /// The number of calls so far. Call n is in entry n modulo [`ENTRIES`].
    calls: AtomicU64,
    entries: [Entry; ENTRIES as usize],
}

#[repr(C)]
struct Entry {
    /// The kind in the [`Claim`] of the call.
    kind: AtomicU64,
    /// The number of the rank's newest collective at that time.
    after: AtomicU64,
}

// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for LoneZeros {}

impl LoneZeros {
    pub(super) fn new() -> Self {
        let entry = |_| Entry { kind: AtomicU64::new(0), after: AtomicU64::new(0) };
        Self { calls: AtomicU64::new(0), entries: std::array::from_fn(entry) }
    }

    fn entry(&self, call: u64) -> &Entry {
        &self.entries[(call % ENTRIES) as usize]
    }

    /// Notes that the rank has made a call with nothing to move after collective `after`.
    pub(super) fn note(&self, request: CollectiveRequest, after: u64) {
        let call = self.calls.load(Ordering::Relaxed);
        let entry = self.entry(call);
        entry.kind.store(request.claim().kind, Ordering::Relaxed);
        entry.after.store(after, Ordering::Relaxed);
        // Pairs with the load in `say`: a reader that sees the new count also sees the entry.
        self.calls.store(call.wrapping_add(1), Ordering::Release);
    }

    /// Describes the calls: their number, then the latest calls that the rank made after collective
    /// `from` or a later one. `None` if there are none.
    #[cold]
    pub(super) fn say(&self, from: u64) -> Option<String> {
        let calls = self.calls.load(Ordering::Acquire);
        let read = |call| {
            let Entry { kind, after } = self.entry(call);
            let claim = Claim { kind: kind.load(Ordering::Relaxed), count: 0 };
            Some((call, CollectiveRequest::of(claim)?, after.load(Ordering::Relaxed)))
        };
        let latest: Vec<_> = (calls.saturating_sub(ENTRIES - 1)..calls).filter_map(read).collect();
        // If the rank has made further calls meanwhile, an entry that it has overwritten may mix
        // two calls.
        let now = self.calls.load(Ordering::Acquire);
        let is_kept = |call: u64| now.saturating_sub(call) < ENTRIES;
        let kept = latest.iter().filter(|(call, _, after)| is_kept(*call) && *after >= from);
        let said: Vec<_> =
            kept.map(|(_, request, after)| format!("{request} after #{after}")).collect();
        if said.is_empty() {
            return None;
        }
        let mut text = String::from("with nothing to move, which takes no number: ");
        if calls > said.len() as u64 {
            let _ = write!(text, "{calls} calls, the last ");
        }
        text += &said.join(", ");
        Some(text)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::collective::request::Operation;
    use ascend_reduce::DataType;

    #[test]
    fn a_count_that_another_process_has_damaged_is_said_like_any_other() {
        for count in [u64::MAX - 1, u64::MAX] {
            let zeros = LoneZeros::new();
            zeros.calls.store(count, Ordering::Relaxed);
            let _ = zeros.say(0);
            let operation = Operation::Broadcast(1);
            zeros.note(CollectiveRequest { operation, dtype: DataType::Fp32, count: 0 }, 0);
            let _ = zeros.say(0);
        }
    }

    #[test]
    fn the_latest_calls_are_kept_and_all_are_counted() {
        let zeros = LoneZeros::new();
        assert_eq!(zeros.say(0), None);
        let broadcast = |root| CollectiveRequest {
            operation: Operation::Broadcast(root),
            dtype: DataType::Fp32,
            count: 0,
        };
        zeros.note(broadcast(1), 0);
        let one = zeros.say(0).unwrap();
        assert!(one.ends_with("number: HcclBroadcast(count 0, FP32, root 1) after #0"), "{one}");
        assert_eq!(zeros.say(1), None);
        (2..=6).for_each(|root| zeros.note(broadcast(root), u64::from(root) * 10));
        let many = zeros.say(0).unwrap();
        assert!(many.contains("6 calls, the last HcclBroadcast(count 0, FP32, root 4)"), "{many}");
        assert!(many.ends_with("root 6) after #60"), "{many}");
    }
}
