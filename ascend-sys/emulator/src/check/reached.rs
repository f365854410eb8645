//! The memory of ranks of other processes that ranks of this process can reach. Accesses to it are
//! reported to those processes.

use super::clock::ClockPoint;
use super::engine::Checker;
use super::shadow::CheckedOperation;
use crate::fabric::{ToldOperation, ToldTouch};
use crate::task::Touch;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Tell = Arc<dyn Fn(ToldOperation) + Send + Sync>;
/// The communicator, the rank of this process, and the rank that owns the memory.
type Ranks = (u64, usize, usize);

struct Reached {
    end: usize,
    /// The address of its first byte in the other process.
    data: usize,
    ranks: Ranks,
    tell: Tell,
}

/// The reachable memory, by its first address.
static REACHED: Mutex<BTreeMap<usize, Reached>> = Mutex::new(BTreeMap::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn add(addresses: &Range<usize>, data: usize, ranks: Ranks, tell: Tell) {
    let mut all = lock(&REACHED);
    all.insert(addresses.start, Reached { end: addresses.end, data, ranks, tell });
    COUNT.store(all.len(), Ordering::Release);
}

/// Removes the memory that begins at `start`, which can no longer be reached.
pub(crate) fn reaches_no_more(start: usize) {
    if COUNT.load(Ordering::Acquire) != 0 {
        let mut all = lock(&REACHED);
        all.remove(&start);
        COUNT.store(all.len(), Ordering::Release);
    }
}

/// Reports the start of an operation to the ranks of other processes whose memory the operation
/// accesses.
pub(super) fn tell_touches(engine: &Checker, at: ClockPoint, operation: &CheckedOperation) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let mut told: Vec<(Ranks, Tell, Vec<ToldTouch>)> = Vec::new();
    for Touch { range, mode } in &operation.touches {
        let all = lock(&REACHED);
        let found = all.range(..=range.start).next_back();
        let Some((start, reached)) = found.filter(|(_, it)| range.start < it.end) else { continue };
        let data = reached.data + (range.start - start);
        let touch = ToldTouch { data, bytes: range.len(), mode: (*mode).into() };
        match told.iter_mut().find(|(ranks, ..)| *ranks == reached.ranks) {
            Some((.., touches)) => touches.push(touch),
            None => told.push((reached.ranks, Arc::clone(&reached.tell), vec![touch])),
        }
    }
    for (_, tell, touches) in told {
        tell(engine.tell(at, operation, touches));
    }
}
