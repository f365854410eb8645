//! Tests a hall with clients but without sockets.

use super::*;
use crate::message::MAX_TEXT;

/// Makes a hall with clients of these ranks. The id of a client is its rank.
fn with_clients(world_size: u32, is_forgiving: bool, ranks: &[u32]) -> (Hall, Instant) {
    let mut hall = Hall::new(world_size, "s".into(), is_forgiving);
    ranks.iter().for_each(|rank| hall.hello(u64::from(*rank), hello(*rank, 3)).unwrap());
    (hall, Instant::now())
}

fn hello(rank: u32, world_size: u32) -> Request {
    Request::Hello { secret: "s".into(), rank, world_size, process: 7 }
}

fn join() -> Request {
    Request::Join { wait_ms: 1000 }
}

fn formed(answers: &Answers) -> Vec<(u64, u32, Vec<u32>)> {
    let one = |(id, answer): &(u64, Answer)| match answer {
        Answer::Formed { number, members } => (*id, *number, members.clone()),
        other => panic!("{other:?}"),
    };
    answers.iter().map(one).collect()
}

#[test]
fn strangers_are_told_why() {
    let mut hall = Hall::new(3, "s".into(), false);
    let wrong = |hall: &mut Hall, hello: Request| hall.hello(9, hello).unwrap_err();
    let stranger = Request::Hello { secret: "t".into(), rank: 0, world_size: 3, process: 1 };
    assert!(wrong(&mut hall, stranger).contains("HCCL_JOB_SECRET"));
    assert!(wrong(&mut hall, hello(0, 4)).contains("rank 0 of 4, and this job has 3"));
    assert!(wrong(&mut hall, hello(3, 3)).contains("rank 3 of 3"));
    assert!(wrong(&mut hall, Request::Bye).contains("not a hello"));
    hall.hello(1, hello(1, 3)).unwrap();
    let other = Request::Hello { secret: "s".into(), rank: 1, world_size: 3, process: 77 };
    let twice = wrong(&mut hall, other);
    assert!(twice.contains("a rank 1 already") && twice.contains("is process 77"), "{twice}");
    let again = wrong(&mut hall, hello(1, 3));
    assert!(again.contains("is rank 1 of this job already"), "{again}");
}

#[test]
fn the_first_generation_waits_for_all_and_is_told_of_a_rank_that_is_gone() {
    let (mut hall, now) = with_clients(3, false, &[0, 1, 2]);
    assert!(hall.hear(2, join(), now).is_empty());
    assert!(hall.hear(0, join(), now).is_empty());
    let all = formed(&hall.hear(1, join(), now));
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|(_, number, members)| *number == 1 && *members == [0, 1, 2]));

    let (mut hall, now) = with_clients(3, false, &[0, 1]);
    assert!(hall.hear(0, join(), now).is_empty());
    let answers = hall.hang_up(1, now);
    assert!(matches!(&answers[..], [(0, Answer::Gone { rank: 1, .. })]), "{answers:?}");
    // The launcher reports the end of a rank that never came.
    let (mut hall, now) = with_clients(3, false, &[0, 1]);
    assert!(hall.hear(0, join(), now).is_empty());
    let answers = hall.gone(2, "exit status 1".into(), true, now);
    assert!(matches!(&answers[..], [(0, Answer::Gone { rank: 2, .. })]), "{answers:?}");
}

#[test]
fn a_later_generation_has_those_that_are_left_and_then_newcomers() {
    let (mut hall, now) = with_clients(3, true, &[0, 1, 2]);
    for rank in [0, 1, 2] {
        hall.hear(rank, join(), now);
    }
    // Rank 0 dies and is replaced before another rank waits.
    assert!(hall.gone(0, "killed".into(), true, now).is_empty());
    hall.hello(10, hello(0, 3)).unwrap();
    assert!(hall.hear(10, join(), now).is_empty());
    assert_eq!(hall.newcomers().len(), 1);
    assert!(hall.hear(2, join(), now).is_empty());
    let all = formed(&hall.hear(1, join(), now));
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|(_, number, members)| *number == 2 && *members == [1, 2, 0]));
    // Rank 1 is done, and the newcomer dies while rank 2 waits.
    assert!(hall.hear(1, Request::Bye, now).is_empty());
    assert!(hall.hear(2, join(), now).is_empty());
    assert_eq!(formed(&hall.hang_up(10, now)), [(2, 3, vec![2])]);
}

#[test]
fn nobody_joins_a_job_that_is_done() {
    let (mut hall, now) = with_clients(3, true, &[0, 1, 2]);
    for rank in [0, 1, 2] {
        hall.hear(rank, join(), now);
    }
    hall.gone(0, "killed".into(), true, now);
    hall.hello(10, hello(0, 3)).unwrap();
    assert!(hall.hear(10, join(), now).is_empty());
    assert!(hall.hear(1, Request::Bye, now).is_empty());
    let answers = hall.hear(2, Request::Bye, now);
    assert!(matches!(&answers[..], [(10, Answer::Gone { why, .. })] if why.contains("done")));
    // The launcher does not count its end as a failure of the job.
    let reports = hall.reports();
    let reports = reports.lock().unwrap();
    assert!(matches!(&reports[..], [Report { rank: 0, follows: true, .. }]), "{reports:?}");
}

