//! Tests of the resources that operators take, counted before any is acquired.

use crate::algorithms::{mesh_all_gather, ring_all_gather};
use crate::recorder::*;
use ascend_operator::check::{Product, Report, Setting, check_all, check_with};
use ascend_operator::plan::{Engine, table};
use ascend_operator::{Operator, Plan, ReduceOp, Task};

fn plans(operator: &Operator) -> Vec<Plan> {
    operator.ranks.iter().map(|tasks| Plan::of(tasks, Engine::AicpuTs)).collect()
}

/// Returns the number of threads, of notifies of channels, and of channels.
fn page(plan: &Plan) -> (u32, u64, usize) {
    (plan.threads, plan.channel_notifies(), plan.channels.len())
}

#[test]
fn ring_and_mesh_of_four_take_what_the_documentation_says() {
    for (operator, expected) in
        [(ring_all_gather(4, 8), (2, 4, 2)), (mesh_all_gather(4, 8), (3, 6, 3))]
    {
        for plan in plans(&operator) {
            assert_eq!(page(&plan), expected);
            let threads = plan.threads;
            assert_eq!(plan.main_notifies, threads - 1);
            assert_eq!(plan.sub_notifies, vec![1; threads as usize - 1]);
            assert_eq!(plan.control_notifies, 2);
            // The host starts the main thread with one more notify.
            assert_eq!(plan.notifies_per_thread(), threads);
        }
    }
}

#[test]
fn a_mesh_takes_a_thread_and_a_channel_for_each_peer() {
    for ranks in 2..12 {
        for plan in plans(&mesh_all_gather(ranks, 8)) {
            let peers = ranks - 1;
            assert_eq!(page(&plan), (peers, 2 * u64::from(peers), peers as usize));
            assert_eq!(plan.thread_notifies(), 2 * u64::from(peers - 1));
        }
    }
}

#[test]
fn the_host_needs_no_control_notifies_and_brings_its_stream() {
    let tasks = &mesh_all_gather(4, 8).ranks[0];
    let plan = Plan::of(tasks, Engine::CpuTs);
    assert_eq!((plan.control_notifies, plan.notifies_per_thread()), (0, 1));
    assert_eq!((plan.threads, plan.threads_to_acquire()), (3, 2));
    assert_eq!(Plan::of(tasks, Engine::AicpuTs).threads_to_acquire(), 3);
}

#[test]
fn a_table_has_a_column_for_ranks_that_are_alike() {
    let expected = [
        "                                all ranks",
        "threads                                 3",
        "notifies of the main thread             2",
        "notifies of each sub-thread             1",
        "notifies of all threads                 4",
        "notifies to acquire per thread          3",
        "channels                                3",
        "notifies of each channel                2",
        "notifies of all channels                6",
        "control notifies                        2",
    ];
    assert_eq!(table(&plans(&mesh_all_gather(4, 8))).to_string(), expected.join("\n"));
    let mut operator = mesh_all_gather(5, 8);
    operator.ranks[2].channels[0].1 = 13;
    let text = table(&plans(&operator)).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "                                ranks 0, 1, 3 and 4  rank 2");
    assert_eq!(lines[7], "notifies of each channel                          2      13");
}

#[test]
fn operators_on_one_communicator_share_what_they_take() {
    let (ring, mesh) = (ring_all_gather(4, 8), mesh_all_gather(4, 8));
    let both = plans(&ring)[0].clone().with(&plans(&mesh)[0]);
    assert_eq!(page(&both), (3, 6, 3));
    assert_eq!(both.sub_notifies, [1, 1]);
}

#[test]
fn more_than_was_planned_is_found() {
    let (ring, mesh) = (ring_all_gather(4, 8), mesh_all_gather(4, 8));
    let against = |operator: &Operator, plans: Vec<Plan>| {
        check_with(std::slice::from_ref(operator), &Setting { plans, ..Setting::default() })
    };
    expect(&against(&mesh, plans(&mesh)), "", &[], &[]);
    expect(&against(&ring, plans(&mesh)), "", &[], &[]);
    let report = against(&mesh, plans(&ring)).to_string();
    for words in [
        "error[plan]: rank 0 takes 3 threads, and 2 were planned",
        "error[plan]: rank 0 takes 2 notifies of the main thread, and 1 were planned",
        "error[plan]: rank 0 takes a channel to rank 2, and none was planned",
        "= and 3 more of the same kind",
    ] {
        assert!(report.contains(words), "{words} is not in\n{report}");
    }
}

#[test]
fn a_communicator_has_two_hundred_threads() {
    // The main thread counts on an AI CPU, but not if it is the user's stream.
    let new = |threads| {
        let mut r = other(1);
        (1..threads).for_each(|thread| {
            r.start(0, thread);
        });
        (1..threads).for_each(|thread| {
            r.end(0, thread);
        });
        r.operator
    };
    let look =
        |threads, engine| check_with(&[new(threads)], &Setting { engine, ..Setting::default() });
    expect(&look(200, Engine::AicpuTs), "", &[], &[]);
    let words = ["rank 0 takes 201 threads of a communicator, and there are 200"];
    expect(&look(201, Engine::AicpuTs), "quota", &words, &[]);
    expect(&look(201, Engine::CpuTs), "", &[], &[]);
    expect(&look(202, Engine::CpuTs), "quota", &[], &[]);
}

fn on_ai_cpu(operator: Operator) -> Report {
    check_with(&[operator], &Setting { engine: Engine::AicpuTs, ..Setting::default() })
}

