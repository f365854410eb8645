//! Tests of the rules about several groups, steps and queues, the working cores, and the launch
//! itself.

use ascend_program::check::{Finding, Product, Severity};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::Builder;

use crate::check::harness::{Kernel, all_reduce, all_to_all_v, exchange, expect, reduction, rules};

fn tensors(k: &mut Kernel) -> (Base, Base) {
    (k.input("x", Number::F16), k.output("y", Number::F16))
}

/// Returns a second client with the same tiling.
pub(crate) fn second(k: &mut Kernel, group: u32) -> ClientId {
    let other = k.client("other", group, None);
    k.hccl(Hccl::Init(other, 0));
    k.hccl(Hccl::Configure(other, 64, "cc0".into()));
    other
}

/// Returns two clients, each of its own group, with a task and its operation.
fn two_groups(k: &mut Kernel) -> [(ClientId, TaskId, Operation); 2] {
    let (x, y) = tensors(k);
    let hccl = k.ready(&[2]);
    let other = second(k, 1);
    let (first, next) = (k.task("first", hccl), k.task("second", other));
    [(hccl, first, all_reduce(k, x, y)), (other, next, all_reduce(k, x, y))]
}

/// Adds an AlltoAllV of one element for each rank, divided into steps of this size.
fn stepped(
    k: &mut Kernel,
    step: u32,
    body: impl FnOnce(&mut ascend_program_testing::build::Builder, TaskId),
) {
    let (x, y) = tensors(k);
    let hccl = k.ready(&[8]);
    k.put(64, step << 16 | 1 << 24);
    let algorithm = b"AlltoAll=level0:fullmesh;level1:pairwise".to_vec();
    k.patches.push((64 + 144, algorithm));
    let t = k.task("tiles", hccl);
    let operation = all_to_all_v(k, (x, y), 4, 1);
    k.on_block(0, |b| {
        b.prepare(t, operation, 1, true);
        body(b, t);
        b.finalize(hccl);
    });
}

/// Makes every core write a batch into this queue. The host has set `queues` queues for each of
/// `cores` cores.
fn batches_in_queues(k: &mut Kernel, (queues, cores): (u32, u32), queue: u64) {
    k.write_workspace(256);
    let items = Place { base: Base::Workspace, offset: k.n(0) };
    let (count, queue) = (k.n(4), k.n(queue));
    let hccl = k.ready(&[18]);
    // Both numbers are 16 bits wide.
    k.put(42, queues | cores << 16);
    let task = k.task("batch", hccl);
    k.prepare(task, Operation::BatchWrite { items, count, queue }, 1, true);
    k.finalize(hccl);
}

