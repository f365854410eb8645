use super::*;

fn stillness() -> Stillness {
    Stillness {
        others: BTreeMap::new(),
        asked: BTreeMap::new(),
        round: 1,
        asks: None,
        answers: BTreeMap::new(),
        ends: BTreeMap::new(),
    }
}

fn still(state: u64, waits_for: impl IntoIterator<Item = u64>) -> StillProcess {
    let waits_for = waits_for.into_iter().collect();
    StillProcess { state, waits_for, lines: Vec::new(), more: 0 }
}

#[test]
fn all_count_for_whom_anybody_waits() {
    let mut known = stillness();
    known.others = [(2, still(7, [3])), (4, still(9, [1]))].into();
    let own = still(5, [2]);
    assert_eq!(known.states_of_all(1, &own), None, "3 is not still");
    known.others.insert(3, still(8, [1, 2]));
    assert_eq!(known.states_of_all(1, &own), Some([(2, 7), (3, 8)].into()));
}

#[test]
fn an_answer_about_another_state_is_none() {
    let mut known = stillness();
    let states = [(2, 7), (3, 8)].into();
    let answer = |state| StillAnswer { state, frames: FrameCounts::new() };
    known.answers = [(2, answer(7)), (3, answer(7))].into();
    assert!(!known.are_all_answered(&states));
    known.answers.insert(3, answer(8));
    assert!(known.are_all_answered(&states));
    known.forget(2);
    assert!(!known.are_all_answered(&states));
}

#[test]
fn what_waits_for_somebody_else_than_before_is_told_again_in_the_same_state() {
    let process = |line: &str| StillProcess { lines: vec![line.into()], ..still(7, [2]) };
    let mut told = Told::new();
    told.note_said(&process("waiting for ranks 0, 1"));
    told.to.insert(2);
    told.note_said(&process("waiting for ranks 0, 1"));
    assert_eq!(told.to, [2].into());
    told.note_said(&process("waiting for rank 1"));
    assert_eq!(told.to, [].into());
}

#[test]
fn a_process_that_leaves_after_a_deadlock_is_lost_only_when_all_here_know_of_the_deadlock() {
    let is_lost_now = || ENDS.try_lock().is_ok();
    let end = StateEnd {
        waits_for: BTreeSet::new(),
        is_asked: true,
        end: Box::new(move |text| {
            assert_eq!(text, "all wait");
            assert!(!is_lost_now(), "not while tasks are told");
            Box::new(move || assert!(is_lost_now(), "before they give up"))
        }),
    };
    end.conclude(&[], BTreeMap::new(), "all wait".into());
}

#[test]
fn a_deadlock_ends_a_state_that_was_asked_about_and_no_other() {
    let mut known = stillness();
    let insert = |known: &mut Stillness, state, is_asked| {
        let end = Box::new(|_| Box::new(|| {}) as Box<dyn FnOnce()>);
        let end = StateEnd { waits_for: [2].into(), is_asked, end };
        known.keep_asked();
        known.ends.insert(state, end);
    };
    insert(&mut known, 5, true);
    insert(&mut known, 6, false);
    let ends = |known: &mut Stillness, name, state| {
        known.end_of(1, name, &[(1, state), (2, 7)].into()).is_some()
    };
    assert!(!ends(&mut known, 2, 6), "nobody has asked about it");
    assert!(!ends(&mut known, 3, 5), "it does not wait for 3");
    // The process has moved, and is still again in another state.
    known.keep_asked();
    insert(&mut known, 7, false);
    assert!(ends(&mut known, 2, 5));
    assert!(!ends(&mut known, 2, 5), "it has ended");
    for state in 10..10 + 2 * KEPT as u64 {
        insert(&mut known, state, true);
    }
    assert_eq!(known.ends.len(), KEPT);
    assert!(ends(&mut known, 2, 9 + 2 * KEPT as u64), "the last ones are kept");
}

#[test]
fn what_is_not_listed_is_counted() {
    let lines = |count: usize| (0..count).map(|at| format!("stream {at}: waits")).collect();
    let process = |count| StillProcess { lines: lines(count), ..still(7, [1, 2]) }.shortened();
    let mut known = stillness();
    known.others = [(2, process(20).shortened()), (3, process(5)), (4, process(9))].into();
    let text = known.text(&process(3), &[], &[(2, 7), (3, 7)].into());
    assert_eq!(text.lines().count(), 1 + LISTED + 1, "{text}");
    assert!(text.ends_with("\n  and 12 more"), "20 + 5 + 3 less {LISTED}: {text}");
    assert!(list(lines(LISTED), 0).ends_with("waits"));
}

#[test]
fn a_frame_that_is_on_its_way_may_let_somebody_go_on() {
    let mut known = stillness();
    let answer = |frames: &[_]| StillAnswer { state: 7, frames: frames.iter().copied().collect() };
    // Process 1 has sent 5 frames to 2, and process 3 has sent two to 2. The counts of other
    // processes do not matter.
    let own = answer(&[(2, (5, 1)), (9, (4, 4))]);
    known.answers = [(2, answer(&[(1, (1, 5)), (3, (0, 1))])), (3, answer(&[(2, (2, 0))]))].into();
    assert!(!known.is_all_heard(1, &own));
    known.answers.insert(2, answer(&[(1, (1, 5)), (3, (0, 2))]));
    assert!(known.is_all_heard(1, &own));
    known.answers.insert(2, answer(&[(1, (2, 5)), (3, (0, 2))]));
    assert!(!known.is_all_heard(1, &own));
    known.answers.insert(2, answer(&[(1, (1, 4)), (3, (0, 2))]));
    assert!(!known.is_all_heard(1, &own));
}
