//! Tests of the rules of the units of one core, which work at the same time, and of unwritten local
//! memory.

use ascend_program::check::{Product, Severity};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, all_reduce, rules};
use ascend_program_testing::build::Builder;

/// Returns `x`, `y`, and a full buffer of 64 elements.
fn tensors(k: &mut Kernel) -> (Base, Base, Local) {
    (k.input("x", Number::F32), k.output("y", Number::F32), k.filled("a", Number::F32, 64))
}

fn pieces(b: &mut Builder, length: u64) -> Pieces {
    Pieces { length: b.n(length), count: None, gap: None }
}

/// Adds `a = x[at..][..length]`.
fn copy_in(b: &mut Builder, to: Local, x: Base, at: u64, length: u64) {
    let (from, pieces) = (b.at(x, at), pieces(b, length));
    b.step(Step::Copy(Copy::In { to, from, pieces }));
}

/// Adds `y[at..][..length] = a`.
fn copy_out(b: &mut Builder, y: Base, at: u64, from: Local, length: u64) {
    let (to, pieces) = (b.at(y, at), pieces(b, length));
    b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
}

/// Adds `to = a * 2`.
fn double(b: &mut Builder, to: Local, a: Local, length: u64) {
    let (scalar, count) = (b.float(Number::F32, 2.0), b.n(length));
    let operator = VectorBinary::Mul;
    b.step(Step::Vector(Vector::Scalar { operator, to, a, scalar, count }));
}

fn get(b: &mut Builder, from: Local) -> ValueId {
    let v = b.variable("v", Number::F32);
    b.step(Step::Read(v, Read::Local(from)));
    b.get(v)
}

/// Returns a queue of `buffers` buffers of 64 elements, and a name for its tensors.
fn queue(k: &mut Builder, name: &str, position: Position, buffers: u8) -> (QueueId, Local) {
    let length = k.n(64);
    let queue = k.queue(name, Number::F32, position, buffers, length);
    k.buffer(Buffer::InitQueue(queue));
    (queue, Local { tensor: k.local(&format!("of_{name}"), Number::F32), offset: None })
}

fn wait(b: &mut Builder, unit: Pipe, other: Pipe) {
    b.sync(Sync::Units(other, unit));
}

