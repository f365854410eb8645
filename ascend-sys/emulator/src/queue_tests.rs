//! Tests of jobs that panic.

use super::*;

struct TestStream {
    queue: TaskQueue<Careless>,
    failed: Mutex<Vec<u64>>,
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

    fn arm(&mut self, _: &'static TestStream) -> bool {
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
    let owner =
        Box::leak(Box::new(TestStream { queue: TaskQueue::new(), failed: Mutex::new(Vec::new()) }));
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
