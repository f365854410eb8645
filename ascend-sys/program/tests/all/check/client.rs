//! Tests of the rules of the HCCL client: its states, the cores that prepare, commit and wait, and
//! the end.

use ascend_program::check::{Product, Severity};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, all_reduce, exchange, reduction, rules};

/// Returns the tensors `x` and `y`.
fn tensors(k: &mut Kernel) -> (Base, Base) {
    (k.input("x", Number::F16), k.output("y", Number::F16))
}

rules! {
    every_turn_is_committed, "commit", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 4, false);
            b.times(if broken { 3 } else { 4 }, |b| {
                b.commit(t);
                b.wait(t);
            });
            b.finalize(hccl);
        });
        if broken {
            // A core that commits fewer turns also waits for fewer, but that is another rule.
            k.setting.tolerant = true;
        }
    };

    /// A call on a task that does not exist is not a second mistake.
    a_repeat_of_nothing_is_one_mistake, "repeat", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, u64::from(!broken), false);
            b.commit(t);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a_turn_is_committed_once, "commit", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 2, true);
            if broken {
                b.commit(t);
            }
            b.times(2, |b| b.wait(t));
            b.finalize(hccl);
        });
    };

    every_turn_is_waited_for, "wait", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 4, true);
            b.times(if broken { 1 } else { 4 }, |b| b.wait(t));
            b.finalize(hccl);
        });
    };

    a_turn_is_committed_before_it_is_waited_for, "wait", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, false);
            if !broken {
                b.commit(t);
            }
            b.wait(t);
            if broken {
                b.commit(t);
            }
            b.finalize(hccl);
        });
    };

    the_64th_prepare_has_no_slot, "prepares", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.times(if broken { 64 } else { 63 }, |b| {
                b.prepare(t, operation, 1, true);
                b.wait(t);
            });
            b.finalize(hccl);
        });
    };

    cores_of_one_kind_prepare, "prepare-core", MixAic11, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        let body = |b: &mut ascend_program_testing::build::Builder| {
            b.prepare(t, operation.clone(), 1, true);
            b.wait(t);
        };
        k.on_block(0, |b| {
            if broken {
                body(b);
            } else {
                b.on(Core::Aic, body);
            }
        });
        k.sync(Sync::All { vector: false });
        k.on_block(0, |b| b.on(Core::Aic, |b| b.finalize(hccl)));
    };

    a_task_is_used_where_it_was_prepared, "task", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| b.prepare(t, operation, 1, true));
        if broken {
            k.wait(t);
        } else {
            k.on_block(0, |b| b.wait(t));
        }
        k.sync_vectors();
        k.on_block(0, |b| b.finalize(hccl));
    };

    all_cores_have_waited_before_the_end, "finalize-sync", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.prepare(t, operation, 2, true);
        k.times(2, |b| b.wait(t));
        if !broken {
            k.sync_vectors();
        }
        k.finalize(hccl);
    };

    a_client_is_finalised_last, "finalize", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            if broken {
                b.finalize(hccl);
            }
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a_client_that_prepares_is_finalised, "finalize", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            b.wait(t);
            if !broken {
                b.finalize(hccl);
            }
        });
    };

    ascend_950_commits_in_order, "commit-order", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        let (x, y) = tensors(k);
        let hccl = k.ready(&[2]);
        let (t, u) = (k.task("first", hccl), k.task("second", hccl));
        let (one, two) = (all_reduce(k, x, y), all_reduce(k, x, y));
        k.on_block(0, |b| {
            b.prepare(t, one, 1, false);
            b.prepare(u, two, 1, false);
            let order = if broken { [u, t] } else { [t, u] };
            order.into_iter().for_each(|task| b.commit(task));
            b.wait(t);
            b.wait(u);
            b.finalize(hccl);
        });
    };

    tasks_are_waited_for_in_the_order_of_prepares, "wait-order", MixAiv10, |k, broken| {
        let (x, y) = tensors(k);
        let hccl = k.ready(&[2]);
        let (t, u) = (k.task("first", hccl), k.task("second", hccl));
        let (one, two) = (all_reduce(k, x, y), all_reduce(k, x, y));
        k.on_block(0, |b| {
            b.prepare(t, one, 1, true);
            b.prepare(u, two, 1, true);
            let order = if broken { [u, t] } else { [t, u] };
            order.into_iter().for_each(|task| b.wait(task));
            b.finalize(hccl);
        });
    };

    a_task_that_comes_later_cannot_be_waited_for_first, "hang", MixAiv10, |k, broken| {
        k.setting.tolerant = broken;
        let (x, y) = tensors(k);
        let hccl = k.ready(&[2]);
        let (t, u) = (k.task("first", hccl), k.task("second", hccl));
        let (one, two) = (all_reduce(k, x, y), all_reduce(k, x, y));
        k.on_block(0, |b| {
            b.prepare(t, one, 1, false);
            b.prepare(u, two, 1, true);
            if broken {
                b.wait(u);
                b.commit(t);
                b.wait(t);
            } else {
                b.commit(t);
                b.wait(t);
                b.wait(u);
            }
            b.finalize(hccl);
        });
    };

    an_operation_is_configured_before_it_is_prepared, "configure", MixAiv10, |k, broken| {
        let (x, y) = tensors(k);
        let hccl = k.ready(if broken { &[6] } else { &[2] });
        let t = k.task("tiles", hccl);
        let operation = Operation::AllReduce(exchange(k, x, y, 64), Reduction::Sum);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    the_host_fills_the_tiling, "init", MixAiv10, |k, broken| {
        k.ready(&[2]);
        k.put(0, if broken { 0 } else { 100 });
    };

    the_host_names_the_operation, "configure", MixAiv10, |k, broken| {
        k.ready(&[2]);
        k.put(64 + 272, if broken { 0 } else { 2 });
    };

    the_host_counts_what_is_configured, "configure", MixAiv10, |k, broken| {
        k.ready(&[2]);
        k.put(4, if broken { 0 } else { 1 });
    };
}