rules! {
    vectors_wait_for_the_copy_into_their_buffer, "units", MixAiv10, |k, broken| {
        let (x, _, a) = tensors(k);
        copy_in(k, a, x, 0, 64);
        if !broken {
            wait(k, Pipe::Vector, Pipe::In);
        }
        double(k, a, a, 64);
    };

    a_copy_out_waits_for_the_vectors, "units", MixAiv10, |k, broken| {
        let (_, y, a) = tensors(k);
        k.on_block(0, |b| {
            double(b, a, a, 64);
            if !broken {
                wait(b, Pipe::Out, Pipe::Vector);
            }
            copy_out(b, y, 0, a, 64);
        });
    };

    /// A wait in the other direction gives no order.
    a_wait_is_of_the_unit_that_comes_later, "units", MixAiv10, |k, broken| {
        let (x, _, a) = tensors(k);
        copy_in(k, a, x, 0, 64);
        match broken {
            true => wait(k, Pipe::In, Pipe::Vector),
            false => wait(k, Pipe::Vector, Pipe::In),
        }
        double(k, a, a, 64);
    };

    /// A unit that waits for another one also waits for all that the other one has waited for.
    waits_are_passed_on, "units", MixAiv10, |k, broken| {
        let (x, y, a) = tensors(k);
        k.on_block(0, |b| {
            copy_in(b, a, x, 0, 64);
            wait(b, Pipe::Vector, Pipe::In);
            if !broken {
                wait(b, Pipe::Out, Pipe::Vector);
            }
            copy_out(b, y, 0, a, 64);
        });
    };

    /// The bug occurs from the second iteration on: the next copy overwrites data that is still
    /// being read.
    a_loop_waits_before_it_writes_anew, "units", MixAiv10, |k, broken| {
        let (x, _, a) = tensors(k);
        k.times(3, |b| {
            if !broken {
                wait(b, Pipe::In, Pipe::Vector);
            }
            copy_in(b, a, x, 0, 64);
            wait(b, Pipe::Vector, Pipe::In);
            double(b, a, a, 64);
        });
    };

    a_queue_hands_over_from_copy_to_vectors, "units", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        let (ins, a) = queue(k, "ins", Position::VecIn, 1);
        k.buffer(Buffer::Alloc(ins, a.tensor));
        copy_in(k, a, x, 0, 64);
        if !broken {
            k.buffer(Buffer::Enqueue(ins, a.tensor));
            k.buffer(Buffer::Dequeue(ins, a.tensor));
        }
        double(k, a, a, 64);
        k.buffer(Buffer::Free(ins, a.tensor));
    };

    /// There are two buffers and three iterations, so without the queue's free the third copy would
    /// come too early. A queue for results does not order a copy into it.
    a_queue_orders_its_own_units_only, "units", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        let position = if broken { Position::VecOut } else { Position::VecIn };
        let (ins, a) = queue(k, "ins", position, 2);
        k.times(3, |b| {
            b.buffer(Buffer::Alloc(ins, a.tensor));
            copy_in(b, a, x, 0, 64);
            b.buffer(Buffer::Enqueue(ins, a.tensor));
            b.buffer(Buffer::Dequeue(ins, a.tensor));
            double(b, a, a, 64);
            b.buffer(Buffer::Free(ins, a.tensor));
        });
    };

    scalars_wait_for_vectors, "units", MixAiv10, |k, broken| {
        let (_, _, a) = tensors(k);
        double(k, a, a, 64);
        if !broken {
            wait(k, Pipe::Scalar, Pipe::Vector);
        }
        get(k, a);
    };

    /// A read by the scalar unit is done at once, but a write by it may still be in flight.
    vectors_wait_for_what_scalars_wrote, "units", MixAiv10, |k, broken| {
        let (_, _, a) = tensors(k);
        let v = get(k, a);
        if broken {
            k.step(Step::Copy(Copy::SetLocal { to: a, value: v }));
        }
        double(k, a, a, 64);
    };

    /// The same in global memory: a flag of another unit does not order writes of single elements.
    a_flag_is_not_behind_what_scalars_wrote, "race", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F32);
        let a = k.filled("a", Number::F32, 64);
        let v = k.variable("v", Number::F32);
        let (place, value) = (k.at(y, 0), k.float(Number::F32, 1.0));
        k.on_block(0, |b| {
            match broken {
                true => {
                    b.step(Step::Copy(Copy::Set { to: place, value }));
                    b.step(Step::Copy(Copy::Clean(place)));
                }
                false => b.step(Step::Read(v, Read::Global(place))),
            }
        });
        k.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Out, flag: 8 });
        k.sync(Sync::Await { flag: 8 });
        k.on_block(1, |b| copy_out(b, y, 0, a, 64));
    };

    vectors_wait_for_scalars, "units", MixAiv10, |k, broken| {
        let (_, _, a) = tensors(k);
        let value = k.float(Number::F32, 1.0);
        k.step(Step::Copy(Copy::SetLocal { to: a, value }));
        if !broken {
            wait(k, Pipe::Vector, Pipe::Scalar);
        }
        double(k, a, a, 64);
    };

    copies_to_the_same_place_have_a_barrier, "units", MixAiv10, |k, broken| {
        let (x, _, a) = tensors(k);
        copy_in(k, a, x, 0, 64);
        if !broken {
            k.sync(Sync::Pipe(Pipe::In));
        }
        copy_in(k, a, x, 64, 64);
    };

    /// A copy out and then a copy in of the same data, through global memory.
    a_copy_in_waits_for_the_copy_out, "units", MixAiv10, |k, broken| {
        let (_, y, a) = tensors(k);
        k.on_block(0, |b| {
            copy_out(b, y, 0, a, 64);
            wait(b, Pipe::Vector, Pipe::Out);
            if !broken {
                wait(b, Pipe::In, Pipe::Out);
            }
            copy_in(b, a, y, 0, 64);
        });
    };

    copies_out_to_the_same_elements_have_a_barrier, "units", MixAiv10, |k, broken| {
        let (_, y, a) = tensors(k);
        k.on_block(0, |b| {
            copy_out(b, y, 0, a, 64);
            if !broken {
                b.sync(Sync::Pipe(Pipe::Out));
            }
            copy_out(b, y, 63, a, 64);
        });
    };

    /// A product that uses the result of the one before.
    a_product_waits_for_the_one_before, "units", MixAic10, |k, broken| {
        k.blocks = 1;
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(0));
        k.put_cube(64, Number::F16, None, [16; 3]);
        let (matmul, n) = (k.matmul("mm", Number::F16, None, 64), k.n(16));
        let (rows, columns, depth, pitches) = (n, n, n, [n; 3]);
        let [first, second] = [0, 256].map(|at| k.at(y, at));
        let left = k.at(x, 0);
        let one = Multiply { matmul, a: left, b: left, c: first, bias: None, rows, columns, depth, pitches };
        k.step(Step::Matmul(one));
        if !broken {
            wait(k, Pipe::In, Pipe::Fix);
        }
        k.step(Step::Matmul(Multiply { a: first, c: second, ..one }));
    };

    /// When the result of a product is available, its operands have been read, so they may be
    /// overwritten.
    a_flag_behind_a_product_is_behind_its_operands, "race", MixAic11, |k, broken| {
        k.blocks = 1;
        let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
        k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(0));
        k.put_cube(64, Number::F16, None, [16; 3]);
        let (matmul, n) = (k.matmul("mm", Number::F16, None, 64), k.n(16));
        let (rows, columns, depth, pitches) = (n, n, n, [n; 3]);
        let [a, c] = [x, y].map(|base| k.at(base, 0));
        let multiply = Multiply { matmul, a, b: a, c, bias: None, rows, columns, depth, pitches };
        k.on(Core::Aic, |b| {
            if broken {
                b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Fix, flag: 8 });
            }
            b.step(Step::Matmul(multiply));
            if !broken {
                b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Fix, flag: 8 });
            }
        });
        k.on(Core::Aiv, |b| {
            let a = b.filled("a", Number::F16, 64);
            b.sync(Sync::Await { flag: 8 });
            copy_out(b, x, 0, a, 64);
        });
    };

    /// A turn may begin as soon as it is committed, so the copy before it must be done.
    a_commit_waits_for_the_copy_out, "ready", MixAiv10, |k, broken| {
        k.blocks = 1;
        let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
        let a = k.filled("a", Number::F16, 64);
        let hccl = k.ready(&[2]);
        let tiles = k.task("tiles", hccl);
        let operation = all_reduce(k, x, y);
        k.prepare(tiles, operation, 1, false);
        copy_out(k, x, 0, a, 64);
        if !broken {
            wait(k, Pipe::Scalar, Pipe::Out);
        }
        k.commit(tiles);
        k.wait(tiles);
        k.finalize(hccl);
    };

    /// A flag is raised when the work of its unit, and the work that the unit has waited for, is
    /// done. It orders no other work.
    a_flag_orders_the_work_of_its_unit, "race", MixAiv10, |k, broken| {
        let (_, y, a) = tensors(k);
        let pipe = if broken { Pipe::Vector } else { Pipe::Out };
        k.on_block(0, |b| copy_out(b, y, 0, a, 64));
        k.sync(Sync::Raise { mode: Mode::Kind, pipe, flag: 8 });
        k.sync(Sync::Await { flag: 8 });
        k.on_block(1, |b| copy_in(b, a, y, 0, 64));
    };

    a_flag_orders_what_its_unit_has_waited_for, "race", MixAiv10, |k, broken| {
        let (_, y, a) = tensors(k);
        k.on_block(0, |b| copy_out(b, y, 0, a, 64));
        if !broken {
            wait(k, Pipe::Vector, Pipe::Out);
        }
        k.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Vector, flag: 8 });
        k.sync(Sync::Await { flag: 8 });
        k.on_block(1, |b| copy_in(b, a, y, 0, 64));
    };

    nothing_is_computed_that_nobody_wrote, "unwritten", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        let (ins, a) = queue(k, "ins", Position::VecIn, 1);
        k.buffer(Buffer::Alloc(ins, a.tensor));
        // The last tile is shorter.
        copy_in(k, a, x, 0, 44);
        k.buffer(Buffer::Enqueue(ins, a.tensor));
        k.buffer(Buffer::Dequeue(ins, a.tensor));
        double(k, a, a, if broken { 64 } else { 44 });
        k.buffer(Buffer::Free(ins, a.tensor));
    };

    nothing_is_copied_out_that_nobody_wrote, "unwritten", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F32);
        let (outs, a) = queue(k, "outs", Position::VecOut, 1);
        k.on_block(0, |b| {
            b.buffer(Buffer::Alloc(outs, a.tensor));
            if !broken {
                let (value, count) = (b.float(Number::F32, 1.0), b.n(64));
                b.step(Step::Vector(Vector::Fill { to: a, value, count }));
            }
            b.buffer(Buffer::Enqueue(outs, a.tensor));
            b.buffer(Buffer::Dequeue(outs, a.tensor));
            copy_out(b, y, 0, a, 64);
            b.buffer(Buffer::Free(outs, a.tensor));
        });
    };

    /// The contents of a buffer are lost when it is freed.
    a_buffer_is_written_each_time_that_it_is_taken, "unwritten", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        let (ins, a) = queue(k, "ins", Position::VecIn, 1);
        for turn in 0..2 {
            k.buffer(Buffer::Alloc(ins, a.tensor));
            if turn == 0 || !broken {
                copy_in(k, a, x, 0, 64);
            }
            k.buffer(Buffer::Enqueue(ins, a.tensor));
            k.buffer(Buffer::Dequeue(ins, a.tensor));
            double(k, a, a, 64);
            k.buffer(Buffer::Free(ins, a.tensor));
        }
    };

    /// Pieces begin at blocks of 32 bytes. The gaps between them have undefined contents.
    what_lies_between_pieces_is_unwritten, "unwritten", MixAiv10, |k, broken| {
        let (x, _, a) = tensors(k);
        let (from, length, count) = (k.at(x, 0), k.n(if broken { 7 } else { 8 }), k.n(4));
        let pieces = Pieces { length, count: Some(count), gap: None };
        k.step(Step::Copy(Copy::In { to: a, from, pieces }));
        wait(k, Pipe::Vector, Pipe::In);
        double(k, a, a, 64);
    };

    nothing_is_sent_of_the_workspace_that_nobody_wrote, "unwritten", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F16);
        k.write_workspace(if broken { 96 } else { 128 });
        let hccl = k.ready(&[2]);
        let tiles = k.task("tiles", hccl);
        let operation = all_reduce(k, Base::Workspace, y);
        k.on_block(0, |b| {
            b.prepare(tiles, operation, 1, true);
            b.wait(tiles);
            b.finalize(hccl);
        });
    };

    /// Data that a turn has received there may be read.
    nothing_is_read_of_the_workspace_that_nobody_wrote, "unwritten", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F16);
        let a = k.filled("a", Number::F16, 64);
        let hccl = k.ready(&[2]);
        let tiles = k.task("tiles", hccl);
        let operation = all_reduce(k, x, Base::Workspace);
        k.on_block(0, |b| {
            b.prepare(tiles, operation, 1, true);
            b.wait(tiles);
            copy_in(b, a, Base::Workspace, if broken { 2 } else { 0 }, 64);
            b.finalize(hccl);
        });
    };

    /// A later write does not count.
    the_workspace_is_written_before_it_is_read, "unwritten", MixAiv10, |k, broken| {
        let a = k.filled("a", Number::F16, 64);
        k.on_block(0, |b| {
            if !broken {
                copy_out(b, Base::Workspace, 0, a, 64);
            }
            b.sync(Sync::Pipe(Pipe::All));
            copy_in(b, a, Base::Workspace, 0, 64);
            b.sync(Sync::Pipe(Pipe::All));
            copy_out(b, Base::Workspace, 0, a, 64);
        });
    };

    memory_to_work_with_has_no_result, "unwritten", MixAiv10, |k, broken| {
        k.setting.product = Product::A3;
        let (from, count) = (k.filled("from", Number::F32, 64), k.n(64));
        let [to, work, other] = ["to", "work", "other"].map(|name| k.filled(name, Number::F32, 64));
        k.step(Step::Vector(Vector::Reduce { operator: VectorReduce::Max, to, from, work, count }));
        double(k, other, if broken { work } else { to }, 1);
    };
}

