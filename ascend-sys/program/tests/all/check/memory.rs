//! Tests of the rules of memory that is reached in two ways: through caches, by two arguments, and
//! step by step.

use ascend_program::check::{Finding, Product};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, all_reduce, all_to_all_v, exchange, rules};
use ascend_program_testing::build::Builder;

/// Adds `base[at] = 1`, through the cache.
fn set(b: &mut Builder, base: Base, at: u64) -> Place {
    let (to, value) = (b.at(base, at), b.float(Number::F16, 1.0));
    b.step(Step::Copy(Copy::Set { to, value }));
    to
}

/// Adds `v = base[at]`, through the cache.
fn get(b: &mut Builder, base: Base, at: u64) {
    let (from, v) = (b.at(base, at), b.variable("v", Number::F16));
    b.step(Step::Read(v, Read::Global(from)));
}

fn clean(b: &mut Builder, base: Base, at: u64) {
    let place = b.at(base, at);
    b.step(Step::Copy(Copy::Clean(place)));
}

/// Returns a tensor of 64 half floats in local memory.
fn local(k: &mut Builder) -> Local {
    k.filled("a", Number::F16, 64)
}

/// Adds `base[at..][..64] = a`, or the reverse.
fn copy(b: &mut Builder, local: Local, base: Base, at: u64, out: bool) {
    let (place, length) = (b.at(base, at), b.n(64));
    let pieces = Pieces { length, count: None, gap: None };
    b.step(Step::Copy(match out {
        true => Copy::Out { to: place, from: local, pieces, add: false },
        false => Copy::In { to: local, from: place, pieces },
    }));
}

/// Adds an all-reduce of 64 elements of `x` into `y`. Block 0 prepares it, waits for it and
/// finalises the client.
fn reduced(k: &mut Kernel, x: Base, y: Base, before: impl FnOnce(&mut Builder)) {
    let hccl = k.ready(&[2]);
    let t = k.task("tiles", hccl);
    let operation = all_reduce(k, x, y);
    k.on_block(0, |b| {
        before(b);
        b.prepare(t, operation, 1, true);
        b.wait(t);
        b.finalize(hccl);
    });
}

/// Adds an AlltoAllV of 64 elements for each rank, whose blocks are 64 elements apart. It runs in
/// steps of `step` ranks, which the body commits.
fn stepped(k: &mut Kernel, step: u32, body: impl FnOnce(&mut Builder, TaskId, (Base, Base))) {
    let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
    let hccl = k.ready(&[8]);
    k.put(64, step << 16 | 1 << 24);
    k.patches.push((64 + 144, b"AlltoAll=level0:fullmesh;level1:pairwise".to_vec()));
    let t = k.task("tiles", hccl);
    let operation = all_to_all_v(k, (x, y), 4, 64);
    k.on_block(0, |b| {
        b.prepare(t, operation, 1, false);
        body(b, t, (x, y));
        b.finalize(hccl);
    });
}

/// Returns two arguments, the second of which begins `bytes` bytes after the first.
fn behind(k: &mut Kernel, bytes: u64) -> (Base, Base) {
    let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
    k.setting.parameters = vec![Some(1 << 12); 2];
    k.setting.addresses = vec![Some(1 << 20), Some((1 << 20) + bytes)];
    (x, y)
}

