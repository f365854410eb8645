//! Tests of the rule about windows: some rank must have written the data that a rank reads there.

use ascend_program::check::{Finding, Severity};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, exchange, expect};

/// A kernel of one block on four ranks, to which each test adds writes and reads of windows, such
/// as a write to the window of the next rank and a read of its own window.
struct Ring {
    k: Kernel,
    hccl: ClientId,
    own: ValueId,
    next: ValueId,
    local: Local,
}

impl Ring {
    fn new() -> Ring {
        let mut k = Kernel::new(Mix::MixAiv10);
        k.blocks = 1;
        let hccl = k.ready(&[2]);
        let rank = k.value(Of::Rank(hccl), Number::U32);
        let own = k.value(Of::Cast(rank), Number::U64);
        let (one, ranks) = (k.n(1), k.n(4));
        let next = k.binary(Binary::Add, own, one);
        let next = k.binary(Binary::Rem, next, ranks);
        let local = k.filled("a", Number::F16, 256);
        Ring { k, hccl, own, next, local }
    }

    fn window(&self, rank: ValueId) -> Base {
        Base::WindowIn(self.hccl, rank)
    }

    /// Writes or reads `length` elements from `from` on.
    fn copy(&mut self, base: Base, from: ValueId, length: ValueId, write: bool) {
        let (place, local) = (Place { base, offset: from }, self.local);
        let pieces = Pieces { length, count: None, gap: None };
        self.k.step(Step::Copy(match write {
            true => Copy::Out { to: place, from: local, pieces, add: false },
            false => Copy::In { to: local, from: place, pieces },
        }));
        self.k.sync(Sync::Pipe(Pipe::All));
    }

    fn write(&mut self, rank: ValueId, from: u64, length: u64) {
        let (from, length) = (self.k.n(from), self.k.n(length));
        self.copy(self.window(rank), from, length, true);
    }

    fn read(&mut self, rank: ValueId, from: u64, length: u64) {
        let (from, length) = (self.k.n(from), self.k.n(length));
        self.copy(self.window(rank), from, length, false);
    }

    /// Returns the findings about windows, by rank.
    fn found(self) -> Vec<Vec<Finding>> {
        let mut found = self.k.findings_of_all();
        found.iter_mut().for_each(|of| of.retain(|finding| finding.rule == "windows"));
        found
    }
}

fn severities(found: &[Vec<Finding>]) -> Vec<Option<Severity>> {
    found.iter().map(|of| of.first().map(|finding| finding.severity)).collect()
}

const ERROR: Option<Severity> = Some(Severity::Error);
const NOTE: Option<Severity> = Some(Severity::Note);

#[test]
fn what_is_read_of_a_window_some_rank_writes() {
    let ring = |read: u64| {
        let mut ring = Ring::new();
        ring.write(ring.next, 0, 64);
        ring.read(ring.own, 0, read);
        ring.found()
    };
    assert_eq!(severities(&ring(64)), [None; 4]);
    let wrong = ring(65);
    assert_eq!(severities(&wrong), [ERROR; 4]);
    let texts: Vec<String> = wrong.iter().flatten().map(ToString::to_string).collect();
    expect("what_is_read_of_a_window_some_rank_writes", &(texts.join("\n") + "\n"));
}

/// The same bug in a loop and in a function.
#[test]
fn a_loop_that_writes_one_piece_too_few_is_found() {
    let ring = |pieces: u64| {
        let mut ring = Ring::new();
        let (next, own, local) = (ring.window(ring.next), ring.window(ring.own), ring.local);
        let (to, length) = (ring.k.n(pieces), ring.k.n(16));
        ring.k.call("send", |k: &mut _| {
            k.range("piece", to, |k, piece| {
                let bytes = k.n(32);
                let offset = k.binary(Binary::Mul, piece, bytes);
                let pieces = Pieces { length, count: None, gap: None };
                let to = Place { base: next, offset };
                k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
            });
        });
        let (from, length) = (ring.k.n(0), ring.k.n(64));
        ring.copy(own, from, length, false);
        ring.found()
    };
    assert_eq!(severities(&ring(4)), [None; 4]);
    assert_eq!(severities(&ring(3)), [ERROR; 4]);
}