/// The same bug with a length that is data: unwritten bytes are not reported, but uses without an
/// order are.
#[test]
fn a_length_that_is_data_hides_no_order() {
    let rules = |broken: bool| {
        let mut k = Kernel::new(Mix::MixAiv10);
        let (x, _, a) = tensors(&mut k);
        let v = k.variable("v", Number::U64);
        let counts = k.input("counts", Number::U64);
        let place = k.at(counts, 0);
        k.step(Step::Read(v, Read::Global(place)));
        let length = k.get(v);
        let from = k.at(x, 0);
        let pieces = Pieces { length, count: None, gap: None };
        k.step(Step::Copy(Copy::In { to: a, from, pieces }));
        wait(&mut k, Pipe::Vector, Pipe::In);
        double(&mut k, a, a, 64);
        if !broken {
            wait(&mut k, Pipe::Scalar, Pipe::Vector);
        }
        get(&mut k, a);
        let findings = k.findings();
        findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(true), ["units", "data"]);
    assert_eq!(rules(false), ["data"]);
}

/// Returns a number that is read from memory.
fn data(k: &mut Kernel) -> ValueId {
    let v = k.variable("data", Number::U64);
    let counts = k.input("counts", Number::U64);
    let place = k.at(counts, 0);
    k.step(Step::Read(v, Read::Global(place)));
    k.get(v)
}