/// The number of turns and the length of a buffer may be read from memory. Then the rules about
/// them are not checked.
#[test]
fn numbers_of_turns_and_lengths_may_be_data() {
    let data = |k: &mut Kernel| {
        let v = k.variable("v", Number::U64);
        let counts = k.input("counts", Number::U64);
        let place = k.at(counts, 0);
        k.step(Step::Read(v, Read::Global(place)));
        k.get(v)
    };
    let notes = |k: Kernel| {
        let findings = k.findings();
        let rules: Vec<_> = findings.iter().map(|f| (f.severity, f.rule)).collect();
        assert_eq!(rules, [(Severity::Note, "data")], "{findings:#?}");
    };

    let mut k = Kernel::new(Mix::MixAiv10);
    let (hccl, task, operation) = reduction(&mut k);
    let repeat = data(&mut k);
    k.on_block(0, |b| {
        b.hccl(Hccl::Prepare { task, operation, repeat, commit: true });
        b.times(2, |b| b.wait(task));
        b.finalize(hccl);
    });
    notes(k);

    let mut k = Kernel::new(Mix::MixAiv10);
    let (length, y) = (data(&mut k), k.output("y", Number::F16));
    let queue = k.queue("ins", Number::F16, Position::VecOut, 1, length);
    let tensor = k.local("a", Number::F16);
    let (to, count) = (k.at(y, 0), k.n(64));
    let from = Local { tensor, offset: None };
    k.on_block(0, |b| {
        b.buffer(Buffer::InitQueue(queue));
        b.buffer(Buffer::Alloc(queue, tensor));
        let value = b.float(Number::F16, 1.0);
        b.step(Step::Vector(Vector::Fill { to: from, value, count }));
        b.buffer(Buffer::Enqueue(queue, tensor));
        b.buffer(Buffer::Dequeue(queue, tensor));
        let pieces = Pieces { length: count, count: None, gap: None };
        b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
        b.buffer(Buffer::Free(queue, tensor));
    });
    notes(k);
}
