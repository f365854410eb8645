//! Kernels that break a rule where the check before their launch could not look.

use super::setup::*;
use ascend_emulator_testing::common::{malloc, read, write};
use ascend_emulator_testing::kernel::build::{self, Builder};
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ok;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

/// Copies 64 half floats from `x` to `y`; the repaired one has the copy out wait for the copy in.
fn copies(b: &mut Builder, [x, y]: [Base; 2], repaired: bool) {
    let length = b.n(64);
    let buffer = b.scratch("a", Number::F16, length);
    let tensor = b.local("a_all", Number::F16);
    b.buffer(Buffer::InitScratch(buffer));
    b.buffer(Buffer::Get(buffer, tensor));
    let local = Local { tensor, offset: None };
    let pieces = Pieces { length, count: None, gap: None };
    let (from, to) = (b.at(x, 0), b.at(y, 0));
    b.step(Step::Copy(Copy::In { to: local, from, pieces }));
    if repaired {
        b.sync(Sync::Units(Pipe::In, Pipe::Out));
    }
    b.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
}

/// Copies if `numbers` says so.
fn by_data(repaired: bool) -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let (numbers, v) = (b.input("numbers", Number::U64), b.variable("v", Number::U64));
    let place = b.at(numbers, 0);
    b.step(Step::Read(v, Read::Global(place)));
    let (number, one) = (b.get(v), b.n(1));
    let says_so = b.binary(Binary::Equal, number, one);
    b.when(says_so, |b| copies(b, [x, y], repaired));
    (b.program.groups, b.program.tiling) = (0, Some(build::tiling_layout(0)));
    b.done()
}

/// Copies in the last of very many turns.
fn late(repaired: bool) -> Program {
    const TURNS: u64 = 600_000;
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    b.input("numbers", Number::U64);
    let (turns, last) = (b.n(TURNS), b.n(TURNS - 1));
    b.range("turn", turns, |b, turn| {
        b.sync(Sync::Pipe(Pipe::All));
        b.sync(Sync::Pipe(Pipe::Vector));
        let is_last = b.binary(Binary::Equal, turn, last);
        b.when(is_last, |b| copies(b, [x, y], repaired));
    });
    (b.program.groups, b.program.tiling) = (0, Some(build::tiling_layout(0)));
    b.done()
}

/// Launches it with 1 in `numbers`: once it breaks the rule and once it does not.
fn planted(kernel: fn(bool) -> Program, pieces: &[&str]) {
    race(pieces, |two, repaired| {
        let program = kernel(repaired);
        let [x, y, numbers, workspace] = [128, 128, 8, 32].map(malloc);
        write(x, &[7; 128]);
        write(numbers, &1_u64.to_le_bytes());
        let mut given: Vec<_> = [x, y, numbers, workspace].map(Given::Pointer).into();
        let tiling = build::tiling(&[]);
        given.push(Given::Bytes(&tiling));
        launch(function(load(&program), &program.name), 1, &given, two.a);
        ok!(aclrtSynchronizeStream(two.a));
        assert_eq!(read(y, 128), [7; 128], "this time it went well");
    });
}

const PIECES: [&str; 4] = [
    "kernel: MTE3 reads element 0 of the buffer of `a_all`, which MTE2 writes",
    "1 run: kernel kernel, task ",
    "rule units, src/kernel.rs",
    "help: call `k.wait_for(Pipe::Out, Pipe::In)` in between",
];

#[test]
fn a_part_of_a_kernel_depends_on_data() {
    planted(by_data, &PIECES);
}

#[test]
fn a_part_of_a_kernel_comes_after_very_many_turns() {
    planted(late, &PIECES);
}
