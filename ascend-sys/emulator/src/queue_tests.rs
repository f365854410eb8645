//! Tests of jobs that panic, and of heads that are armed.

use super::*;

struct TestStream {
    queue: TaskQueue<Careless>,
    failed: Mutex<Vec<u64>>,
    /// The number of times that a job was armed.
    armed: AtomicU32,
}

/// A job that parks first, then panics, and also panics when it must give up. If `gives_up` is
/// false, it even panics when its panic is handled.
struct Careless {
    parks: u32,
    gives_up: bool,
}

impl Job for Careless {
    type Owner = TestStream;
    type Failure = ();

    fn poll(&mut self, _: &'static TestStream) -> JobStep<()> {
        match self.parks.checked_sub(1) {
            Some(left) => {
                self.parks = left;
                JobStep::Park
            }
            None => panic!("this is what is tested"),
        }
    }

    fn arm(&mut self, owner: &'static TestStream) -> bool {
        owner.armed.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn give_up(&mut self, _: &'static TestStream) -> JobStep<()> {
        panic!("this is what is tested")
    }

    fn panicked(&mut self, _: &'static TestStream) -> JobStep<()> {
        assert!(self.gives_up, "this is what is tested");
        JobStep::Done(Err(()))
    }

    fn failed(owner: &'static TestStream, ticket: u64, _: ()) {
        lock(&owner.failed).push(ticket);
    }

    fn wake(_: &'static TestStream) {}
}

fn owner() -> &'static TestStream {
    static OWNERS: Mutex<Vec<&'static TestStream>> = Mutex::new(Vec::new());
    let owner = Box::leak(Box::new(TestStream {
        queue: TaskQueue::new(),
        failed: Mutex::new(Vec::new()),
        armed: AtomicU32::new(0),
    }));
    lock(&OWNERS).push(owner);
    owner
}

fn submit(owner: &'static TestStream, parks: u32, gives_up: bool) -> (u64, Outcome) {
    owner.queue.submit(owner, &mut Some(Careless { parks, gives_up })).unwrap()
}

#[test]
fn a_job_that_panics_fails_and_the_lane_goes_on() {
    let owner = owner();
    assert_eq!(submit(owner, 0, true), (1, Outcome::Idle));
    assert_eq!(submit(owner, 1, true), (2, Outcome::Parked));
    assert_eq!(owner.queue.completed(), 1);
    assert_eq!(owner.queue.poll(owner, 1), Outcome::Idle);
    assert_eq!(submit(owner, 2, true), (3, Outcome::Parked));
    owner.queue.void_until(3);
    assert_eq!(owner.queue.poll(owner, 1), Outcome::Idle);
    assert_eq!(owner.queue.completed(), 3);
    assert_eq!(*lock(&owner.failed), [1, 2, 3]);
}

#[test]
fn a_job_that_cannot_even_give_up_stays() {
    let owner = owner();
    assert_eq!(submit(owner, 0, false), (1, Outcome::Parked));
    assert_eq!(owner.queue.poll(owner, 1), Outcome::Parked);
    assert_eq!(owner.queue.completed(), 0);
    assert!(lock(&owner.failed).is_empty());
}

#[test]
fn a_head_that_parks_behind_an_armed_one_is_armed_too() {
    let owner = owner();
    let armed = || owner.armed.load(Ordering::Relaxed);
    assert_eq!(submit(owner, 4, true), (1, Outcome::Parked));
    assert_eq!(submit(owner, 1, true).0, 2);
    assert_eq!((owner.queue.poll(owner, 4), armed()), (Outcome::Parked, 0));
    let me = QueueWaiter::Thread(ascend_sync::current_thread());
    assert_eq!((owner.queue.register(owner, 2, me), armed()), (Readiness::Sleep, 1));
    // The first job is over. The second one parks, and the waiter sleeps until it is over.
    assert_eq!((owner.queue.poll(owner, 4), armed()), (Outcome::Parked, 2));
    assert_eq!(owner.queue.completed(), 1);
    assert_eq!(owner.queue.poll(owner, 4), Outcome::Idle);
    assert_eq!(owner.queue.completed(), 2);
}
