//! Tests of kernels that break a rule in a part that the check before their launch cannot reach.

use super::setup::*;
use ascend_emulator_testing::common::{Block, malloc, read, write};
use ascend_emulator_testing::kernel::build::{self, Builder};
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ok;
use ascend_emulator_testing::ranks::{self, Rank};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

const ALL_REDUCE: u32 = 2;

/// Copies 64 half floats from `x` to `y`. If `repaired` is set, the copy out waits for the copy in.
fn copies(b: &mut Builder, tensors: [Base; 2], repaired: bool) {
    let length = b.n(64);
    copy(b, tensors, length, repaired);
}

fn copy(b: &mut Builder, [x, y]: [Base; 2], length: ValueId, repaired: bool) {
    let room = b.n(64);
    let local = b.held("a_all", Number::F16, room);
    let (from, to) = (b.at(x, 0), b.at(y, 0));
    b.copy_in(local, from, length);
    if repaired {
        b.sync(Sync::Units(Pipe::In, Pipe::Out));
    }
    b.copy_out(to, local, length);
}

/// Returns a program that copies if the first of the `numbers` is 1.
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

/// Returns a program whose loop copies only in its last iteration, after very many iterations.
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

/// Runs the program with these `numbers`, and checks that it has copied the data.
fn run(program: &Program, two: &Two, numbers: [u64; 2]) {
    let [x, y, given_numbers, workspace] = [128, 128, 16, 32].map(malloc);
    write(x, &[7; 128]);
    write(given_numbers, &numbers.map(u64::to_le_bytes).concat());
    let mut given: Vec<_> = [x, y, given_numbers, workspace].map(Given::Pointer).into();
    let tiling = build::tiling(&[]);
    given.push(Given::Bytes(&tiling));
    launch(function(load(program), &program.name), 1, &given, two.a);
    ok!(aclrtSynchronizeStream(two.a));
    assert_eq!(read(y, 128), [7; 128], "this time it went well");
}

/// Tests the kernel once with the broken rule and once with the repair.
fn planted(kernel: fn(bool) -> Program, pieces: &[&str]) {
    race(pieces, |two, repaired| run(&kernel(repaired), two, [1, 0]));
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

/// Checks a loop that is too long even for the second check. The values that the loop reads must
/// not be used for the reads after it.
#[test]
fn what_is_read_behind_a_loop_that_is_too_long_is_not_known() {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let numbers = b.input("numbers", Number::U64);
    let (turns, v, c) = (b.n(50_000), b.variable("v", Number::U64), b.variable("c", Number::U64));
    b.range("turn", turns, |b, _| {
        (0..100).for_each(|_| b.sync(Sync::Pipe(Pipe::Vector)));
        let place = b.at(numbers, 0);
        b.step(Step::Read(v, Read::Global(place)));
    });
    let place = b.at(numbers, 1);
    b.step(Step::Read(c, Read::Global(place)));
    let length = b.get(c);
    copy(&mut b, [x, y], length, true);
    (b.program.groups, b.program.tiling) = (0, Some(build::tiling_layout(0)));
    let (program, two) = (b.done(), Two::new());
    run(&program, &two, [1_000_000, 64]);
    assert_eq!(findings(&two.block), Vec::<String>::new());
}

/// Gives a kernel the address of its window as an argument. The kernel gets this address from its
/// context, too.
#[test]
fn what_is_written_to_a_window_by_its_address_is_written() {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, w) = (b.input("x", Number::I32), b.output("w", Number::I32));
    let y = b.output("y", Number::I32);
    let client = b.ready(&[ALL_REDUCE]);
    let (task, own) = (b.task("sum", client), b.value(Of::Rank(client), Number::U32));
    let own = b.value(Of::Cast(own), Number::U64);
    let (to, value) = (b.at(w, 0), b.value(Of::Constant(7), Number::I32));
    b.step(Step::Copy(Copy::Set { to, value }));
    b.step(Step::Copy(Copy::Clean(to)));
    let v = b.variable("v", Number::U8);
    // The first byte is written, and the second one is not.
    for byte in [0, 4] {
        let from = b.at(Base::WindowIn(client, own), byte);
        b.step(Step::Read(v, Read::Global(from)));
    }
    let all_reduce = operation(&mut b, &Call::new(ALL_REDUCE, 0, 64, 0, 1), x, y, 2);
    b.prepare(task, all_reduce, 1, true);
    b.wait(task);
    b.sync_vectors();
    b.finalize(client);
    let (program, block, info) = (b.done(), Block::with(config(2)), ranks::root_info());
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (block, info, program) = (&block, &info, &program);
            scope.spawn(move || {
                let mut rank = Rank::without_comm(block, info, rank, 2);
                rank.join();
                let ready = Ready::new(&rank, program, &[ALL_REDUCE]);
                let head = read(ready.context, 48);
                let window = u64::from_le_bytes(head[32..40].try_into().unwrap()) as usize;
                let window = std::ptr::with_exposed_provenance_mut(window);
                let (x, y) = (rank.upload(&ints(0..64)), rank.upload(&[0; 256]));
                ready.run_all(&rank, 1, &[x, window, y]);
                rank.sync();
            });
        }
    });
    let found = findings(&block);
    assert_eq!(found.len(), 2, "{found:#?}");
    for text in found {
        assert!(text.starts_with("unwritten: bytes 4..5 of the input window of rank "), "{text}");
    }
}
