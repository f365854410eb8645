//! Models of small meetings: loom explores every interleaving.

use std::ops::Range;

use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::claim::{Claim, MeetingPlace};
use super::comm_error::{Cause, CommError, Origin};
use super::job::{CollectiveJob, Homes, Phase};
use super::meeting::{Meeting, MeetingView, Wake};
use super::sync::{Ordering, UnsafeCell};
use super::table::Table;
use crate::processes::region::Ground;

#[derive(Clone)]
pub(crate) struct Bell(pub(crate) std::sync::Arc<Notify>);

impl Bell {
    pub(crate) fn new() -> Self {
        Self(std::sync::Arc::new(Notify::new()))
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.0.notify();
    }
}

const CLAIM: Claim = Claim { kind: 1, count: 1 };

fn at(number: u64) -> MeetingPlace {
    MeetingPlace { number }
}

/// Returns the first chunk of the run of a rank, if two ranks share `chunks` chunks.
fn part(rank: usize, chunks: u32) -> u32 {
    chunks * rank as u32 / 2
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Arrives with a payload of one byte.
fn arrive(meeting: &Meeting<Bell>, rank: usize, place: MeetingPlace, value: u8) {
    // SAFETY: a payload has more than one byte.
    let fill = |payload: *mut u8| unsafe { payload.write(value) };
    // SAFETY: each model arrives in order, from one thread a rank.
    unsafe { meeting.arrive(rank, place, CLAIM, &mut None, fill) }
}

/// Waits until all ranks have arrived. Sleeps if necessary, as a parked task does.
fn await_all(
    meeting: &Meeting<Bell>,
    rank: usize,
    place: MeetingPlace,
    bell: &Bell,
) -> MeetingView {
    let mut cursor = 0;
    let first = meeting.look(place, CLAIM, &mut cursor);
    if first == MeetingView::All {
        meeting.wake(place);
    }
    let mut look = first;
    while let MeetingView::Waiting(_) = look {
        meeting.arm(rank, place, bell.clone());
        look = meeting.look(place, CLAIM, &mut cursor);
        if let MeetingView::Waiting(_) = look {
            bell.0.wait();
            look = meeting.look(place, CLAIM, &mut cursor);
        }
    }
    look
}

fn sum(meeting: &Meeting<Bell>, place: MeetingPlace) -> u8 {
    // SAFETY: all ranks have arrived, and each has written one byte.
    (0..meeting.ranks()).map(|rank| meeting.payload(rank, place, |p| unsafe { p.read() })).sum()
}

#[test]
fn loom_payloads_are_seen_and_slots_are_reused_in_time() {
    explore(2, || {
        let meeting = Arc::new(Meeting::<Bell>::new(2, &Ground::Heap));
        let rank = |meeting: Arc<Meeting<Bell>>, rank: usize| {
            let bell = Bell::new();
            for number in 1..=3 {
                let value = (number as u8) * 10 + rank as u8;
                arrive(&meeting, rank, at(number), value);
                assert_eq!(await_all(&meeting, rank, at(number), &bell), MeetingView::All);
                assert_eq!(sum(&meeting, at(number)), number as u8 * 20 + 1);
            }
        };
        let other = Arc::clone(&meeting);
        let thread = thread::spawn(move || rank(other, 1));
        rank(meeting, 0);
        thread.join().unwrap();
    });
}

/// An error text never shows the number of one arrival with the claim of another.
#[test]
fn loom_the_latest_arrival_is_seen_whole() {
    explore(3, || {
        let meeting = Arc::new(Meeting::<Bell>::new(1, &Ground::Heap));
        let arrives = Arc::clone(&meeting);
        let thread = thread::spawn(move || {
            // These two operations share a slot.
            for number in [1, 3] {
                let claim = Claim { kind: number, count: number };
                // SAFETY: in order, from one thread.
                unsafe { arrives.arrive(0, at(number), claim, &mut None, |_| {}) };
            }
        });
        if let Some((number, claim)) = meeting.latest(0) {
            assert_eq!((claim.kind, claim.count), (number, number));
        }
        thread.join().unwrap();
    });
}

#[test]
fn loom_tables_are_seen_and_come_back_two_turns_later() {
    explore(2, || {
        let meeting = Arc::new(Meeting::<Bell>::new(2, &Ground::Heap));
        let rank = |meeting: Arc<Meeting<Bell>>, rank: usize| {
            let bell = Bell::new();
            for number in 1..=3 {
                let mut table = Some(Box::new(Table::EMPTY));
                table.iter_mut().for_each(|table| table.run = number * 10 + rank);
                let place = at(number as u64);
                // SAFETY: in order, from one thread a rank.
                unsafe { meeting.arrive(rank, place, CLAIM, &mut table, |_| {}) };
                let old = table.map(|table| table.run);
                assert_eq!(old, (number == 3).then_some(10 + rank));
                assert_eq!(await_all(&meeting, rank, place, &bell), MeetingView::All);
                // SAFETY: the rank has arrived here, and at no later place.
                let run = |rank| unsafe { meeting.table(rank, place) }.map(|table| table.run);
                assert_eq!((run(0), run(1)), (Some(number * 10), Some(number * 10 + 1)));
            }
        };
        let other = Arc::clone(&meeting);
        let thread = thread::spawn(move || rank(other, 1));
        rank(meeting, 0);
        thread.join().unwrap();
    });
}

#[test]
fn loom_three_ranks_none_sleeps_for_ever() {
    explore(2, || {
        let meeting = Arc::new(Meeting::<Bell>::new(3, &Ground::Heap));
        let rank = |meeting: Arc<Meeting<Bell>>, rank: usize| {
            arrive(&meeting, rank, at(1), 1);
            assert_eq!(await_all(&meeting, rank, at(1), &Bell::new()), MeetingView::All);
            assert_eq!(sum(&meeting, at(1)), 3);
        };
        let (a, b) = (Arc::clone(&meeting), Arc::clone(&meeting));
        let threads = [thread::spawn(move || rank(a, 1)), thread::spawn(move || rank(b, 2))];
        rank(meeting, 0);
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn loom_a_failure_and_a_departure_wake_the_sleeper() {
    for departure in [false, true] {
        explore(3, move || {
            let meeting = Arc::new(Meeting::<Bell>::new(2, &Ground::Heap));
            let other = Arc::clone(&meeting);
            let end = thread::spawn(move || {
                if departure {
                    other.leave(1, 0);
                } else {
                    let text = String::from("a test");
                    other.fail(CommError::new(Origin::Collective(1), Cause::Timeout, text));
                }
            });
            arrive(&meeting, 0, at(1), 1);
            let look = await_all(&meeting, 0, at(1), &Bell::new());
            assert_eq!(look, if departure { MeetingView::Gone(1) } else { MeetingView::Broken });
            end.join().unwrap();
        });
    }
}

#[test]
fn loom_each_chunk_is_done_once_and_before_completion_is_seen() {
    const CHUNKS: u32 = 3;
    explore(2, || {
        let meeting = Arc::new(Meeting::<Bell>::new(2, &Ground::Heap));
        let job = Arc::new(CollectiveJob::new(2, &Ground::Heap));
        let data: Arc<Vec<_>> = Arc::new((0..CHUNKS).map(|_| UnsafeCell::new(0)).collect());
        let rank = |meeting: Arc<Meeting<Bell>>,
                    job: Arc<CollectiveJob>,
                    data: Arc<Vec<UnsafeCell<u32>>>,
                    rank| {
            let bell = Bell::new();
            let chunks = |of: Range<usize>| part(of.end, CHUNKS) - part(of.start, CHUNKS);
            let (phase, mut next) = job.start(1, rank, Homes::All, chunks);
            assert_eq!(phase, Phase::Running);
            while let Some(chunk) = next {
                let index = part(chunk.of.start, CHUNKS) + chunk.index;
                // SAFETY: only this thread has claimed the chunk, which loom checks.
                data[index as usize].with_mut(|p| unsafe { *p += 1 });
                if job.finish(1, chunk, chunks) {
                    meeting.wake(at(1));
                }
                next = job.claim(1, rank, Homes::All, chunks);
            }
            while !job.complete(1, chunks) {
                meeting.arm(rank, at(1), bell.clone());
                if !job.complete(1, chunks) {
                    bell.0.wait();
                }
            }
            for cell in data.iter() {
                // SAFETY: the operation is complete, so no thread writes any more, which loom
                // checks.
                assert_eq!(cell.with(|p| unsafe { *p }), 1);
            }
        };
        let (m, j, d) = (Arc::clone(&meeting), Arc::clone(&job), Arc::clone(&data));
        let thread = thread::spawn(move || rank(m, j, d, 1));
        rank(meeting, job, data, 0);
        thread.join().unwrap();
    });
}

#[test]
fn loom_who_gives_up_is_never_touched() {
    for homes in [Homes::Own, Homes::All] {
        explore(3, move || give_up(homes));
    }
}

/// Explores two ranks that start an operation and one rank that closes it.
fn give_up(homes: Homes) {
    let job = Arc::new(CollectiveJob::new(2, &Ground::Heap));
    let memory: Arc<Vec<_>> = Arc::new((0..2).map(|_| UnsafeCell::new(0)).collect());
    // The steps of a rank that has seen all ranks arrive. It may find no chunk left to claim.
    let start = move |job: &CollectiveJob, memory: &[UnsafeCell<u32>], rank| {
        let (phase, chunk) = job.start(1, rank, homes, |of: Range<usize>| of.len() as u32);
        if let (Phase::Running, Some(chunk)) = (phase, chunk) {
            // SAFETY: the operation runs, so the rank that gives up stays until all chunks are
            // done, which loom checks.
            memory[chunk.of.start].with_mut(|p| unsafe { *p += 1 });
        }
        phase
    };
    let (j, m) = (Arc::clone(&job), Arc::clone(&memory));
    let other = thread::spawn(move || start(&j, &m, 1));
    let (j, m) = (Arc::clone(&job), Arc::clone(&memory));
    let gives_up = thread::spawn(move || {
        let phase = j.close(1);
        if phase == Phase::Closed {
            // SAFETY: the operation is closed, so no other thread touches the memory, which loom
            // checks.
            m.iter().for_each(|cell| cell.with_mut(|p| unsafe { *p += 1 }));
        }
        phase
    });
    let phase = start(&job, &memory, 0);
    assert_eq!([other.join().unwrap(), gives_up.join().unwrap()], [phase; 2]);
}

#[test]
fn loom_a_second_operation_does_not_inherit_chunks() {
    explore(2, || {
        let meeting = Arc::new(Meeting::<Bell>::new(2, &Ground::Heap));
        let job = Arc::new(CollectiveJob::new(2, &Ground::Heap));
        let done = Arc::new(AtomicUsize::new(0));
        let rank =
            |meeting: &Meeting<Bell>, job: &CollectiveJob, done: &AtomicUsize, rank: usize| {
                let bell = Bell::new();
                for number in 1..=2 {
                    arrive(meeting, rank, at(number), 0);
                    assert_eq!(await_all(meeting, rank, at(number), &bell), MeetingView::All);
                    let chunks = |of: Range<usize>| of.len() as u32;
                    let (phase, mut next) = job.start(number, rank, Homes::Own, chunks);
                    assert_eq!(phase, Phase::Running);
                    while let Some(chunk) = next {
                        done.fetch_add(1, Ordering::Relaxed);
                        if job.finish(number, chunk, chunks) {
                            meeting.wake(at(number));
                        }
                        next = job.claim(number, rank, Homes::All, chunks);
                    }
                    while !job.complete(number, chunks) {
                        meeting.arm(rank, at(number), bell.clone());
                        if !job.complete(number, chunks) {
                            bell.0.wait();
                        }
                    }
                    assert!(done.load(Ordering::Relaxed) >= 2 * number as usize);
                }
            };
        let (m, j, d) = (Arc::clone(&meeting), Arc::clone(&job), Arc::clone(&done));
        let thread = thread::spawn(move || rank(&m, &j, &d, 1));
        rank(&meeting, &job, &done, 0);
        thread.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 4);
    });
}

/// Explores an operation that is abandoned because a process is gone. Once no living rank holds a
/// chunk, no other thread touches the memory of the rank that gives up.
#[test]
fn loom_memory_of_an_abandoned_operation_is_touched_by_nobody() {
    explore(3, || {
        let job = Arc::new(CollectiveJob::new(2, &Ground::Heap));
        let memory = Arc::new(UnsafeCell::new(0));
        let (theirs, cell) = (Arc::clone(&job), Arc::clone(&memory));
        let works = thread::spawn(move || {
            for _ in 0..2 {
                if theirs.hold(1, 0) {
                    // SAFETY: no other thread writes while this one may hold a chunk, which loom
                    // checks.
                    cell.with_mut(|value| unsafe { *value += 1 });
                    theirs.let_go(0);
                }
            }
        });
        job.abandon(1);
        while job.is_held_by(0, 1) {
            thread::yield_now();
        }
        // SAFETY: the operation is over, which loom checks.
        memory.with_mut(|value| unsafe { *value += 10 });
        works.join().unwrap();
    });
}