rules! {
    a_context_has_one_client, "group", MixAiv10, |k, broken| {
        k.ready(&[2]);
        second(k, if broken { 0 } else { 1 });
    };

    a2_has_one_context, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::A2 } else { Product::A3 };
        k.ready(&[2]);
        second(k, 1);
    };

    a_kernel_reaches_two_contexts, "product", MixAiv10, |k, broken| {
        k.ready(&[2]);
        second(k, if broken { 2 } else { 1 });
    };

    a_client_comes_after_a_task_of_another_group, "task", MixAiv10, |k, broken| {
        let [(hccl, t, one), (other, u, two)] = two_groups(k);
        k.on_block(0, |b| {
            b.prepare(t, one, 1, true);
            b.hccl(Hccl::After(if broken { hccl } else { other }, t));
            b.prepare(u, two, 1, true);
            b.wait(t);
            b.wait(u);
            b.finalize(hccl);
            b.finalize(other);
        });
    };

    what_comes_after_another_group_waits_for_it, "hang", MixAiv10, |k, broken| {
        let [(hccl, t, one), (other, u, two)] = two_groups(k);
        k.on_block(0, |b| {
            b.prepare(t, one, 1, false);
            b.hccl(Hccl::After(other, t));
            b.prepare(u, two, 1, true);
            if !broken {
                b.commit(t);
            }
            b.wait(u);
            if broken {
                b.commit(t);
            }
            b.wait(t);
            b.finalize(hccl);
            b.finalize(other);
        });
    };

    group_syncs_take_slots_too, "prepares", MixAiv10, |k, broken| {
        let [(hccl, t, one), (other, u, two)] = two_groups(k);
        k.on_block(0, |b| {
            b.prepare(t, one, 1, true);
            b.times(if broken { 63 } else { 62 }, |b| b.hccl(Hccl::After(other, t)));
            b.prepare(u, two, 1, true);
            b.wait(t);
            b.wait(u);
            b.finalize(hccl);
            b.finalize(other);
        });
    };

    only_a3_synchronises_groups, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        let [(hccl, t, one), (other, u, two)] = two_groups(k);
        k.on_block(0, |b| {
            b.prepare(t, one, 1, true);
            b.hccl(Hccl::After(other, t));
            b.prepare(u, two, 1, true);
            b.wait(t);
            b.wait(u);
            b.finalize(hccl);
            b.finalize(other);
        });
    };

    a_task_divided_into_steps_is_waited_for_step_by_step, "wait", MixAiv10, |k, broken| {
        stepped(k, 2, |b, t| b.times(if broken { 1 } else { 2 }, |b| b.wait(t)));
    };

    iterating_waits_for_all_steps, "wait", MixAiv10, |k, broken| {
        let block = k.variable("block", Number::U16);
        stepped(k, 1, |b, t| {
            b.times(if broken { 3 } else { 4 }, |b| b.step(Step::Read(block, Read::Slice(t, true))));
        });
    };

    a_task_is_iterated_for_one_side, "iterate", MixAiv10, |k, broken| {
        let block = k.variable("block", Number::U16);
        stepped(k, 1, |b, t| {
            b.step(Step::Read(block, Read::Slice(t, !broken)));
            b.times(3, |b| b.step(Step::Read(block, Read::Slice(t, true))));
            if broken {
                b.wait(t);
            }
        });
    };

    steps_divide_the_ranks, "iterate", MixAiv10, |k, broken| {
        let waits = if broken { 4 } else { 1 };
        stepped(k, if broken { 3 } else { 4 }, |b, t| b.times(waits, |b| b.wait(t)));
    };

    only_what_is_divided_into_steps_is_iterated, "iterate", MixAiv10, |k, broken| {
        let block = k.variable("block", Number::U16);
        stepped(k, u32::from(!broken), |b, t| {
            b.times(4, |b| b.step(Step::Read(block, Read::Slice(t, true))));
        });
    };

    ascend_950_has_no_query, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        let (hccl, t, operation) = reduction(k);
        let turns = k.variable("turns", Number::I32);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            b.step(Step::Read(turns, Read::Finished(t)));
            b.wait(t);
            b.finalize(hccl);
        });
    };

    ascend_950_has_no_windows, "product", MixAiv10, |k, broken| {
        k.allow_windows();
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        let hccl = k.ready(&[2]);
        let (rank, v) = (k.n(1), k.variable("v", Number::F32));
        let place = k.at(Base::WindowIn(hccl, rank), 0);
        k.step(Step::Read(v, Read::Global(place)));
    };

    a_window_is_of_a_rank_that_there_is, "ranks", MixAiv10, |k, broken| {
        k.allow_windows();
        let hccl = k.ready(&[2]);
        let (rank, v) = (k.n(if broken { 4 } else { 3 }), k.variable("v", Number::F32));
        let place = k.at(Base::WindowOut(hccl, rank), 0);
        k.step(Step::Read(v, Read::Global(place)));
    };

    only_a3_has_queues, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::A2 } else { Product::A3 };
        let hccl = k.ready(&[18]);
        let v = k.variable("v", Number::U16);
        k.step(Step::Read(v, Read::Queues(hccl)));
    };

    a_client_that_does_not_wait_has_a_barrier_in_each_queue, "finalize", MixAiv10, |k, broken| {
        k.write_workspace(256);
        let items = Place { base: Base::Workspace, offset: k.n(0) };
        let (count, queue) = (k.n(4), k.n(0));
        let hccl = k.ready(&[18]);
        let t = k.task("batch", hccl);
        let operation = Operation::BatchWrite { items, count, queue };
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            if !broken {
                b.hccl(Hccl::Barrier(hccl, queue));
            }
            b.hccl(Hccl::Finalize(hccl, false));
        });
    };

    a_batch_goes_into_a_queue_of_the_core, "product", MixAiv10, |k, broken| {
        batches_in_queues(k, (2, 4), if broken { 2 } else { 1 });
    };

    only_cores_with_queues_write_batches, "product", MixAiv10, |k, broken| {
        batches_in_queues(k, (2, if broken { 1 } else { 4 }), 0);
    };

    with_queues_there_are_only_batches, "product", MixAiv10, |k, broken| {
        let (x, y) = tensors(k);
        let hccl = k.ready(&[2]);
        k.put(42, if broken { 1 | 4 << 16 } else { 0 });
        let t = k.task("tiles", hccl);
        let operation = all_reduce(k, x, y);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            if !broken {
                b.wait(t);
            }
            b.finalize(hccl);
        });
    };

    ascend_950_has_no_older_clients, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        let hccl = k.ready(&[2]);
        k.program.clients[0].what.by_address = true;
        let _ = hccl;
    };

    clients_are_of_one_age, "init", MixAiv10, |k, broken| {
        k.ready(&[2]);
        let other = k.client("other", 1, None);
        k.hccl(Hccl::Init(other, 0));
        k.program.clients[0].what.by_address = true;
        k.program.clients[1].what.by_address = !broken;
    };

    every_core_with_queues_finalises, "finalize", MixAiv10, |k, broken| {
        k.write_workspace(256);
        let items = Place { base: Base::Workspace, offset: k.n(0) };
        let (count, queue) = (k.n(4), k.n(0));
        let hccl = k.ready(&[18]);
        k.put(42, 1 | 4 << 16);
        let t = k.task("batch", hccl);
        k.prepare(t, Operation::BatchWrite { items, count, queue }, 1, true);
        if broken {
            k.on_block(0, |b| b.finalize(hccl));
        } else {
            k.finalize(hccl);
        }
    };

    only_batches_need_not_be_waited_for_at_the_end, "finalize", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            b.wait(t);
            b.hccl(Hccl::Finalize(hccl, !broken));
        });
    };

    ascend_950_does_not_finalise_what_is_not_used, "finalize", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        let hccl = k.ready(&[2]);
        k.finalize(hccl);
    };

    a_named_core_is_one_that_there_is, "prepare-core", MixAiv10, |k, broken| {
        k.operations = vec![2];
        k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(1));
        let hccl = k.client("hccl", 0, Some((Core::Aiv, if broken { 2 } else { 1 })));
        k.hccl(Hccl::Init(hccl, 0));
    };

    the_core_that_writes_messages_prepares, "prepare-order", MixAiv10, |k, broken| {
        let (x, y) = tensors(k);
        let hccl = k.ready(&[2]);
        let (t, u) = (k.task("tiles", hccl), k.task("more", hccl));
        let (one, two) = (all_reduce(k, x, y), all_reduce(k, x, y));
        k.prepare(t, one, 1, true);
        k.wait(t);
        let more = |b: &mut ascend_program_testing::build::Builder| b.prepare(u, two, 1, true);
        if broken {
            k.on_block(1, more);
        } else {
            more(k);
            k.wait(u);
        }
        k.sync_vectors();
        k.finalize(hccl);
    };

    a_task_that_is_prepared_again_was_committed, "commit", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.setting.tolerant = true;
        k.on_block(0, |b| {
            b.times(2, |b| {
                b.prepare(t, operation, 1, false);
                if !broken {
                    b.commit(t);
                }
            });
            b.finalize(hccl);
        });
    };

    on_ascend_950_all_wait_equally_often, "wait", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        let (hccl, t, operation) = reduction(k);
        k.prepare(t, operation, 2, true);
        k.wait(t);
        k.on_block(0, |b| b.wait(t));
        k.sync_vectors();
        k.finalize(hccl);
    };

    a_value_can_be_computed, "fault", MixAiv10, |k, broken| {
        let (one, none) = (k.n(1), k.n(u64::from(!broken)));
        let quotient = k.binary(Binary::Div, one, none);
        k.range("i", quotient, |b, _| b.sync_vectors());
    };

    a_client_is_initialised_once, "init", MixAiv10, |k, broken| {
        let hccl = k.ready(&[2]);
        if broken {
            k.hccl(Hccl::Init(hccl, 0));
        }
    };

    a_client_is_initialised_first, "init", MixAiv10, |k, broken| {
        let (x, y) = tensors(k);
        k.operations = vec![2];
        k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(1));
        let hccl = k.client("hccl", 0, None);
        let t = k.task("tiles", hccl);
        let e = exchange(k, x, y, 64);
        let operation = Operation::AllReduce(e, Reduction::Sum);
        k.on_block(0, |b| {
            if !broken {
                b.hccl(Hccl::Init(hccl, 0));
                b.hccl(Hccl::Configure(hccl, 64, "cc0".into()));
            }
            b.prepare(t, operation, 1, true);
            if !broken {
                b.wait(t);
                b.finalize(hccl);
            }
        });
    };
}

