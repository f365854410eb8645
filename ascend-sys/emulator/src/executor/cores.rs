//! The number of threads that can run at once.
//!
//! The count is that of the cores on which the threads of the program may run, together. Ranks that
//! tie themselves to a core each have as many as there are ranks, whichever asks first. Masks and
//! quotas can change at any time, so the housekeeper asks again every second that it is awake. That
//! costs no other thread anything, and a waiting thread spins a second too long at worst.

use crate::os_thread;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of cores; 0: not asked yet.
static CORES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of cores. The affinity masks and the quota of the control group count.
#[inline]
pub(crate) fn cores() -> usize {
    match CORES.load(Ordering::Relaxed) {
        0 => ask(),
        cores => cores,
    }
}

/// The number of ranks in other processes that may wait at the same time as threads of this one.
static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
/// The cores on which this process and the other ones may run, together.
static SHARED_CORES: AtomicUsize = AtomicUsize::new(0);

/// The pace at which a thread waits before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Polls before the thread counts as waiting.
    pub(super) first: u32,
    /// Then, polls without a break.
    pub(super) spins: u32,
    /// Then, polls with the core given away between them.
    pub(super) yields: u32,
}

impl Pace {
    /// While each waiting thread has a core of its own.
    const LONG: Pace = Pace { first: 64, spins: 2000, yields: 4 };
    /// Otherwise: the one that is awaited may need this core. To give the core away costs less than
    /// to sleep and be woken, which is two system calls.
    const GIVING: Pace = Pace { first: 2, spins: 4, yields: 64 };

    /// Returns the pace of the last of `waiting` waiting threads. About 100 microseconds while they
    /// fit the cores.
    pub(super) fn of(waiting: usize) -> Pace {
        let fits = match ELSEWHERE.load(Ordering::Relaxed) {
            0 => waiting <= cores(),
            ranks => waiting + ranks <= SHARED_CORES.load(Ordering::Relaxed),
        };
        if fits { Pace::LONG } else { Pace::GIVING }
    }

    /// Returns the pace of a thread that has slept.
    pub(super) fn again(self) -> Pace {
        Pace { spins: 16, ..self }
    }
}

/// Sets the number of ranks of other processes that may wait at the same time as threads of this
/// one; 0: none.
pub(crate) fn share_with(ranks: usize, processes: impl Iterator<Item = u32>) {
    let others = processes.filter_map(|process| i32::try_from(process).ok());
    // The first mask is that of the calling thread.
    let own = Mask::of([0].into_iter());
    let together = Mask::of(others.chain([0])).count();
    // The quota of the control group holds for all of them together.
    let quota = Some(cores()).filter(|cores| *cores < own.count());
    SHARED_CORES.store(quota.map_or(together, |quota| quota.min(together)), Ordering::Relaxed);
    ELSEWHERE.store(ranks, Ordering::Relaxed);
}

/// The cores of the calling thread.
#[cold]
fn ask() -> usize {
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    CORES.store(cores, Ordering::Relaxed);
    cores
}

/// Lets the emulator's own threads run wherever a thread of the program may, and counts those
/// cores. Called by one of `own`.
pub(super) fn follow(own: &[i32]) {
    let Some(threads) = threads() else { return };
    let allowed = Mask::of(threads.filter(|thread| !own.contains(thread)));
    if allowed.is_empty() {
        return;
    }
    for thread in own {
        if Mask::of([*thread].into_iter()) != allowed {
            allowed.apply(*thread);
        }
    }
    // This respects the quota too.
    ask();
}

/// Returns the kernel's numbers of all threads of the process, where the kernel tells them.
pub(crate) fn threads() -> Option<impl Iterator<Item = i32>> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    Some(threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The kernel's number of the calling thread.
pub(crate) fn this_thread() -> i32 {
    os_thread::number().cast_signed()
}

/// A set of cores, in the kernel's form.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Mask([u64; 16]);

impl Mask {
    /// Returns the cores where any of these threads may run. A thread that has ended does not
    /// count.
    fn of(threads: impl Iterator<Item = i32>) -> Mask {
        let mut all = Mask::default();
        for thread in threads {
            let mut one = Mask::default();
            // SAFETY: `one` is as large as is said. The call fails on a machine with more cores
            // than that.
            let code = unsafe {
                libc::sched_getaffinity(thread, size_of::<Mask>(), (&raw mut one).cast())
            };
            if code == 0 {
                all.0.iter_mut().zip(one.0).for_each(|(all, one)| *all |= one);
            }
        }
        all
    }

    fn is_empty(&self) -> bool {
        *self == Mask::default()
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn apply(&self, thread: i32) {
        // SAFETY: the mask is as large as is said. A number of a thread that has ended does no
        // harm.
        unsafe { libc::sched_setaffinity(thread, size_of::<Mask>(), (&raw const self.0).cast()) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_process_gives_its_core_away_when_the_ranks_have_not_one_each() {
        let cores = cores();
        assert_eq!(Pace::of(cores), Pace::LONG);
        assert_eq!(Pace::of(cores + 1), Pace::GIVING);
        // This process may run where the calling thread may, and so may the other one.
        let all = Mask::of([0].into_iter()).count().min(cores);
        share_with(all, [std::process::id()].into_iter());
        assert_eq!(Pace::of(1), Pace::GIVING);
        share_with(all.saturating_sub(1), [std::process::id()].into_iter());
        assert_eq!(Pace::of(1), Pace::LONG);
        share_with(0, std::iter::empty());
        assert_eq!(Pace::of(cores), Pace::LONG);
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn cores_of_several_threads_add_up_and_ours_follow_them() {
        let all = Mask::of([0].into_iter());
        let mut single =
            (0..1024).filter(|core| all.0[core / 64] >> (core % 64) & 1 == 1).map(|core| {
                let mut mask = Mask::default();
                mask.0[core / 64] = 1 << (core % 64);
                mask
            });
        let first = single.next().unwrap();
        let second = single.next().unwrap_or(first);
        let turn = Barrier::new(3);
        thread::scope(|scope| {
            let tied = |mask: Mask| {
                let turn = &turn;
                let (send, receive) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    mask.apply(0);
                    send.send(this_thread()).unwrap();
                    turn.wait();
                });
                receive.recv().unwrap()
            };
            let (a, b) = (tied(first), tied(second));
            assert_eq!(Mask::of([a].into_iter()), first);
            let mut both = first;
            both.0.iter_mut().zip(second.0).for_each(|(x, y)| *x |= y);
            assert_eq!(Mask::of([a, b].into_iter()), both);
            // The thread `a` counts as the emulator's own: it may run wherever the others may, and
            // this thread may run on all cores.
            follow(&[a]);
            assert_eq!(Mask::of([a].into_iter()), all);
            assert_eq!(Mask::of([b].into_iter()), second);
            turn.wait();
        });
    }
}
