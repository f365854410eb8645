//! Tests of the rules of cores that use the same global memory: if one of them writes, they must
//! meet between the two uses.

use ascend_program::check::{Finding, Product};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, all_reduce, rules};
use ascend_program_testing::build::Builder;

/// Returns a tensor that the kernel may read and write, and 64 half floats of local memory.
fn tensor(k: &mut Kernel) -> (Base, Local) {
    let y = k.output("y", Number::F16);
    let mut a = None;
    k.on(Core::Aiv, |b| a = Some(b.filled("a", Number::F16, 64)));
    (y, a.expect("the body has run"))
}

/// Adds `base[at..] = a` in pieces of this length, number and gap.
fn write(
    b: &mut Builder,
    from: Local,
    base: Base,
    at: u64,
    [length, count, gap]: [u64; 3],
    add: bool,
) {
    let to = b.at(base, at);
    let [length, count, gap] = [length, count, gap].map(|n| b.n(n));
    let pieces = Pieces { length, count: Some(count), gap: Some(gap) };
    b.step(Step::Copy(Copy::Out { to, from, pieces, add }));
}

/// Adds `a = base[at..]`.
fn read(b: &mut Builder, to: Local, base: Base, at: u64, [length, count, gap]: [u64; 3]) {
    let from = b.at(base, at);
    let [length, count, gap] = [length, count, gap].map(|n| b.n(n));
    let pieces = Pieces { length, count: Some(count), gap: Some(gap) };
    b.step(Step::Copy(Copy::In { to, from, pieces }));
}

const ALL: [u64; 3] = [64, 1, 0];

rules! {
    cores_meet_between_writing_and_reading, "race", MixAiv10, |k, broken| {
        let (y, a) = tensor(k);
        k.on_block(0, |b| write(b, a, y, 0, ALL, false));
        if !broken {
            k.sync_vectors();
        }
        k.on_block(1, |b| read(b, a, y, 63, ALL));
    };

    cores_meet_between_reading_and_writing, "race", MixAiv10, |k, broken| {
        let (y, a) = tensor(k);
        k.on_block(0, |b| read(b, a, y, 0, ALL));
        if !broken {
            k.sync_vectors();
        }
        k.on_block(1, |b| write(b, a, y, 0, ALL, false));
    };

    cores_write_parts_of_their_own, "race", MixAiv10, |k, broken| {
        let (y, a) = tensor(k);
        for block in 0..2 {
            // The blocks write lines of 16 elements in turn.
            let at = if broken { 8 * block } else { 16 * block };
            k.on_block(block, |b| write(b, a, y, at, [16, 2, 16], false));
        }
    };

    cores_add_to_the_same_elements, "race", MixAiv10, |k, broken| {
        let (y, a) = tensor(k);
        k.on_block(0, |b| write(b, a, y, 0, ALL, !broken));
        k.on_block(1, |b| write(b, a, y, 0, ALL, true));
    };

    a_flag_orders_cores_of_both_kinds, "race", MixAic11, |k, broken| {
        k.blocks = 1;
        let (y, a) = tensor(k);
        let x = k.input("x", Number::F16);
        k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(0));
        k.put_cube(64, Number::F16, None, [16; 3]);
        let (matmul, n) = (k.matmul("mm", Number::F16, None, 64), k.n(16));
        let [left, right, c] = [x, x, y].map(|base| k.at(base, 0));
        let (rows, columns, depth, pitches) = (n, n, n, [n; 3]);
        let multiply = Multiply { matmul, a: left, b: right, c, bias: None, rows, columns, depth, pitches };
        k.on(Core::Aic, |b| {
            b.step(Step::Matmul(multiply));
            b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Fix, flag: 8 });
        });
        k.on(Core::Aiv, |b| {
            if broken {
                read(b, a, y, 0, ALL);
            }
            b.sync(Sync::Await { flag: 8 });
            if !broken {
                read(b, a, y, 0, ALL);
            }
        });
    };

    a_turn_orders_who_committed_it_and_who_waited, "race", MixAiv10, |k, broken| {
        let (x, a) = tensor(k);
        let y = k.output("z", Number::F16);
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        let operation = all_reduce(k, x, y);
        k.prepare(t, operation, 1, false);
        k.on_block(0, |b| write(b, a, x, 0, ALL, false));
        k.sync(Sync::Units(Pipe::Out, Pipe::Scalar));
        k.commit(t);
        if broken {
            k.on_block(1, |b| write(b, a, x, 0, ALL, false));
        }
        k.wait(t);
        if !broken {
            k.on_block(1, |b| write(b, a, x, 0, ALL, false));
        }
        k.sync_vectors();
        k.finalize(hccl);
    };

    windows_of_ranks_are_different_memory, "race", MixAiv10, |k, broken| {
        k.setting.product = Product::A3;
        let (_, _) = tensor(k);
        let a = k.filled("b", Number::U8, 64);
        let hccl = k.ready(&[2]);
        for block in 0..2 {
            let rank = k.n(if broken { 3 } else { 2 + block });
            k.on_block(block, |b| write(b, a, Base::WindowIn(hccl, rank), 0, ALL, false));
        }
    };
}

#[test]
fn races_are_those_of_every_element() {
    let mut random = fastrand::Rng::with_seed(12);
    let mut seen = [0; 2];
    for _ in 0..1500 {
        let mut shape = || {
            let [length, count, gap] = [random.u64(1..5), random.u64(1..5), random.u64(0..9)];
            (random.u64(0..40), [length, count, gap], random.bool())
        };
        let mut both = [shape(), shape()];
        // The two accesses are to rows of one matrix, which have the same distance.
        let pitch = both[0].1[0] + both[0].1[2];
        let [length, _, gap] = &mut both[1].1;
        if *gap % 2 == 0 && pitch >= *length {
            *gap = pitch - *length;
        }
        let mut k = Kernel::new(Mix::MixAiv10);
        let (y, a) = tensor(&mut k);
        for (block, (at, pieces, out)) in (0..).zip(both) {
            k.on_block(block, |b| match out {
                true => write(b, a, y, at, pieces, false),
                false => read(b, a, y, at, pieces),
            });
        }
        let elements = |(at, [length, count, gap], _): (u64, [u64; 3], bool)| {
            (0..count)
                .flat_map(move |piece| (0..length).map(move |n| at + piece * (length + gap) + n))
        };
        let writes = both[0].2 || both[1].2;
        let race = writes && elements(both[0]).any(|n| elements(both[1]).any(|m| n == m));
        let findings: Vec<Finding> = k.findings();
        let found: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(found, if race { vec!["race"] } else { vec![] }, "{both:?}: {findings:#?}");
        seen[usize::from(race)] += 1;
    }
    assert!(seen[0] > 300 && seen[1] > 300, "{seen:?}");
}