#[test]
fn a_launch_has_blocks_and_contexts() {
    let launch = |blocks: u32| {
        let mut k = Kernel::new(Mix::AivOnly);
        k.blocks = blocks;
        k.findings()
    };
    assert_eq!(launch(256), []);
    let words = |findings: Vec<Finding>| findings.iter().map(|f| f.to_string()).collect::<String>();
    assert_eq!(launch(257)[0].severity, Severity::Note);
    assert_eq!(launch(65_535)[0].severity, Severity::Note);
    let texts = [words(launch(0)), words(launch(257)), words(launch(65_536))];
    let mut k = Kernel::new(Mix::MixAiv10);
    k.ranks = 0;
    k.ready(&[2]);
    expect(
        "a_launch_has_blocks_and_contexts",
        &format!("{}\n{}\n", texts.join("\n"), words(k.findings())),
    );
}

#[test]
fn what_depends_on_data_is_a_note_and_nothing_is_guessed() {
    let mut k = Kernel::new(Mix::MixAiv10);
    let x = k.input("x", Number::U64);
    let v = k.variable("v", Number::U64);
    let place = k.at(x, 0);
    k.step(Step::Read(v, Read::Global(place)));
    let from = Place { base: x, offset: k.get(v) };
    k.step(Step::Read(v, Read::Global(from)));
    let rounds = k.get(v);
    k.range("i", rounds, |b, _| b.sync_vectors());
    // Some cores or all cores may never reach the following steps.
    k.on_block(0, |b| b.sync_vectors());
    let findings = k.findings();
    assert!(findings.iter().all(|finding| finding.severity == Severity::Note), "{findings:#?}");
    let text: Vec<String> = findings.iter().map(|finding| finding.to_string()).collect();
    expect("what_depends_on_data_is_a_note", &(text.join("\n") + "\n"));
}

