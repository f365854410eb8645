//! Jobs that panic.

use super::*;

struct Owner {
    lane: Lane<Careless>,
    failed: Mutex<Vec<u64>>,
}

/// Parks first, then panics; some also when they are told to give up.
struct Careless {
    parks: u32,
    gives_up: bool,
}

impl Job for Careless {
    type Owner = Owner;
    type Failure = ();

    fn poll(&mut self, _: &'static Owner) -> Step<()> {
        match self.parks.checked_sub(1) {
            Some(left) => {
                self.parks = left;
                Step::Park
            }
            None => panic!("this is what is tested"),
        }
    }

    fn arm(&mut self, _: &'static Owner) -> bool {
        false
    }

    fn give_up(&mut self, _: &'static Owner) -> Step<()> {
        Step::Done(Err(()))
    }

    fn panicked(&mut self, _: &'static Owner) -> Step<()> {
        assert!(self.gives_up, "this is what is tested");
        Step::Done(Err(()))
    }

    fn failed(owner: &'static Owner, ticket: u64, _: ()) {
        lock(&owner.failed).push(ticket);
    }

    fn wake(_: &'static Owner) {}
}

fn owner() -> &'static Owner {
    static OWNERS: Mutex<Vec<&'static Owner>> = Mutex::new(Vec::new());
    let owner = Box::leak(Box::new(Owner { lane: Lane::new(), failed: Mutex::new(Vec::new()) }));
    lock(&OWNERS).push(owner);
    owner
}

fn submit(owner: &'static Owner, parks: u32, gives_up: bool) -> (u64, Outcome) {
    owner.lane.submit(owner, &mut Some(Careless { parks, gives_up })).unwrap()
}

#[test]
fn a_job_that_panics_fails_and_the_lane_goes_on() {
    let owner = owner();
    assert_eq!(submit(owner, 0, true), (1, Outcome::Idle));
    assert_eq!(submit(owner, 1, true), (2, Outcome::Parked));
    assert_eq!(owner.lane.completed(), 1);
    assert_eq!(owner.lane.poll(owner, 1), Outcome::Idle);
    assert_eq!(submit(owner, 2, true), (3, Outcome::Parked));
    owner.lane.treat_head(owner, 3, |_| panic!("this is what is tested")).unwrap();
    assert_eq!(owner.lane.completed(), 3);
    assert_eq!(*lock(&owner.failed), [1, 2, 3]);
}

#[test]
fn a_job_that_cannot_even_give_up_stays() {
    let owner = owner();
    assert_eq!(submit(owner, 0, false), (1, Outcome::Parked));
    assert_eq!(owner.lane.poll(owner, 1), Outcome::Parked);
    assert_eq!(owner.lane.completed(), 0);
    assert!(lock(&owner.failed).is_empty());
}
