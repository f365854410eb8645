//! A finished launch is checked once more, with the numbers that its cores have read. Then nothing
//! depends on unknown data.

use ascend_program::check::{CoreReads, Finding, Severity};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;
use ascend_program_testing::build::Builder;

use crate::check::harness::{Kernel, reduction};

/// Returns the findings about one block before the launch, and after its vector core has read these
/// numbers.
fn twice(bits: &[u64], build: impl Fn(&mut Kernel)) -> [Vec<(Severity, &'static str)>; 2] {
    [false, true].map(|again| {
        let mut k = Kernel::new(Mix::MixAiv10);
        k.blocks = 1;
        build(&mut k);
        if again {
            k.setting.reads = vec![CoreReads { kind: Core::Aiv, index: 0, bits: bits.to_vec() }];
        }
        rules(&k.findings())
    })
}

fn rules(findings: &[Finding]) -> Vec<(Severity, &'static str)> {
    findings.iter().map(|finding| (finding.severity, finding.rule)).collect()
}

const NOTE: (Severity, &str) = (Severity::Note, "data");

/// Returns a number that the kernel reads.
fn number(k: &mut Builder) -> ValueId {
    let (x, v) = (k.input("numbers", Number::U64), k.variable("v", Number::U64));
    let place = k.at(x, 0);
    k.step(Step::Read(v, Read::Global(place)));
    k.get(v)
}

/// Adds a copy in and a copy out, with or without a wait between them.
fn copies(k: &mut Builder, length: ValueId, waits: bool) {
    let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
    let elements = k.n(64);
    let local = k.held("a", Number::F16, elements);
    let (from, to) = (k.at(x, 0), k.at(y, 0));
    k.copy_in(local, from, length);
    if waits {
        k.sync(Sync::Units(Pipe::In, Pipe::Out));
    }
    k.copy_out(to, local, length);
}

#[test]
fn what_a_branch_does_is_checked_when_it_was_taken() {
    let branch = |waits: bool| {
        move |k: &mut Kernel| {
            let (n, one, length) = (number(k), k.n(1), k.n(64));
            let taken = k.binary(Binary::Equal, n, one);
            k.when(taken, |k| copies(k, length, waits));
        }
    };
    let units = (Severity::Error, "units");
    assert_eq!(twice(&[1], branch(false)), [vec![NOTE], vec![units]]);
    assert_eq!(twice(&[2], branch(false)), [vec![NOTE], vec![]]);
    assert_eq!(twice(&[1], branch(true)), [vec![NOTE], vec![]]);
}

#[test]
fn a_count_that_was_read_is_within_its_tensor() {
    let counted = |k: &mut Kernel| {
        let n = number(k);
        k.setting.parameters = vec![Some(8), Some(128), Some(128)];
        k.call("copy", |k| copies(k, n, true));
    };
    let [before, after] = twice(&[64], counted);
    assert!(before.iter().all(|found| *found == NOTE) && !before.is_empty(), "{before:?}");
    assert_eq!(after, []);
    let [_, after] = twice(&[65], counted);
    assert!(after.contains(&(Severity::Error, "bounds")), "{after:?}");
}

/// Numbers beyond the end of the list are unknown, as before.
#[test]
fn behind_the_end_of_what_was_read_nothing_is_known() {
    let twice_read = |k: &mut Kernel| {
        let (first, second, length) = (number(k), number(k), k.n(64));
        for n in [first, second] {
            let zero = k.n(0);
            let taken = k.binary(Binary::Equal, n, zero);
            k.when(taken, |k| copies(k, length, true));
        }
    };
    assert_eq!(twice(&[0], twice_read), [vec![NOTE], vec![NOTE]]);
    assert_eq!(twice(&[0, 0], twice_read)[1], []);
}

/// If a core queries a turn until it is over, it comes after the turn, as after a wait.
#[test]
fn what_was_seen_of_a_turn_is_as_good_as_a_wait() {
    let asks = |until: u64| {
        move |k: &mut Kernel| {
            let (hccl, tiles, operation) = reduction(k);
            k.prepare(tiles, operation, 1, true);
            let (v, rounds) = (k.variable("done", Number::I32), k.n(3));
            k.range("round", rounds, |k, _| k.step(Step::Read(v, Read::Finished(tiles))));
            let (done, until) = (k.get(v), k.n(until));
            let done = k.value(Of::Cast(done), Number::U64);
            let is_done = k.binary(Binary::Equal, done, until);
            let length = k.n(64);
            // The core uses the data that it has received.
            let y = Base::Parameter(1);
            let buffer = k.scratch("b", Number::F16, length);
            let tensor = k.local("b_all", Number::F16);
            k.when(is_done, |k| {
                k.buffer(Buffer::InitScratch(buffer));
                k.buffer(Buffer::Get(buffer, tensor));
                let pieces = Pieces { length, count: None, gap: None };
                let (to, from) = (Local { tensor, offset: None }, k.at(y, 0));
                k.step(Step::Copy(Copy::In { to, from, pieces }));
            });
            k.wait(tiles);
            k.finalize(hccl);
        }
    };
    let [before, after] = twice(&[0, 0, 1], asks(1));
    assert!(before.contains(&NOTE), "{before:?}");
    assert_eq!(after, []);
    // The core continues although the turn was not over.
    let [_, after] = twice(&[0, 0, 0], asks(0));
    assert_eq!(after, [(Severity::Error, "arrived")]);
}

/// More steps are followed if the setting says so.
#[test]
fn a_long_launch_is_followed_as_far_as_the_setting_says() {
    let found = |steps: u64| {
        let mut k = Kernel::new(Mix::MixAiv10);
        k.blocks = 1;
        k.setting.steps = steps;
        let v = k.variable("v", Number::F32);
        let start = k.float(Number::F32, 1.0);
        k.step(Step::Set(v, start));
        let turns = k.n(200_000);
        k.range("i", turns, |k, _| {
            let (now, two) = (k.get(v), k.float(Number::F32, 0.5));
            let next = k.binary(Binary::Mul, now, two);
            k.step(Step::Set(v, next));
        });
        rules(&k.findings())
    };
    assert_eq!(found(1 << 10), [(Severity::Note, "long")]);
    assert_eq!(found(1 << 20), []);
}

/// Numbers that were read in skipped iterations are not used for reads after them.
#[test]
fn behind_a_loop_that_is_not_followed_to_its_end_nothing_is_known() {
    let found = |again: bool| {
        let mut k = Kernel::new(Mix::MixAiv10);
        k.blocks = 1;
        k.setting.steps = 1 << 10;
        let (turns, x) = (k.n(2000), k.input("inner", Number::U64));
        let v = k.variable("inner_v", Number::U64);
        k.range("i", turns, |k, _| {
            let place = k.at(x, 0);
            k.step(Step::Read(v, Read::Global(place)));
        });
        let n = number(&mut k);
        k.setting.parameters = vec![Some(8), Some(8), Some(128), Some(128)];
        copies(&mut k, n, true);
        if again {
            let bits = [vec![1_000_000; 2000], vec![64]].concat();
            k.setting.reads = vec![CoreReads { kind: Core::Aiv, index: 0, bits }];
        }
        rules(&k.findings())
    };
    assert_eq!(found(true), found(false));
    assert!(found(true).iter().all(|(severity, _)| *severity == Severity::Note));
}