rules! {
    an_element_is_cleaned_before_it_is_sent, "clean", MixAiv10, |k, broken| {
        let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
        reduced(k, x, y, |b| {
            set(b, x, 63);
            if !broken {
                clean(b, x, 63);
            }
        });
    };

    an_element_is_cleaned_before_the_commit, "clean", MixAiv10, |k, broken| {
        let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
        reduced(k, x, y, |b| {
            if broken {
                clean(b, x, 0);
            }
            set(b, x, 0);
            if !broken {
                clean(b, x, 0);
            }
        });
        if broken {
            k.on_block(0, |b| clean(b, x, 0));
        }
    };

    an_element_of_a_window_is_cleaned, "clean", MixAiv10, |k, broken| {
        let hccl = k.ready(&[2]);
        let rank = k.n(3);
        let (window, value) = (Base::WindowOut(hccl, rank), k.value(Of::Constant(1), Number::U8));
        let to = k.at(window, 100);
        k.on_block(0, |b| {
            b.step(Step::Copy(Copy::Set { to, value }));
            if !broken {
                clean(b, window, 127);
            }
        });
    };

    what_is_set_is_cleaned_at_the_end, "clean", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        k.on_block(0, |b| {
            set(b, y, 3);
            // Element 32 is in the next line.
            clean(b, y, if broken { 32 } else { 31 });
        });
    };

    another_core_reads_what_was_cleaned, "clean", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        let a = local(k);
        k.on_block(0, |b| {
            set(b, y, 0);
            if !broken {
                clean(b, y, 0);
            }
        });
        k.sync_vectors();
        k.on_block(1, |b| copy(b, a, y, 0, false));
        if broken {
            k.on_block(0, |b| clean(b, y, 0));
        }
    };

    a_copy_of_the_same_core_sees_memory_too, "clean", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        let a = local(k);
        k.on_block(0, |b| {
            set(b, y, 0);
            if !broken {
                clean(b, y, 0);
            }
            b.sync(Sync::Units(Pipe::Scalar, Pipe::In));
            copy(b, a, y, 0, false);
            if broken {
                clean(b, y, 0);
            }
        });
    };

    a_line_is_cleaned_before_reading_what_another_core_wrote, "clean", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        let a = local(k);
        k.on_block(0, |b| copy(b, a, y, 0, true));
        k.sync_vectors();
        k.on_block(1, |b| {
            if !broken {
                clean(b, y, 5);
            }
            get(b, y, 5);
        });
    };

    a_line_is_cleaned_after_the_other_core_wrote, "clean", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        let a = local(k);
        if broken {
            k.on_block(1, |b| clean(b, y, 0));
        }
        k.on_block(0, |b| copy(b, a, y, 0, true));
        k.sync_vectors();
        k.on_block(1, |b| {
            if !broken {
                clean(b, y, 0);
            }
            get(b, y, 0);
        });
    };

    a_line_is_cleaned_before_reading_what_was_received, "clean", MixAiv10, |k, broken| {
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        let operation = all_reduce(k, x, y);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            b.wait(t);
            if !broken {
                clean(b, y, 0);
            }
            get(b, y, 0);
            b.finalize(hccl);
        });
    };

    two_cores_write_different_lines, "line", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        for block in 0..2 {
            let at = if broken { 31 } else { 32 } * block;
            k.on_block(block, |b| {
                set(b, y, at);
                clean(b, y, at);
            });
        }
    };

    two_cores_write_a_line_one_after_the_other, "line", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        for block in 0..2 {
            k.on_block(block, |b| {
                set(b, y, block);
                clean(b, y, block);
            });
            if !broken {
                k.sync_vectors();
            }
        }
    };

    lines_begin_where_the_argument_does_not, "line", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        k.setting.parameters = vec![Some(128)];
        k.setting.addresses = vec![Some((1 << 20) + if broken { 32 } else { 0 })];
        for block in 0..2 {
            k.on_block(block, |b| {
                set(b, y, 32 * block + if broken { block } else { 0 });
                clean(b, y, 32 * block);
                set(b, y, 16 + 32 * block);
                clean(b, y, 16 + 32 * block);
            });
        }
    };

    a_turn_sends_what_another_argument_reaches, "ready", MixAiv10, |k, broken| {
        // Element 64 of `x` is the first element of `z` if both share memory.
        let (x, z) = behind(k, if broken { 127 } else { 128 });
        let y = k.output("y", Number::F16);
        let a = local(k);
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        let operation = all_reduce(k, x, y);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            copy(b, a, z, 0, true);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a_turn_does_not_receive_into_what_it_sends, "overlap", MixAiv10, |k, broken| {
        let (x, y) = behind(k, if broken { 126 } else { 128 });
        reduced(k, x, y, |_| {});
    };

    all_reduce_works_in_place, "overlap", MixAiv10, |k, broken| {
        let (x, y) = behind(k, if broken { 2 } else { 0 });
        reduced(k, x, y, |_| {});
    };

    a_gather_takes_its_own_block_in_place, "overlap", MixAiv10, |k, broken| {
        // This is rank 1, so its block is the second one.
        let y = k.output("y", Number::F16);
        let e = exchange(k, y, y, 64);
        let send = k.at(y, if broken { 0 } else { 64 });
        let (e, stride) = (Exchange { send, ..e }, k.n(64));
        let hccl = k.ready(&[6]);
        let t = k.task("tiles", hccl);
        k.on_block(0, |b| {
            b.prepare(t, Operation::AllGather(e, stride), 1, true);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    an_exchange_is_not_done_in_place, "overlap", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        let e = exchange(k, y, y, 64);
        let recv = k.at(y, if broken { 0 } else { 256 });
        let (e, stride) = (Exchange { recv, ..e }, k.n(64));
        let hccl = k.ready(&[10]);
        let t = k.task("tiles", hccl);
        k.on_block(0, |b| {
            b.prepare(t, Operation::AlltoAll(e, stride), 1, true);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a_step_sends_what_is_ready, "ready", MixAiv10, |k, broken| {
        // Rank 1 sends to ranks 1, 2, 3 and 0.
        let a = local(k);
        stepped(k, 1, |b, t, (x, _)| {
            for step in 0..4 {
                let to = if broken { (4 - step) % 4 } else { (1 + step) % 4 };
                copy(b, a, x, 64 * to, true);
                b.sync(Sync::Units(Pipe::Out, Pipe::Scalar));
                b.commit(t);
            }
            b.times(4, |b| b.wait(t));
        });
    };

    a_step_has_arrived_before_it_is_read, "arrived", MixAiv10, |k, broken| {
        // Rank 1 receives from ranks 1, 0, 3 and 2.
        let a = local(k);
        stepped(k, 1, |b, t, (_, y)| {
            b.times(4, |b| b.commit(t));
            for step in 0..4 {
                b.wait(t);
                let from = if broken { step } else { (5 - step) % 4 };
                b.sync(Sync::Pipe(Pipe::In));
                copy(b, a, y, 64 * from, false);
            }
        });
    };

    steps_of_two_arrive_together, "arrived", MixAiv10, |k, broken| {
        let a = local(k);
        stepped(k, 2, |b, t, (_, y)| {
            b.times(2, |b| b.commit(t));
            b.wait(t);
            copy(b, a, y, 64, false);
            b.sync(Sync::Pipe(Pipe::In));
            copy(b, a, y, if broken { 192 } else { 0 }, false);
            b.wait(t);
        });
    };

    items_of_a_batch_are_in_memory, "clean", MixAiv10, |k, broken| {
        let items = k.output("items", Number::F16);
        let hccl = k.ready(&[18]);
        let t = k.task("batch", hccl);
        let (place, count, queue) = (k.at(items, 0), k.n(2), k.n(0));
        k.on_block(0, |b| {
            // This is the second item, of 64 bytes.
            set(b, items, 40);
            clean(b, items, if broken { 0 } else { 40 });
            b.prepare(t, Operation::BatchWrite { items: place, count, queue }, 1, true);
            b.wait(t);
            b.finalize(hccl);
            clean(b, items, 40);
        });
    };

    items_stay_until_they_are_done, "ready", MixAiv10, |k, broken| {
        let items = k.output("items", Number::F16);
        let a = local(k);
        let hccl = k.ready(&[18]);
        let t = k.task("batch", hccl);
        let (place, count, queue) = (k.at(items, 0), k.n(2), k.n(0));
        k.on_block(0, |b| {
            b.prepare(t, Operation::BatchWrite { items: place, count, queue }, 1, true);
            if broken {
                copy(b, a, items, 0, true);
            }
            b.wait(t);
            copy(b, a, items, 0, true);
            b.finalize(hccl);
        });
    };

    a_named_core_lets_both_kinds_call_the_client, "prepare-core", MixAic11, |k, broken| {
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        let hccl = k.ready(&[2]);
        let core = if broken { None } else { Some((Core::Aiv, 0)) };
        k.builder.program.clients[hccl.0 as usize].what.core = core;
        let t = k.task("tiles", hccl);
        let operation = all_reduce(k, x, y);
        k.prepare(t, operation, 1, true);
        k.wait(t);
        k.sync(Sync::All { vector: false });
        k.on_block(0, |b| b.on(Core::Aiv, |b| b.finalize(hccl)));
    };
}

/// Writes, commits and cleans in every order. There is a finding if and only if the commit comes
/// between the write and the clean.
#[test]
fn an_element_is_late_if_it_is_written_before_the_commit_and_cleaned_after_it() {
    for order in 0..6 {
        let steps = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order];
        let mut k = Kernel::new(Mix::MixAiv10);
        let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        let operation = all_reduce(&mut k, x, y);
        k.setting.tolerant = true;
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, false);
            for step in steps {
                match step {
                    0 => drop(set(b, x, 7)),
                    1 => clean(b, x, 7),
                    _ => {
                        b.commit(t);
                        b.wait(t);
                    }
                }
            }
            b.finalize(hccl);
        });
        let findings: Vec<Finding> = k.findings();
        let place = |what| steps.iter().position(|step| *step == what);
        let late = place(0) < place(2) && !(place(0) < place(1) && place(1) < place(2));
        assert_eq!(findings.iter().any(|finding| finding.rule == "clean"), late, "{steps:?}");
        assert_eq!(findings.len(), usize::from(late), "{findings:#?}");
    }
}

/// The tolerant checker allows kernels that may still work by chance: memory that is read again,
/// and lines that are evicted at the end.
#[test]
fn the_tolerant_checker_lets_caches_be_lucky() {
    let mut k = Kernel::new(Mix::MixAiv10);
    k.setting.tolerant = true;
    k.setting.product = Product::A2;
    let y = k.output("y", Number::F16);
    let a = local(&mut k);
    k.on_block(0, |b| copy(b, a, y, 0, true));
    k.sync_vectors();
    k.on_block(1, |b| {
        get(b, y, 0);
        set(b, y, 1);
    });
    assert_eq!(k.findings(), []);
}