/// Only rank 0 writes, so only rank 1 may read.
#[test]
fn it_is_an_error_on_the_ranks_for_which_nobody_writes() {
    let mut ring = Ring::new();
    let zero = ring.k.n(0);
    let first = ring.k.binary(Binary::Equal, ring.own, zero);
    let (next, local) = (ring.window(ring.next), ring.local);
    ring.k.when(first, |k| {
        let pieces = Pieces { length: k.n(64), count: None, gap: None };
        let to = k.at(next, 0);
        k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
    });
    ring.read(ring.own, 0, 64);
    assert_eq!(severities(&ring.found()), [ERROR, None, ERROR, ERROR]);
}

/// A later write of the rank itself does not count, but a write of another rank does.
#[test]
fn an_own_write_counts_if_it_comes_before() {
    let ring = |first: bool| {
        let mut ring = Ring::new();
        if first {
            ring.write(ring.own, 0, 64);
        }
        ring.read(ring.own, 0, 64);
        ring.write(ring.own, 0, 64);
        ring.found()
    };
    assert_eq!(severities(&ring(true)), [None; 4]);
    assert_eq!(severities(&ring(false)), [ERROR; 4]);
}

/// A turn sends from a window, and another turn receives there.
#[test]
fn turns_read_and_write_windows() {
    let ring = |received: bool| {
        let mut ring = Ring::new();
        let y = ring.k.output("y", Number::F16);
        let x = ring.k.input("x", Number::F16);
        let window = Base::WindowOut(ring.hccl, ring.own);
        let hccl = ring.hccl;
        let (first, second) = (ring.k.task("first", hccl), ring.k.task("second", hccl));
        let to = if received { window } else { y };
        let e = exchange(&mut ring.k, x, to, 64);
        ring.k.prepare(first, Operation::AllReduce(e, Reduction::Sum), 1, true);
        ring.k.wait(first);
        let e = exchange(&mut ring.k, window, y, 64);
        ring.k.prepare(second, Operation::AllReduce(e, Reduction::Sum), 1, true);
        ring.k.wait(second);
        ring.k.finalize(hccl);
        ring.found()
    };
    assert_eq!(severities(&ring(true)), [None; 4]);
    let wrong = ring(false);
    assert_eq!(severities(&wrong), [ERROR; 4]);
    expect("turns_read_and_write_windows", &(wrong[0][0].to_string() + "\n"));
}

/// The length of a write is data, so it is unknown whether the write is long enough.
#[test]
fn where_writes_depend_on_data_it_is_a_note() {
    let mut ring = Ring::new();
    let (x, v) = (ring.k.input("x", Number::U64), ring.k.variable("v", Number::U64));
    let place = ring.k.at(x, 0);
    ring.k.step(Step::Read(v, Read::Global(place)));
    let (from, length) = (ring.k.n(0), ring.k.get(v));
    ring.copy(ring.window(ring.next), from, length, true);
    ring.read(ring.own, 0, 64);
    let found = ring.found();
    assert_eq!(severities(&found), [NOTE; 4]);
    expect("where_writes_depend_on_data_it_is_a_note", &(found[0][0].to_string() + "\n"));
}

/// Data choose the window that is read, so a note reports that the read is not checked.
#[test]
fn a_window_of_a_rank_that_data_name_is_not_checked() {
    let mut ring = Ring::new();
    let (x, v) = (ring.k.input("x", Number::U64), ring.k.variable("v", Number::U64));
    let place = ring.k.at(x, 0);
    ring.k.step(Step::Read(v, Read::Global(place)));
    let rank = ring.k.get(v);
    ring.read(rank, 0, 64);
    let found = ring.k.findings_of_all();
    assert!(found.iter().all(|of| of.iter().any(|of| of.rule == "data")), "{found:#?}");
}

/// The check of one launch cannot find out whether a window is written, even if there is only one
/// rank: the host or an earlier launch may have written it.
#[test]
fn the_launch_of_one_rank_cannot_know() {
    for ranks in [4, 1] {
        let mut ring = Ring::new();
        ring.k.ranks = ranks;
        ring.read(ring.own, 0, 64);
        let found = ring.k.findings();
        let windows: Vec<_> = found.iter().filter(|of| of.rule == "windows").collect();
        assert_eq!(windows.len(), 1);
        assert_eq!(windows[0].severity, Severity::Note);
        if ranks > 1 {
            expect("the_launch_of_one_rank_cannot_know", &(windows[0].to_string() + "\n"));
        }
    }
    let mut alone = Ring::new();
    alone.k.ranks = 1;
    alone.read(alone.own, 0, 64);
    assert_eq!(severities(&alone.found()), [ERROR]);
}

