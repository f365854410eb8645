//! The full messages of the checker about broken operators, with the lines to which they point. The
//! checker has no message about the repaired operators.

use hccl::dtype::ReduceOp;
use hccl::operator::check::Setting;
use hccl::operator::*;
use hccl::prelude::*;

/// Returns a report in which each line number is replaced by the text of the line.
fn told(report: &Report) -> String {
    let source: Vec<&str> = include_str!("told.rs").lines().collect();
    let line = |line: &str| match line.trim().strip_prefix("--> ") {
        Some(place) => {
            let number = place.rsplit(':').nth(1).and_then(|number| number.parse::<usize>().ok());
            let text = source[number.expect(place) - 1].trim();
            assert!(place.contains("told.rs:"), "{place}");
            format!("  --> {text}\n")
        }
        None => format!("{line}\n"),
    };
    report.to_string().lines().map(line).collect()
}

/// Asserts that the report about the broken operator has this text, and that about the repaired one
/// has no finding.
fn twins(operator: impl Fn(bool) -> Operator, ranks: u32, count: usize, text: &str) {
    let [broken, good] =
        [true, false].map(|broken| operator(broken).record::<f32>(ranks, count).unwrap().check());
    assert_eq!(told(&broken), text);
    assert!(good.findings.is_empty() && good.skipped.is_empty(), "{good}");
}

#[test]
fn a_buffer_that_is_exposed_less_often_than_it_is_entered_is_told_as_that() {
    let operator = |broken: bool| {
        Operator::broadcast("often", 0, move |op, main| match op.rank() {
            0 => {
                main.copy(op.input(), op.buffer().slice(..op.count()));
                main.copy(op.input(), op.output());
                main.lend(op.channel(1));
                if !broken {
                    main.lend(op.channel(1));
                }
            }
            _ => {
                main.visit(op.channel(0), |_| ());
                main.visit(op.channel(0), |theirs| main.read(theirs.slice(..4), op.output()));
            }
        })
    };
    twins(
        operator,
        2,
        4,
        "error[deadlock]: this wait never ends: rank 0 exposes its buffer to rank 1 once, and rank 1 enters it twice
  --> main.visit(op.channel(0), |theirs| main.read(theirs.slice(..4), op.output()));
   = rank 1, thread 0, task 2: wait for notify 0 of rank 1 on its channel with rank 0
  --> main.lend(op.channel(1));
   = rank 0, thread 0, task 2: record of notify 0 of rank 1 on its channel with rank 0
   = help: let rank 0 expose and reclaim its buffer as often as rank 1 enters and leaves it: each `lend` has its `visit`

2 ranks, 2 threads, 9 tasks: 1 finding; until then not fully checked: unconsumed, set-twice, two-waits, race, result, early, outlives
",
    );
}

#[test]
fn a_buffer_that_is_never_entered_is_told_as_that() {
    let operator = |broken: bool| {
        Operator::other("never", 0, 0, move |op, main| match op.rank() {
            0 => main.lend(op.channel(1)),
            _ if broken => _ = op.channel(0),
            _ => main.visit(op.channel(0), |_| ()),
        })
    };
    twins(
        operator,
        2,
        0,
        "error[deadlock]: this wait never ends: rank 0 exposes its buffer to rank 1 once, and rank 1 never enters it
  --> 0 => main.lend(op.channel(1)),
   = rank 0, thread 0, task 1: wait for notify 1 of rank 0 on its channel with rank 1
   = help: let rank 0 expose and reclaim its buffer as often as rank 1 enters and leaves it: each `lend` has its `visit`

2 ranks, 2 threads, 2 tasks: 1 finding; until then not fully checked: unconsumed, set-twice, two-waits, race, result, early, outlives
",
    );
}