fn found(k: Kernel) -> Vec<(Severity, &'static str)> {
    k.findings().iter().map(|finding| (finding.severity, finding.rule)).collect()
}

const DATA: (Severity, &str) = (Severity::Note, "data");

/// A branch or a loop that depends on data is skipped, and the steps after it are checked.
#[test]
fn what_comes_behind_a_branch_that_depends_on_data_is_checked() {
    for way in ["branch", "loop"] {
        for broken in [true, false] {
            let mut k = Kernel::new(Mix::MixAiv10);
            let (x, _, a) = tensors(&mut k);
            let open = data(&mut k);
            let inside = |b: &mut Builder| {
                double(b, a, a, 64);
                b.sync(Sync::Units(Pipe::Vector, Pipe::Scalar));
            };
            match way {
                "branch" => {
                    let (limit, more) = (k.n(3), Binary::Greater);
                    let condition = k.binary(more, open, limit);
                    k.when(condition, inside);
                }
                _ => k.range("i", open, |b, _| inside(b)),
            }
            copy_in(&mut k, a, x, 0, 64);
            if !broken {
                wait(&mut k, Pipe::Vector, Pipe::In);
            }
            double(&mut k, a, a, 64);
            let errors = broken.then_some((Severity::Error, "units"));
            assert_eq!(found(k), errors.into_iter().chain([DATA]).collect::<Vec<_>>(), "{way}");
        }
    }
}