#[test]
fn ranks_that_have_failed_are_not_done_and_are_replaced() {
    let fails = || Request::Fails { text: "no memory".into(), follows: false };
    for told_by_launcher in [false, true] {
        let (mut hall, now) = with_clients(3, true, &[0, 1, 2]);
        (0..3).for_each(|id| drop(hall.hear(id, join(), now)));
        assert_eq!(hall.generation, 1);
        for rank in [0, 1, 2] {
            // A process that ends with an error leaves in order, too.
            if told_by_launcher {
                hall.hear(u64::from(rank), Request::Bye, now);
                hall.gone(rank, "exit status 1".into(), true, now);
            } else {
                hall.hear(u64::from(rank), fails(), now);
                hall.hear(u64::from(rank), Request::Bye, now);
            }
        }
        hall.hello(10, hello(1, 3)).unwrap();
        assert_eq!(formed(&hall.hear(10, join(), now)), [(10, 2, vec![1])]);
        // The one that is left is told why a value does not come.
        let get = Request::Get { key: "k".into(), from: Some(0), wait_ms: 1000 };
        let answers = hall.hear(10, get, now);
        let [(10, Answer::Gone { rank: 0, why })] = &answers[..] else { panic!("{answers:?}") };
        let expected = if told_by_launcher { "exit status 1" } else { "it has failed" };
        assert_eq!(why, expected);
    }
}

#[test]
fn a_value_is_there_for_as_many_reads_as_it_was_stored_for() {
    let (mut hall, now) = with_clients(3, false, &[0, 1, 2]);
    let get = |from| Request::Get { key: "k".into(), from, wait_ms: 1000 };
    assert!(hall.hear(1, get(Some(0)), now).is_empty());
    let set = Request::Set { key: "k".into(), value: vec![5], reads: 2 };
    let answers = hall.hear(0, set, now);
    assert!(matches!(&answers[..], [(0, Answer::Done), (1, Answer::Value(v))] if v == &[5]));
    let answers = hall.hear(2, get(Some(0)), now);
    assert!(matches!(&answers[..], [(2, Answer::Value(v))] if v == &[5]));
    assert_eq!((hall.values.len(), hall.stored), (0, 0));
    // No rank waits for values that a gone rank would store.
    assert!(hall.hear(2, get(Some(0)), now).is_empty());
    let answers = hall.hang_up(0, now);
    assert!(matches!(&answers[..], [(2, Answer::Gone { rank: 0, .. })]));
}

#[test]
fn a_wait_ends_at_its_limit_with_the_ranks_that_have_not_come() {
    let (mut hall, now) = with_clients(3, false, &[0]);
    assert!(hall.hear(0, join(), now).is_empty());
    assert!(hall.settle(now).is_empty());
    let answers = hall.settle(hall.next_limit().unwrap());
    let [(0, Answer::Late { missing })] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(missing, &[1, 2]);
    assert_eq!(hall.next_limit(), None);
}

#[test]
fn a_later_meeting_names_the_rank_that_is_there_and_does_not_come() {
    let (mut hall, now) = with_clients(3, true, &[0, 1, 2]);
    (0..3).for_each(|id| drop(hall.hear(id, join(), now)));
    assert_eq!(hall.generation, 1);
    assert!(hall.hear(0, join(), now).is_empty());
    assert!(hall.hear(2, join(), now).is_empty());
    let answers = hall.settle(hall.next_limit().unwrap());
    assert_eq!(answers.len(), 2);
    for (_, answer) in answers {
        assert!(matches!(answer, Answer::Late { missing } if missing == [1]));
    }
}

#[test]
fn a_rank_that_waits_no_longer_hands_on_which_ranks_have_not_come() {
    let (mut hall, now) = with_clients(3, false, &[0, 1]);
    assert!(hall.hear(1, join(), now).is_empty());
    let answers = hall.hear(0, Request::Bye, now);
    let [(1, Answer::Gone { rank: 0, why })] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(why, "it waits no longer: rank 2 has not come");
}

#[test]
fn a_store_has_an_end() {
    let (mut hall, now) = with_clients(3, false, &[0]);
    let big = |number: usize| Request::Set {
        key: format!("{number:04}"),
        value: vec![0; MAX_VALUE],
        reads: 0,
    };
    let full = MAX_STORED / (MAX_VALUE + 4);
    for number in 0..full {
        let answers = hall.hear(0, big(number), now);
        assert!(matches!(&answers[..], [(0, Answer::Done)]));
    }
    assert!(matches!(&hall.hear(0, big(full), now)[..], [(0, Answer::Full { .. })]));
    // A value that replaces another one still fits.
    assert!(matches!(&hall.hear(0, big(0), now)[..], [(0, Answer::Done)]));
    assert!(hall.stored <= MAX_STORED);
}

#[test]
fn a_rank_that_reports_again_and_again_finds_an_end() {
    let (mut hall, now) = with_clients(3, false, &[0]);
    for number in 0..MAX_STORED / (MAX_VALUE + 4) {
        let key = format!("{number:04}");
        hall.hear(0, Request::Set { key, value: vec![0; MAX_VALUE], reads: 0 }, now);
    }
    let room = MAX_STORED - hall.stored;
    let fails = || Request::Fails { text: "x".repeat(2 * MAX_TEXT), follows: false };
    let taken = (0..1000)
        .take_while(|_| matches!(&hall.hear(0, fails(), now)[..], [(0, Answer::Done)]))
        .count();
    // Each report takes the bytes of its text, which was cut, and of a `Report`.
    assert!((1..=room / MAX_TEXT).contains(&taken), "{taken} reports in {room} bytes");
    assert_eq!(hall.reports().lock().unwrap().len(), taken);
    let (stored, found) = hall.recount();
    assert!(stored == found && stored <= MAX_STORED, "{stored}, and {found} are found");
}