#[test]
fn a_kernel_without_end_is_given_up() {
    let mut k = Kernel::new(Mix::MixAiv10);
    k.times(u64::MAX, |b| b.sync_vectors());
    let findings = k.findings();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!((findings[0].rule, findings[0].severity), ("long", Severity::Note));
    expect("a_kernel_without_end_is_given_up", &format!("{}\n", findings[0]));

    let mut k = Kernel::new(Mix::MixAiv10);
    k.times(u64::MAX, |_| {});
    assert_eq!(k.findings()[0].rule, "fault");
}

/// Adds a loop with very many iterations. With `heard`, the cores meet in it. With `behind`, the
/// kernel writes out of bounds after it.
fn long_loop(k: &mut Kernel, behind: bool, heard: bool) {
    let y = k.output("y", Number::F16);
    k.setting.parameters = vec![Some(128)];
    let local = k.filled("a", Number::F16, 64);
    let store = |b: &mut Builder, at: u64| {
        let (to, length) = (b.at(y, at), b.n(64));
        let pieces = Pieces { length, count: None, gap: None };
        b.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
        b.sync(Sync::Pipe(Pipe::All));
    };
    k.blocks = 1;
    k.times(1_100_000, |b| {
        store(b, 0);
        if heard {
            b.sync_vectors();
        }
    });
    if behind {
        store(k, 1);
    }
}