/// Bytes that a branch may have written count as written. A variable that it may have set has no
/// known number.
#[test]
fn a_branch_that_depends_on_data_may_have_done_what_is_in_it() {
    let mut k = Kernel::new(Mix::MixAiv10);
    let y = k.output("y", Number::F32);
    let (outs, a) = queue(&mut k, "outs", Position::VecOut, 1);
    let open = data(&mut k);
    let one = k.n(1);
    let v = k.variable("v", Number::U64);
    k.step(Step::Set(v, one));
    let condition = k.binary(Binary::Greater, open, one);
    k.on_block(0, |b| {
        b.buffer(Buffer::Alloc(outs, a.tensor));
        b.when(condition, |b| {
            let (value, count) = (b.float(Number::F32, 1.0), b.n(64));
            b.step(Step::Vector(Vector::Fill { to: a, value, count }));
            b.step(Step::Set(v, open));
        });
        b.buffer(Buffer::Enqueue(outs, a.tensor));
        b.buffer(Buffer::Dequeue(outs, a.tensor));
        let pieces = Pieces { length: b.get(v), count: None, gap: None };
        let to = b.at(y, 0);
        b.step(Step::Copy(Copy::Out { to, from: a, pieces, add: false }));
        b.buffer(Buffer::Free(outs, a.tensor));
    });
    assert_eq!(found(k), [DATA, DATA]);
}

/// If other cores depend on a skipped step, the core is not followed any further. The accesses up
/// to there are compared.
#[test]
fn what_is_seen_before_the_way_is_lost_is_compared() {
    for broken in [true, false] {
        let mut k = Kernel::new(Mix::MixAiv10);
        let (_, y, a) = tensors(&mut k);
        let open = data(&mut k);
        k.on_block(0, |b| copy_out(b, y, 0, a, 64));
        if !broken {
            k.sync_vectors();
        }
        k.on_block(1, |b| copy_in(b, a, y, 0, 64));
        k.range("i", open, |b, _| b.sync_vectors());
        let errors = broken.then_some((Severity::Error, "race"));
        assert_eq!(found(k), errors.into_iter().chain([DATA]).collect::<Vec<_>>());
    }
}