#[test]
fn a_wrong_chunk_names_the_tasks_by_which_it_came() {
    let operator = |broken: bool| {
        Operator::all_gather("shift", move |op, main| {
            let block = |rank| op.output().part(rank, op.ranks());
            let own = op.buffer().slice(..op.count());
            main.copy(op.input(), own);
            main.copy(op.input(), block(op.rank()));
            for distance in 1..3 {
                let (to, from) = (op.peer(-distance), op.peer(distance));
                let place = if broken && op.rank() == 2 { op.peer(3 - distance) } else { from };
                main.exchange(op.channel(to), op.channel(from), |theirs| {
                    main.read(theirs.at(own), block(place));
                });
            }
        })
    };
    let report = operator(true).record::<f32>(3, 4).unwrap().check();
    assert_eq!(
        told(&report),
        "error[result]: bytes 0..16 of the output of rank 2 must be bytes 0..16 of the input of rank 0, and are bytes 0..16 of the input of rank 1; these tasks moved them there, the last one first
  --> main.read(theirs.at(own), block(place));
   = rank 2, thread 0, task 9: copy from bytes 0..16 of the communication buffer of rank 1 to bytes 0..16 of the output of rank 2
  --> main.copy(op.input(), own);
   = rank 1, thread 0, task 0: copy from bytes 0..16 of the input of rank 1 to bytes 0..16 of the communication buffer of rank 1
   = help: check what each task reads and where it writes
   = and 1 more of the same lines

3 ranks, 3 threads, 36 tasks: 1 finding
"
    );
    let good = operator(false).record::<f32>(3, 4).unwrap().check();
    assert!(good.findings.is_empty(), "{good}");
}