/// Additions by ranks to unwritten memory leave it unwritten.
#[test]
fn what_is_added_to_nothing_is_not_written() {
    let ring = |first: bool| {
        let mut ring = Ring::new();
        let (zero, from, length) = (ring.k.n(0), ring.k.n(0), ring.k.n(64));
        if first {
            ring.write(zero, 0, 64);
        }
        let (place, local) = (Place { base: ring.window(zero), offset: from }, ring.local);
        let pieces = Pieces { length, count: None, gap: None };
        ring.k.step(Step::Copy(Copy::Out { to: place, from: local, pieces, add: true }));
        ring.found()
    };
    assert_eq!(severities(&ring(true)), [None; 4]);
    let wrong = ring(false);
    assert_eq!(severities(&wrong), [ERROR; 4]);
    assert!(wrong[0][0].message.starts_with("this adds to byte 0 "), "{wrong:#?}");
}

/// Two clients of one group on two cores use the same windows.
#[test]
fn windows_are_of_a_group_whichever_client_gives_them() {
    let mut k = Kernel::new(Mix::MixAiv10);
    let [a, b] = ["a", "b"].map(|name| k.client(name, 0, None));
    k.operations = vec![2];
    k.program.tiling = Some(ascend_program_testing::build::tiling_layout(1));
    let local = k.filled("local", Number::F16, 64);
    let length = k.n(64);
    let pieces = Pieces { length, count: None, gap: None };
    k.on_block(0, |k| {
        k.hccl(Hccl::Init(a, 0));
        let rank = k.value(Of::Rank(a), Number::U32);
        let own = k.value(Of::Cast(rank), Number::U64);
        let to = k.at(Base::WindowIn(a, own), 0);
        k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
    });
    k.sync_vectors();
    k.on_block(1, |k| {
        k.hccl(Hccl::Init(b, 0));
        let rank = k.value(Of::Rank(b), Number::U32);
        let own = k.value(Of::Cast(rank), Number::U64);
        let from = k.at(Base::WindowIn(b, own), 0);
        k.step(Step::Copy(Copy::In { to: local, from, pieces }));
    });
    let found: Vec<_> = k.findings_of_all().into_iter().flatten().map(|of| of.rule).collect();
    assert!(!found.contains(&"windows"), "{found:?}");
}

/// If there are too many pieces to check, none of them is reported as unwritten.
#[test]
fn what_is_too_much_to_look_at_is_a_note() {
    const TILES: u64 = 1 << 15;
    let mut ring = Ring::new();
    ring.k.ranks = 1;
    let (window, local, hccl) = (ring.window(ring.own), ring.local, ring.hccl);
    let (sixteen, two, far) = (ring.k.n(16), ring.k.n(2), ring.k.n(TILES * 32));
    // The access is long, so every piece may overlap it.
    let pieces = Pieces { length: sixteen, count: Some(two), gap: Some(far) };
    let to = ring.k.at(window, 0);
    ring.k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
    ring.k.sync(Sync::Pipe(Pipe::All));
    let tiles = ring.k.n(TILES);
    ring.k.range("tile", tiles, |k, tile| {
        let bytes = k.n(32);
        let offset = k.binary(Binary::Mul, tile, bytes);
        let pieces = Pieces { length: sixteen, count: None, gap: None };
        let to = Place { base: window, offset };
        k.step(Step::Copy(Copy::Out { to, from: local, pieces, add: false }));
        k.sync(Sync::Pipe(Pipe::Out));
    });
    ring.k.sync(Sync::Pipe(Pipe::All));
    let (y, task) = (ring.k.output("y", Number::F16), ring.k.task("task", hccl));
    let e = exchange(&mut ring.k, window, y, TILES * 16 / 256);
    ring.k.prepare(task, Operation::AllReduce(e, Reduction::Sum), 255, true);
    ring.k.times(255, |k| k.wait(task));
    ring.k.finalize(hccl);
    let found = ring.k.findings_of_all();
    let rules: Vec<_> = found.iter().flatten().map(|of| (of.severity, of.rule)).collect();
    assert_eq!(rules, [(Severity::Note, "long"); 2]);
}

#[test]
fn what_an_earlier_launch_has_written_is_allowed_by_name() {
    let mut ring = Ring::new();
    let reason = "the launch before has set the flag".to_owned();
    ring.k.program.allowed.push(Allowed { warning: Warning::Windows, reason });
    ring.read(ring.own, 0, 64);
    assert_eq!(severities(&ring.found()), [None; 4]);
}
