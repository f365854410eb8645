//! Counts the threads that can run at once.
//!
//! The count is the number of cores on which the threads of the program may run, taken together. If
//! each rank binds itself to a core, that is the number of ranks, whichever thread counts first.
//! Masks and quotas can change at any time, so the housekeeper counts again every second while it
//! is awake. The count does not cost other threads time. At worst, a waiting thread spins for a
//! second too long.

use crate::os_thread;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of cores; 0 if they were not counted yet.
static CORES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of cores, within the affinity masks and the quota of the control group.
#[inline]
pub(crate) fn cores() -> usize {
    match CORES.load(Ordering::Relaxed) {
        0 => ask(),
        cores => cores,
    }
}

/// The number of ranks in other processes that may wait at the same time as threads of this
/// process.
static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
/// The number of cores on which this process and the other processes may run, taken together.
static SHARED_CORES: AtomicUsize = AtomicUsize::new(0);

/// The pace at which a thread waits before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// The number of polls before the thread counts as waiting.
    pub(super) first: u32,
    /// The number of polls without a pause that follow.
    pub(super) spins: u32,
    /// The number of polls that follow, with a yield of the core before each.
    pub(super) yields: u32,
}

impl Pace {
    /// The pace while each waiting thread has a core of its own.
    const LONG: Pace = Pace { first: 64, spins: 2000, yields: 4 };
    /// The pace if a waiting thread has no core of its own. It polls less and yields more, because
    /// the awaited thread may need the core. A yield costs less than a sleep and a wake-up, which
    /// are two system calls.
    const GIVING: Pace = Pace { first: 2, spins: 4, yields: 64 };

    /// Returns the pace of the last of `waiting` waiting threads. While the threads have a core
    /// each, a thread waits about 100 microseconds before it sleeps.
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
/// process, and the processes of these ranks. 0 means that there are none.
pub(crate) fn share_with(ranks: usize, processes: impl Iterator<Item = u32>) {
    let others = processes.filter_map(|process| i32::try_from(process).ok());
    // The first mask is that of the calling thread.
    let own = Mask::of([0].into_iter());
    let together = Mask::of(others.chain([0])).count();
    // The quota of the control group applies to all of these processes together.
    let quota = Some(cores()).filter(|cores| *cores < own.count());
    SHARED_CORES.store(quota.map_or(together, |quota| quota.min(together)), Ordering::Relaxed);
    ELSEWHERE.store(ranks, Ordering::Relaxed);
}

/// Counts the cores, and stores the number.
#[cold]
fn ask() -> usize {
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    CORES.store(cores, Ordering::Relaxed);
    cores
}

/// Lets the emulator's own threads run on all cores on which a thread of the program may run, and
/// counts those cores. One of the threads in `own` calls this.
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
    // The count also respects the quota.
    ask();
}

/// Returns the kernel's numbers of all threads of the process, if the kernel provides them.
pub(crate) fn threads() -> Option<impl Iterator<Item = i32>> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    Some(threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// Returns the kernel's number of the calling thread.
pub(crate) fn this_thread() -> i32 {
    os_thread::number().cast_signed()
}

/// A set of cores, in the kernel's form.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Mask([u64; 16]);

impl Mask {
    /// Returns the cores on which any of these threads may run. Threads that have ended do not
    /// count.
    fn of(threads: impl Iterator<Item = i32>) -> Mask {
        let mut all = Mask::default();
        for thread in threads {
            let mut one = Mask::default();
            // SAFETY: `one` has the size that is passed. The call fails on a machine with more
            // cores than that.
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
        // SAFETY: the mask has the size that is passed. A number of a thread that has ended does no
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
