//! Tests of the rules about lost work: results that nothing uses, outputs that nothing writes, and
//! sends whose stride does not match that of a sibling task.

use ascend_program::check::Severity;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, exchange, reduction, rules};

/// Adds two all-reduces of 64 elements each, the second one at element `at` of `y`. The steps of
/// `between` come between them.
fn twice(k: &mut Kernel, at: u64, between: impl FnOnce(&mut Kernel, Base, Local)) {
    let (x, y) = (k.output("x", Number::F16), k.output("y", Number::F16));
    let hccl = k.ready(&[2]);
    let (first, second) = (k.task("first", hccl), k.task("second", hccl));
    let local = k.filled("a", Number::F16, 64);
    let write = |k: &mut Kernel, from: u64| {
        let (to, length) = (k.at(x, from), k.n(64));
        let pieces = Pieces { length, count: None, gap: None };
        k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
    };
    write(k, 0);
    k.sync(Sync::Units(Pipe::Out, Pipe::Scalar));
    let e = exchange(k, x, y, 64);
    k.prepare(first, Operation::AllReduce(e, Reduction::Sum), 1, true);
    k.wait(first);
    between(k, y, local);
    let recv = k.at(y, at);
    k.prepare(second, Operation::AllReduce(Exchange { recv, ..e }, Reduction::Sum), 1, true);
    k.wait(second);
    k.finalize(hccl);
    k.blocks = 1;
}

fn copy_in(k: &mut Kernel, base: Base, local: Local, from: u64, length: u64) {
    let (from, length) = (k.at(base, from), k.n(length));
    let pieces = Pieces { length, count: None, gap: None };
    k.step(Step::Copy(Copy::In { to: local, from, pieces }));
}

rules! {
    every_output_is_written, "never-written", MixAiv10, |k, broken| {
        let (y, z) = (k.output("y", Number::F16), k.output("z", Number::F16));
        let local = k.filled("a", Number::F16, 64);
        for base in if broken { vec![] } else { vec![y, z] } {
            let (to, length) = (k.at(base, 0), k.n(64));
            let pieces = Pieces { length, count: None, gap: None };
            k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
        }
        k.blocks = 1;
    };

    a_result_that_another_turn_overwrites_was_used, "overwritten", MixAiv10, |k, broken| {
        twice(k, 0, |k, y, local| {
            if !broken {
                copy_in(k, y, local, 0, 64);
                k.sync(Sync::Pipe(Pipe::All));
            }
        });
    };

    results_beside_each_other_are_not_overwritten, "overwritten", MixAiv10, |k, broken| {
        twice(k, if broken { 63 } else { 64 }, |_, _, _| {});
    };

    a_use_of_other_elements_is_none, "overwritten", MixAiv10, |k, broken| {
        twice(k, 32, |k, y, local| {
            copy_in(k, y, local, if broken { 0 } else { 1 }, 32);
            k.sync(Sync::Pipe(Pipe::All));
        });
    };

    a_result_that_a_core_overwrites_was_used, "overwritten", MixAiv10, |k, broken| {
        twice(k, 64, |k, y, local| {
            if !broken {
                copy_in(k, y, local, 0, 64);
                k.sync(Sync::Units(Pipe::In, Pipe::Out));
            }
            let (to, length) = (k.at(y, 0), k.n(64));
            let pieces = Pieces { length, count: None, gap: None };
            k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
            k.sync(Sync::Pipe(Pipe::All));
        });
    };

    // There are four ranks, each with 4 tiles of 64 elements and a tail of 16. The data of two
    // ranks is 272 elements apart, also for the tail.
    a_tail_has_the_stride_of_its_tiles, "stride", MixAiv10, |k, broken| {
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        let hccl = k.ready(&[7]);
        let (tiles, tail) = (k.task("tiles", hccl), k.task("tail", hccl));
        let e = exchange(k, x, y, 64);
        let stride = k.n(272);
        k.prepare(tiles, Operation::ReduceScatter(e, Reduction::Sum, stride), 4, true);
        let (send, recv, count) = (k.at(x, 256), k.at(y, 256), k.n(16));
        let stride = k.n(if broken { 16 } else { 272 });
        let e = Exchange { send, recv, count, ..e };
        k.prepare(tail, Operation::ReduceScatter(e, Reduction::Sum, stride), 1, true);
        k.times(4, |b| b.wait(tiles));
        k.wait(tail);
        k.finalize(hccl);
        k.blocks = 1;
    };
}

#[test]
fn a_warning_is_allowed_by_name() {
    for allowed in [None, Some(Warning::NeverWritten), Some(Warning::Overwritten)] {
        let mut k = Kernel::new(Mix::MixAiv10);
        k.warned = true;
        k.output("z", Number::F16);
        let reason = "the host has written it".to_owned();
        k.program.allowed.extend(allowed.map(|warning| Allowed { warning, reason }));
        let found: Vec<_> = k.findings().iter().map(|of| (of.severity, of.rule)).collect();
        match allowed {
            Some(Warning::NeverWritten) => assert_eq!(found, []),
            _ => assert_eq!(found, [(Severity::Warning, "never-written")]),
        }
    }
}

/// There is no warning about an output without elements, or about one that may be written.
#[test]
fn an_output_may_be_empty() {
    let mut k = Kernel::new(Mix::MixAiv10);
    k.warned = true;
    k.output("z", Number::F16);
    k.setting.parameters = vec![Some(0)];
    assert_eq!(k.findings(), []);
}

/// The send of an operation in place is a use.
#[test]
fn a_result_that_is_sent_on_is_used() {
    let mut k = Kernel::new(Mix::MixAiv10);
    k.warned = true;
    let (hccl, first, operation) = reduction(&mut k);
    let second = k.task("second", hccl);
    let Operation::AllReduce(e, sum) = operation else { panic!("an all-reduce") };
    k.prepare(first, Operation::AllReduce(e, sum), 1, true);
    k.wait(first);
    k.prepare(second, Operation::AllReduce(Exchange { send: e.recv, ..e }, sum), 1, true);
    k.wait(second);
    k.finalize(hccl);
    k.blocks = 1;
    assert_eq!(k.findings(), []);
}
