//! Tests of the rules about the order of uses of global memory: data that a turn sends is written
//! before its commit, and data that it receives is used after a wait.

use ascend_program::check::{Finding, Product};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::groups::second;
use crate::check::harness::{Kernel, exchange, rules};
use ascend_program_testing::build::Builder;

/// The parts of a kernel of two vector cores, with a scratch buffer of 64 half floats on each.
struct Made {
    x: Base,
    y: Base,
    hccl: ClientId,
    tiles: TaskId,
    local: Local,
}

/// Returns the parts for an operation with this command. The kernel writes the input of the
/// operation, so `x` is an output too.
fn made(k: &mut Kernel, command: u32) -> Made {
    let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
    let hccl = k.ready(&[command]);
    let tiles = k.task("tiles", hccl);
    let local = k.filled("a", Number::F16, 64);
    Made { x, y, hccl, tiles, local }
}

fn pieces(length: ValueId) -> Pieces {
    Pieces { length, count: None, gap: None }
}

/// Adds `base[offset..][..length] = a`.
fn write(b: &mut Builder, m: &Made, base: Base, offset: ValueId, length: u64) {
    let (to, length) = (Place { base, offset }, b.n(length));
    b.step(Step::Copy(Copy::Out { to, from: m.local, pieces: pieces(length), add: false }));
}

/// Adds `a = base[offset..][..length]`.
fn read(b: &mut Builder, m: &Made, base: Base, offset: u64, length: u64) {
    let (from, length) = (b.at(base, offset), b.n(length));
    b.step(Step::Copy(Copy::In { to: m.local, from, pieces: pieces(length) }));
}

/// Returns `64 * block_idx + from`: each core writes its part of a tile of 128 elements of `x`.
fn part(b: &mut Builder, from: u64) -> ValueId {
    let (index, width, from) = (b.block_index(), b.n(64), b.n(from));
    let start = b.binary(Binary::Mul, index, width);
    b.binary(Binary::Add, start, from)
}

fn all_reduce(k: &mut Kernel, m: &Made, count: u64) -> Operation {
    Operation::AllReduce(exchange(k, m.x, m.y, count), Reduction::Sum)
}

rules! {
    all_cores_have_written_what_is_sent, "ready", MixAiv10, |k, broken| {
        let m = made(k, 2);
        let operation = all_reduce(k, &m, 128);
        let offset = part(k, 0);
        write(k, &m, m.x, offset, 64);
        if !broken {
            k.sync_vectors();
        }
        k.on_block(0, |b| {
            b.prepare(m.tiles, operation, 1, true);
            b.wait(m.tiles);
            b.finalize(m.hccl);
        });
    };

    the_next_tile_may_be_written_while_one_is_sent, "ready", MixAiv10, |k, broken| {
        let m = made(k, 2);
        let operation = all_reduce(k, &m, 128);
        k.on_block(0, |b| b.prepare(m.tiles, operation, 2, false));
        for turn in 0..2 {
            // The broken kernel writes the first tile in both rounds, although the tile is being
            // sent in the second round.
            let offset = part(k, if broken { 0 } else { 128 * turn });
            write(k, &m, m.x, offset, 64);
            k.sync_vectors();
            k.on_block(0, |b| b.commit(m.tiles));
        }
        k.on_block(0, |b| {
            b.times(2, |b| b.wait(m.tiles));
            b.finalize(m.hccl);
        });
    };

    what_is_received_is_read_after_a_wait, "arrived", MixAiv10, |k, broken| {
        let m = made(k, 2);
        let operation = all_reduce(k, &m, 128);
        k.on_block(0, |b| {
            b.prepare(m.tiles, operation, 1, true);
            if broken {
                read(b, &m, m.y, 0, 64);
            }
            b.wait(m.tiles);
            if !broken {
                read(b, &m, m.y, 0, 64);
            }
            b.finalize(m.hccl);
        });
    };

    other_cores_meet_the_one_that_waited, "arrived", MixAiv10, |k, broken| {
        let m = made(k, 2);
        let operation = all_reduce(k, &m, 128);
        k.on_block(0, |b| {
            b.prepare(m.tiles, operation, 1, true);
            b.wait(m.tiles);
        });
        if !broken {
            k.sync_vectors();
        }
        read(k, &m, m.y, 64, 64);
        k.on_block(0, |b| b.finalize(m.hccl));
    };

    each_turn_is_waited_for_before_its_tile_is_read, "arrived", MixAiv10, |k, broken| {
        let m = made(k, 2);
        let operation = all_reduce(k, &m, 64);
        k.on_block(0, |b| {
            b.prepare(m.tiles, operation, 2, true);
            b.wait(m.tiles);
            read(b, &m, m.y, if broken { 64 } else { 0 }, 64);
            b.wait(m.tiles);
            b.finalize(m.hccl);
        });
    };

    all_is_there_after_the_end, "arrived", MixAiv10, |k, broken| {
        k.setting.tolerant = true;
        let m = made(k, 2);
        let operation = all_reduce(k, &m, 64);
        k.on_block(0, |b| {
            b.prepare(m.tiles, operation, 2, true);
            b.wait(m.tiles);
            if broken {
                read(b, &m, m.y, 64, 64);
            }
            b.finalize(m.hccl);
            read(b, &m, m.y, 64, 64);
        });
    };

    what_a_task_of_another_group_came_after_is_there_too, "arrived", MixAiv10, |k, broken| {
        let m = made(k, 2);
        let z = k.output("z", Number::F16);
        let other = second(k, 1);
        let next = k.task("next", other);
        let operation = all_reduce(k, &m, 64);
        let (e, sum) = (exchange(k, m.x, z, 64), Reduction::Sum);
        k.on_block(0, |b| {
            b.prepare(m.tiles, operation, 1, true);
            if !broken {
                b.hccl(Hccl::After(other, m.tiles));
            }
            b.prepare(next, Operation::AllReduce(e, sum), 1, true);
            b.wait(next);
            read(b, &m, m.y, 0, 64);
            b.wait(m.tiles);
            b.finalize(m.hccl);
            b.finalize(other);
        });
    };

    on_a2_the_host_may_leave_out_the_own_block, "arrived", MixAiv10, |k, broken| {
        k.setting.product = Product::A2;
        let m = made(k, 6);
        k.put(64, u32::from(!broken) | 1 << 24);
        let e = exchange(k, m.x, m.y, 64);
        let stride = k.n(64);
        k.on_block(0, |b| {
            b.prepare(m.tiles, Operation::AllGather(e, stride), 1, true);
            // This is the block of rank 1, which is the rank of this launch.
            read(b, &m, m.y, 64, 64);
            b.wait(m.tiles);
            b.finalize(m.hccl);
        });
    };

    a_product_is_written_before_it_is_sent, "ready", MixAic11, |k, broken| {
        let (x, w) = (k.input("a", Number::F16), k.input("w", Number::F16));
        let (c, y) = (k.output("c", Number::F16), k.output("y", Number::F16));
        let hccl = k.ready(&[2]);
        let tiles = k.task("tiles", hccl);
        let at = 64 + 512;
        k.put_cube(at, Number::F16, None, [16; 3]);
        let (matmul, n) = (k.matmul("mm", Number::F16, None, at as u32), k.n(16));
        let [a, b, to] = [x, w, c].map(|base| k.at(base, 0));
        let pitches = [n; 3];
        let multiply = Multiply { matmul, a, b, c: to, bias: None, rows: n, columns: n, depth: n, pitches };
        let operation = Operation::AllReduce(exchange(k, c, y, 256), Reduction::Sum);
        k.on(Core::Aic, |b| {
            b.step(Step::Matmul(multiply));
            if !broken {
                b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Fix, flag: 8 });
            }
        });
        k.on(Core::Aiv, |b| {
            if !broken {
                b.sync(Sync::Await { flag: 8 });
            }
            b.on_block(0, |b| {
                b.prepare(tiles, operation, 1, true);
                b.wait(tiles);
                b.finalize(hccl);
            });
        });
        // Two blocks would write the same elements.
        k.blocks = 1;
    };
}

