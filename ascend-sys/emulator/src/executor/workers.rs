//! Workers: threads that run work that no thread waits for, beside the housekeeper.
//!
//! Only the housekeeper wakes them. It does so when it finds more streams to run than it can run
//! itself, and a core is free. So issuing never pays for a wake-up. Each pass of the housekeeper
//! over the streams wakes at most one worker. If that is too few, the next pass wakes another. A
//! worker rests when it finds no work, or when waiting threads need the core.

use super::cores::{cores, this_thread};
use super::help::{RUNNING, help};
use crate::sleep::OwnThread;
use ascend_sync::AtomicBool;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

/// The number of searches through all streams without a result before a worker rests.
const PATIENCE: u32 = 4;

/// The existing workers. They never end, because a resting worker costs only its stack.
#[derive(Default)]
pub(super) struct Workers(Vec<Worker>);

struct Worker {
    thread: thread::Thread,
    bed: Arc<Bed>,
    /// The kernel's number of the thread, 0 until it runs.
    number: Arc<AtomicI32>,
}

impl Workers {
    /// Wakes or starts one more thread to run streams, if a core is free for it.
    pub(super) fn rouse_one(&mut self) {
        if RUNNING.load(Ordering::Relaxed) >= cores() {
            return;
        }
        if let Some(worker) = self.0.iter().find(|worker| worker.bed.rouse()) {
            RUNNING.fetch_add(1, Ordering::Relaxed);
            worker.thread.unpark();
        } else if self.0.len() + 1 < cores() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let (bed, number) = (Arc::new(Bed::new()), Arc::new(AtomicI32::new(0)));
        let (own_bed, own_number) = (bed.clone(), number.clone());
        let spawned = thread::Builder::new().name("ascend-worker".into()).spawn(move || {
            own_number.store(this_thread(), Ordering::Relaxed);
            let _own = OwnThread::new();
            work(&own_bed);
        });
        // If no thread can be started, the housekeeper goes on alone.
        if let Ok(handle) = spawned {
            RUNNING.fetch_add(1, Ordering::Relaxed);
            self.0.push(Worker { thread: handle.thread().clone(), bed, number });
        }
    }

    /// Returns the kernel's numbers of the workers' threads.
    pub(super) fn numbers(&self) -> impl Iterator<Item = i32> {
        self.0.iter().map(|worker| worker.number.load(Ordering::Relaxed)).filter(|n| *n != 0)
    }
}

fn work(bed: &Bed) {
    loop {
        let mut nothing = 0;
        while nothing < PATIENCE && RUNNING.load(Ordering::Relaxed) <= cores() {
            if help() == 0 {
                nothing += 1;
                thread::yield_now();
            } else {
                nothing = 0;
            }
        }
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        bed.rest(thread::park);
    }
}

/// The place where a worker rests until it is woken.
struct Bed {
    resting: AtomicBool,
}

impl Bed {
    fn new() -> Bed {
        Bed { resting: AtomicBool::new(false) }
    }

    fn rest(&self, park: impl Fn()) {
        self.resting.store(true, Ordering::Release);
        while self.resting.load(Ordering::Acquire) {
            park();
        }
    }

    /// Ends the rest. Returns true to one caller, which must then unpark the thread.
    fn rouse(&self) -> bool {
        self.resting.load(Ordering::Relaxed) && self.resting.swap(false, Ordering::AcqRel)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use ascend_sync::AtomicU32;
    use loom::sync::Arc;
    use loom::thread;

    /// The housekeeper wakes a worker only while there is work. The worker does all the work and
    /// then rests for good.
    #[test]
    fn loom_a_worker_that_is_roused_runs_what_is_there() {
        const WORK: u32 = 2;
        loom::model(|| {
            let bed = Arc::new(Bed::new());
            let (left, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let (own_bed, own_left, own_done) = (bed.clone(), left.clone(), done.clone());
            let worker = thread::spawn(move || {
                while own_done.load(Ordering::Acquire) < WORK {
                    let found = own_left.swap(0, Ordering::AcqRel);
                    own_done.fetch_add(found, Ordering::AcqRel);
                    if found == 0 {
                        own_bed.rest(thread::park);
                    }
                }
            });
            for n in 1..=WORK {
                left.fetch_add(1, Ordering::AcqRel);
                while done.load(Ordering::Acquire) < n {
                    if bed.rouse() {
                        worker.thread().unpark();
                    }
                    thread::yield_now();
                }
            }
            worker.join().unwrap();
        });
    }
}