#[test]
fn a_communicator_has_so_many_notifies() {
    let mut r = other(1);
    r.start(0, 1).end(0, 1);
    // There are 32,768 notifies for each of two threads, and the start of the main thread takes one
    // more.
    r.record(0, 1, of_thread(0, 0, 32_766)).wait(0, 0, of_thread(0, 0, 32_766));
    expect(&on_ai_cpu(r.operator.clone()), "", &[], &[]);
    r.record(0, 1, of_thread(0, 0, 32_767)).wait(0, 0, of_thread(0, 0, 32_767));
    let words =
        ["rank 0 takes 65538 notifies of all threads of a communicator, and there are 65536"];
    expect(&on_ai_cpu(r.operator), "quota", &words, &[]);
}

#[test]
fn a_thread_and_a_channel_have_so_many_notifies() {
    let mut r = other(1);
    let notify = of_thread(0, 0, 65_534);
    r.record(0, 0, notify).wait(0, 0, notify);
    let words = ["rank 0 takes 65536 notifies of a thread, and there are 65535"];
    expect(&on_ai_cpu(r.operator), "quota", &words, &[]);
    for (notifies, rule) in [(64, ""), (65, "quota")] {
        let mut r = other(2);
        r.operator.ranks.iter_mut().for_each(|rank| rank.channels[0].1 = notifies);
        expect(&on_ai_cpu(r.operator), rule, &[], &[]);
    }
}

/// Returns an operator of one rank, whose sub-threads have `notifies` notifies each.
fn wide(threads: u32, notifies: u32) -> Operator {
    let mut r = other(1);
    for thread in 1..=threads {
        r.start(0, thread);
        for index in 1..notifies {
            let notify = of_thread(0, thread, index);
            r.record(0, thread, notify).wait(0, thread, notify);
        }
        r.end(0, thread);
    }
    r.operator
}

#[test]
fn threads_that_lack_notifies_are_no_use_to_the_next_operator_on_a2_and_a3() {
    let row = [wide(100, 4), wide(120, 8)];
    let words = [
        "rank 0 takes 220 threads of a communicator, and there are 200",
        "run the operator that uses most notifies first",
    ];
    for product in [None, Some(Product::A2), Some(Product::A3), Some(Product::Ascend950)] {
        let setting = Setting { product, ..Setting::default() };
        for operator in &row {
            expect(&check_with(std::slice::from_ref(operator), &setting), "", &[], &[]);
        }
        let found = matches!(product, Some(Product::A2 | Product::A3));
        let rule = if found { "quota" } else { "" };
        let report = check_with(&row, &setting);
        expect(&report, rule, if found { &words } else { &[] }, &[]);
        let [first, second] = row.clone();
        expect(&check_with(&[second, first], &setting), "", &[], &[]);
    }
}

#[test]
fn the_notifies_of_a_stream_are_not_those_of_the_threads_beside_it() {
    let setting = Setting { product: Some(Product::A2), ..Setting::default() };
    // The main thread ends more than a hundred sub-threads. Each needs one notify and gets four.
    let row = [wide(100, 1), wide(120, 1)];
    expect(&check_with(&row, &setting), "", &[], &[]);
    let row = [wide(149, 1), wide(59, 8)];
    let words = ["rank 0 takes 208 threads of a communicator, and there are 200"];
    expect(&check_with(&row, &setting), "quota", &words, &[]);
    // On an AI CPU all threads get as many notifies as the main thread needs.
    let setting = Setting { engine: Engine::AicpuTs, ..setting };
    expect(&check_with(&row, &setting), "", &[], &[]);
}

#[test]
fn a_950_keeps_the_notifies_that_its_threads_have() {
    let setting = Setting { product: Some(Product::Ascend950), ..Setting::default() };
    let row = [wide(1, 60_000), wide(100, 64)];
    let words =
        ["rank 0 takes 66336 notifies of all threads of a communicator, and there are 65536"];
    expect(&check_with(&row, &setting), "quota", &words, &[]);
    expect(&check_with(&row[1..], &setting), "", &[], &[]);
}

#[test]
fn a_channel_keeps_the_notifies_that_the_first_operator_opened_it_with() {
    let with = |notifies| {
        let mut r = other(2);
        r.operator.ranks.iter_mut().for_each(|rank| rank.channels[0].1 = notifies);
        r.operator
    };
    let words = [
        "operator 1 uses 9 notifies of the channel from rank 0 to rank 1, which operator 0 opened with 8",
        "run the operator that uses most notifies first",
    ];
    expect(&check_all(&[with(2), with(9)]), "quota", &words, &[]);
    expect(&check_all(&[with(9), with(2)]), "", &[], &[]);
    expect(&check_all(&[with(2), with(8)]), "", &[], &[]);
}

#[test]
fn a_product_that_some_products_cannot_compute_is_found() {
    for (op, element, found) in
        [(ReduceOp::Prod, 4, true), (ReduceOp::Sum, 8, true), (ReduceOp::Sum, 4, false)]
    {
        let mut r = other(1);
        r.copy(0, 0, input(0, 0..4), output(0, 0..4));
        let task = Task::Reduce { from: input(0, 4..8), to: output(0, 0..4), op };
        r.here().task(0, 0, task);
        let (size, marks) = (8 * element, r.marks.clone());
        let rank = &mut r.operator.ranks[0];
        (rank.input, rank.output, r.operator.element) = (size, size, element);
        for product in [Product::A2, Product::A3, Product::Ascend950] {
            let setting = Setting { product: Some(product), ..Setting::default() };
            let rule = if found && product != Product::Ascend950 { "product" } else { "" };
            expect(&check_with(&[r.operator.clone()], &setting), rule, &[], &marks);
        }
    }
}