#[test]
fn only_elements_that_both_use_count() {
    // The operation gathers into rows of 12 elements. Each turn fills 3 of them from every rank,
    // while the core uses pieces of some rows.
    let mut random = fastrand::Rng::with_seed(11);
    let mut seen = [0; 2];
    for _ in 0..1500 {
        let (count, repeat, ranks) = (random.u64(1..5), random.u64(1..4), random.u64(1..5));
        let stride = count * repeat + random.u64(0..6);
        let (start, to) = (random.u64(0..40), random.u64(0..9));
        let (length, rows, gap) = (random.u64(1..4), random.u64(1..5), random.u64(0..20));
        let waited = random.u64(0..=repeat);

        let mut k = Kernel::new(Mix::MixAiv10);
        (k.blocks, k.ranks) = (1, ranks as u32);
        let m = made(&mut k, 6);
        let e = exchange(&mut k, m.x, m.y, count);
        let (recv, stride_of) = (k.at(m.y, to), k.n(stride));
        let operation = Operation::AllGather(Exchange { recv, ..e }, stride_of);
        let from = k.at(m.y, start);
        let [length_of, rows_of, gap_of] = [length, rows, gap].map(|n| k.n(n));
        k.prepare(m.tiles, operation, repeat, true);
        k.times(waited, |b| b.wait(m.tiles));
        let pieces = Pieces { length: length_of, count: Some(rows_of), gap: Some(gap_of) };
        k.step(Step::Copy(Copy::In { to: m.local, from, pieces }));
        k.times(repeat - waited, |b| b.wait(m.tiles));
        k.finalize(m.hccl);

        let read = |at: u64| {
            let inside = at.checked_sub(start).map(|at| (at / (length + gap), at % (length + gap)));
            inside.is_some_and(|(row, column)| row < rows && column < length)
        };
        let early = (waited..repeat).any(|turn| {
            (0..ranks).any(|rank| (0..count).any(|i| read(to + rank * stride + turn * count + i)))
        });
        let findings: Vec<Finding> = k.findings();
        let found = findings.iter().any(|finding| finding.rule == "arrived");
        assert_eq!(
            found, early,
            "{count} {repeat} {ranks} {stride} {to}; {start} {length} {rows} {gap}: {findings:#?}"
        );
        assert_eq!(findings.len(), usize::from(early));
        seen[usize::from(early)] += 1;
    }
    assert!(seen[0] > 200 && seen[1] > 200, "{seen:?}");
}