#[test]
fn a_chunk_that_nobody_writes_has_the_line_of_its_operator() {
    let operator = |broken: bool| {
        Operator::all_reduce("forgets", Sum, move |op, main| {
            if !broken {
                main.copy(op.input(), op.output());
            }
        })
    };
    twins(
        operator,
        1,
        4,
        "error[result]: bytes 0..16 of the output of rank 0 must be bytes 0..16 of the input of rank 0, and nobody writes them
  --> Operator::all_reduce(\"forgets\", Sum, move |op, main| {
   = help: let a task write them, and check the offsets and lengths

1 rank, 1 thread, 0 tasks: 1 finding
",
    );
}

#[test]
fn a_channel_with_one_end_has_the_line_that_uses_it() {
    let operator = |broken: bool| {
        Operator::other("one end", 0, 0, move |op, main| match op.rank() {
            0 => main.signal(op.channel(1), 0),
            _ if broken => {}
            _ => main.await_signal(op.channel(0), 0),
        })
    };
    twins(
        operator,
        2,
        0,
        "error[remote]: rank 0 opens a channel to rank 1, which opens none to it
  --> 0 => main.signal(op.channel(1), 0),
   = help: open it on both ranks: opening waits for the peer

error[unconsumed]: nobody waits for this record, so its notify stays set, and the first wait for it in the next operator ends at once
  --> 0 => main.signal(op.channel(1), 0),
   = rank 0, thread 0, task 0: record of notify 2 of rank 1 on its channel with rank 0
   = help: let rank 1 wait for it in the same operator, or leave the record out

2 ranks, 2 threads, 1 task: 2 findings; until then not fully checked: result
",
    );
}

#[test]
fn what_is_too_much_or_not_planned_has_the_line_of_its_operator() {
    let wide = |threads| Operator::other("wide", 0, 0, move |_, main| main.fork(threads, |_| ()));
    let [much, few] = [202, 2].map(|threads| wide(threads).record::<f32>(1, 0).unwrap());
    assert_eq!(
        told(&much.check()),
        "error[quota]: rank 0 takes 201 threads of a communicator, and there are 200
  --> let wide = |threads| Operator::other(\"wide\", 0, 0, move |_, main| main.fork(threads, |_| ()));
   = help: use fewer threads, and let each do several things one after the other

1 rank, 202 threads, 804 tasks: 1 finding
"
    );
    assert!(few.check().findings.is_empty());

    let planned = |of: &Recorded| Setting { plans: of.plans(Engine::CpuTs), ..Setting::default() };
    let one = wide(1).record::<f32>(1, 0).unwrap();
    let tasks = std::slice::from_ref(few.tasks());
    assert_eq!(
        told(&check::check_with(tasks, &planned(&one))),
        "error[plan]: rank 0 takes 2 threads, and 1 were planned
  --> let wide = |threads| Operator::other(\"wide\", 0, 0, move |_, main| main.fork(threads, |_| ()));
   = help: plan for this operator (`Plan::of`), or let it use fewer resources

error[plan]: rank 0 takes 1 notifies of the main thread, and 0 were planned
  --> let wide = |threads| Operator::other(\"wide\", 0, 0, move |_, main| main.fork(threads, |_| ()));
   = help: plan for this operator (`Plan::of`), or let it use fewer resources

1 rank, 2 threads, 4 tasks: 2 findings
"
    );
    assert!(check::check_with(tasks, &planned(&few)).findings.is_empty());
}

/// Makes an operator in which all other ranks reduce into the buffer of rank 0, at once or one
/// after the other.
fn push(op: impl ReduceOp, at_once: bool) -> Operator {
    Operator::all_reduce("push", op, move |op, main| {
        let shared = op.buffer().slice(..op.count());
        if op.rank() > 0 {
            main.visit(op.channel(0), |theirs| main.write_reduce(op.input(), theirs.at(shared)));
            return main.visit(op.channel(0), |theirs| main.read(theirs.at(shared), op.output()));
        }
        main.copy(op.input(), shared);
        if at_once {
            let exposed: Vec<_> = op.others().map(|peer| main.expose(op.channel(peer))).collect();
            exposed.into_iter().for_each(|exposed| main.reclaim(exposed));
        } else {
            op.others().for_each(|peer| main.lend(op.channel(peer)));
        }
        op.others().for_each(|peer| main.lend(op.channel(peer)));
        main.copy(shared, op.output());
    })
}

#[test]
fn a_sum_of_floats_whose_order_is_open_is_told_as_not_reproducible() {
    let report = push(Sum, true).record::<f32>(4, 100).unwrap().check();
    assert_eq!(
        told(&report),
        "note[not-reproducible]: two tasks reduce into bytes 0..400 of the communication buffer of rank 0, and nothing orders the two: a sum of floating-point numbers is rounded, so it may differ from run to run
  --> main.visit(op.channel(0), |theirs| main.write_reduce(op.input(), theirs.at(shared)));
   = rank 1, thread 0, task 1: sum of bytes 0..400 of the input of rank 1 into bytes 0..400 of the communication buffer of rank 0
  --> main.visit(op.channel(0), |theirs| main.write_reduce(op.input(), theirs.at(shared)));
   = rank 2, thread 0, task 1: sum of bytes 0..400 of the input of rank 2 into bytes 0..400 of the communication buffer of rank 0
   = help: change nothing if that is acceptable; otherwise let one task wait for the other, or let one thread do all reductions
   = and 1 more of the same lines

4 ranks, 4 threads, 32 tasks: no error, 1 note
"
    );
    // The finding is a note: the operator may run.
    assert!(report.is_good() && report.skipped.is_empty());
    assert_eq!((report.errors().count(), report.notes().count()), (0, 1));
    assert_eq!(report.findings[0].severity, Severity::Note);
}

#[test]
fn sums_in_one_order_and_those_that_are_not_rounded_are_reproducible() {
    let quiet = |report: Report| assert!(report.findings.is_empty(), "{report}");
    quiet(push(Sum, false).record::<f32>(4, 100).unwrap().check());
    quiet(push(Sum, true).record::<i32>(4, 100).unwrap().check());
    quiet(push(Max, true).record::<f32>(4, 100).unwrap().check());
    // If there are two ranks, only one of them reduces.
    quiet(push(Sum, true).record::<f32>(2, 100).unwrap().check());
    assert_eq!(push(Prod, true).record::<f16>(3, 1).unwrap().check().notes().count(), 1);
}