#[test]
fn what_comes_behind_very_many_turns_is_checked() {
    for (behind, heard, rules) in [
        (false, false, &["long"][..]),
        (true, false, &["bounds", "long"]),
        // The checker needs the steps in the loop, so it cannot check the code after the loop.
        (true, true, &["long"]),
    ] {
        let mut k = Kernel::new(Mix::MixAiv10);
        long_loop(&mut k, behind, heard);
        let findings = k.findings();
        let mut found: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        // A further note reports that there are too many uses of memory to compare.
        found.dedup();
        assert_eq!(found, rules, "{findings:#?}");
        let long =
            findings.iter().find(|finding| finding.message.contains("iterations of this loop"));
        let long = long.expect("a note of the loop");
        expect(&format!("very_many_turns_{heard}"), &format!("{long}\n"));
    }
}

/// Sums are computed at once. Other variables are unknown after the loop.
#[test]
fn a_loop_that_only_computes_is_not_counted() {
    for (turns, is_float, rules) in [
        (1_100_000, false, &[][..]),
        (1_100_000, true, &[]),
        (1 << 35, false, &[]),
        (1 << 35, true, &["long"]),
    ] {
        let mut k = Kernel::new(Mix::MixAiv10);
        let (number, one) =
            if is_float { (Number::F32, 1.0_f64.to_bits()) } else { (Number::U64, 1) };
        let x = k.variable("x", number);
        let (now, one) = (k.get(x), k.value(Of::Constant(one), number));
        let next = k.binary(Binary::Add, now, one);
        k.times(turns, |b| b.step(Step::Set(x, next)));
        let findings = k.findings();
        let found: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(found, rules, "{findings:#?}");
    }
}

#[test]
fn the_tolerant_checker_takes_what_the_hardware_tolerates() {
    // There is one wait for all turns, and the last turn is committed twice. MatmulAllReduce does
    // the former.
    let mut k = Kernel::new(Mix::MixAiv10);
    k.setting.tolerant = true;
    let (x, y) = tensors(&mut k);
    let hccl = k.ready(&[2]);
    let t = k.task("tiles", hccl);
    let operation = all_reduce(&mut k, x, y);
    k.on_block(0, |b| {
        b.prepare(t, operation, 4, false);
        b.times(5, |b| b.commit(t));
        b.wait(t);
        b.finalize(hccl);
    });
    assert_eq!(k.findings(), []);
}

#[test]
fn the_63rd_prepare_is_the_last_one_that_fits() {
    for (prepares, wrong) in [(62, false), (63, false), (64, true)] {
        let mut k = Kernel::new(Mix::MixAiv10);
        let (x, y) = tensors(&mut k);
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        let operation = all_reduce(&mut k, x, y);
        k.on_block(0, |b| {
            b.times(prepares, |b| {
                b.prepare(t, operation, 1, true);
                b.wait(t);
            });
            b.finalize(hccl);
        });
        assert_eq!(!k.findings().is_empty(), wrong, "{prepares} prepares");
    }
}
