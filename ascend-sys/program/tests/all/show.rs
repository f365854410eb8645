//! Tests of the readable form of a program.

use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;
use ascend_program_testing::build::{self, Builder};

/// Returns the multi-round ReduceScatter: tiles of one length, then a shorter one.
fn reduce_scatter() -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    b.program.name = "reduce_scatter_custom".into();
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let at = 64 + 512;
    let (length, count) = (b.field("tileLen", at), b.field("tileNum", at + 8));
    let tail = b.field("tailLen", at + 16);
    b.on(Core::Aiv, |b| {
        let hccl = b.ready(&[7]);
        let (tiles, rest) = (b.task("tiles", hccl), b.task("rest", hccl));
        let whole = b.binary(Binary::Mul, length, count);
        let stride = b.binary(Binary::Add, whole, tail);
        b.name("stride", stride);
        let zero = b.n(0);
        let one = b.n(1);
        let place = |base, offset| Place { base, offset };
        let first =
            Exchange { send: place(x, zero), recv: place(y, zero), count: length, dtype: 3 };
        let operation = Operation::ReduceScatter(first, Reduction::Sum, stride);
        b.hccl(Hccl::Prepare { task: tiles, operation, repeat: count, commit: true });
        let last = Exchange { send: place(x, whole), recv: place(y, whole), count: tail, dtype: 3 };
        let operation = Operation::ReduceScatter(last, Reduction::Sum, stride);
        b.hccl(Hccl::Prepare { task: rest, operation, repeat: one, commit: false });
        b.step(Step::Comment("The tail is\nready too.".into()));
        b.commit(rest);
        b.range("turn", count, |b, _| b.wait(tiles));
        b.wait(rest);
        b.sync_vectors();
        b.on_block(0, |b| b.finalize(hccl));
    });
    b.done()
}

#[test]
fn a_program_is_readable_with_names_and_lines() {
    let wanted = "\
kernel reduce_scatter_custom (mix_aiv_1_0) in src/kernel.rs
  input x: f16
  output y: f16
  workspace
  tiling KernelTiling, 4672 bytes
  client hccl: group 0
  on aiv                                                                                 1
    hccl.init(tiling at 0)                                                               2
    hccl.configure(cc0)                                                                  3
    let stride = tileLen * tileNum + tailLen                                             4
    tiles = hccl.reduce_scatter(x -> y, tileLen f16, sum, stride stride, repeat tileNum, commit) 5
    rest = hccl.reduce_scatter(x[tileLen * tileNum..] -> y[tileLen * tileNum..], tailLen f16, sum, stride stride) 6
    // The tail is                                                                       7
    // ready too.
    rest.commit()                                                                        8
    for turn in 0..tileNum                                                               9
      tiles.wait()                                                                       10
    rest.wait()                                                                          11
    sync all vector cores                                                                12
    if block_idx as u64 == 0                                                             13
      hccl.finalize()                                                                    14
";
    assert_eq!(reduce_scatter().to_string(), wanted);
}

/// Returns a program with every step and declaration that the other test lacks.
fn everything_else() -> Program {
    let mut b = Builder::new(Mix::MixAic12);
    b.program.workspace = false;
    b.program.files.push("src/helper.rs".into());
    b.program.tiling = Some(build::tiling_layout(1));
    let (x, y) = (b.input("x", Number::F32), b.output("y", Number::F32));
    let (n, gap, one) = (b.n(64), b.n(8), b.n(1));
    let ins = b.queue("ins", Number::F32, Position::VecIn, 2, n);
    let outs = b.queue("outs", Number::F32, Position::VecOut, 1, n);
    let sums = b.scratch("sums", Number::F32, n);
    let (a, c, w) =
        (b.local("a", Number::F32), b.local("c", Number::F32), b.local("w", Number::F32));
    let h = b.local("h", Number::F16);
    let hccl = b.client("hccl", 0, Some((Core::Aiv, 0)));
    let ep = b.client("ep", 1, None);
    let (t, u) = (b.task("t", hccl), b.task("u", ep));
    let mm = b.matmul("mm", Number::F16, Some(Number::F32), 600);
    let local = |tensor| Local { tensor, offset: None };
    let from = |tensor| Local { tensor, offset: Some(gap) };
    let place = |base| Place { base, offset: gap };
    let v = b.variable("v", Number::F32);
    b.step(Step::Read(v, Read::Global(place(x))));
    b.step(Step::Read(v, Read::Local(local(a))));
    let turns = b.variable("turns", Number::I32);
    b.step(Step::Read(turns, Read::Finished(t)));
    let queues = b.variable("queues", Number::U16);
    b.step(Step::Read(queues, Read::Queues(hccl)));
    b.step(Step::Read(queues, Read::Slice(t, true)));
    b.step(Step::Read(queues, Read::Slice(t, false)));
    for buffer in [
        Buffer::InitQueue(ins),
        Buffer::InitScratch(sums),
        Buffer::Get(sums, w),
        Buffer::Alloc(ins, a),
        Buffer::Enqueue(ins, a),
        Buffer::Dequeue(outs, c),
        Buffer::Free(outs, c),
    ] {
        b.buffer(buffer);
    }
    let pieces = |count, gap| Pieces { length: n, count, gap };
    let out = |pieces, add| Copy::Out { to: place(y), from: local(c), pieces, add };
    let number = b.get(v);
    for copy in [
        Copy::In { to: local(a), from: place(x), pieces: pieces(None, None) },
        out(pieces(Some(gap), None), false),
        out(pieces(Some(gap), Some(one)), true),
        Copy::Set { to: place(y), value: number },
        Copy::SetLocal { to: from(a), value: number },
        Copy::Clean(place(y)),
    ] {
        b.step(Step::Copy(copy));
    }
    let (to, op, count) = (local(c), VectorBinary::Add, n);
    for vector in [
        Vector::Fill { to, value: number, count },
        Vector::Binary { operator: op, to, a: local(a), b: from(a), count },
        Vector::Scalar { operator: op, to, a: local(a), scalar: number, count },
        Vector::Unary { operator: VectorUnary::Relu, to, a: local(a), count },
        Vector::Cast { to: local(h), from: local(a), round: Round::Nearest, count },
        Vector::Reduce { operator: VectorReduce::Sum, to, from: local(a), work: local(w), count },
    ] {
        b.step(Step::Vector(vector));
    }
    for sync in [
        Sync::Pipe(Pipe::All),
        Sync::Units(Pipe::In, Pipe::Vector),
        Sync::Raise { mode: Mode::Kind, pipe: Pipe::Fix, flag: 8 },
        Sync::Raise { mode: Mode::Pair, pipe: Pipe::Out, flag: 9 },
        Sync::Raise { mode: Mode::Block, pipe: Pipe::Out, flag: 10 },
        Sync::Await { flag: 8 },
        Sync::All { vector: false },
    ] {
        b.sync(sync);
    }
    b.step(Step::Matmul(Multiply {
        matmul: mm,
        a: place(x),
        b: place(Base::WindowIn(hccl, one)),
        c: place(Base::WindowOut(hccl, one)),
        bias: Some(place(x)),
        rows: n,
        columns: gap,
        depth: n,
        pitches: [n, gap, gap],
    }));
    let (send, recv) = (place(x), place(y));
    let e = Exchange { send, recv, count: n, dtype: 4 };
    let counts = || PerRank::Tiling(600, "counts".into(), 4);
    for operation in [
        Operation::AllReduce(e, Reduction::Max),
        Operation::AllGather(e, n),
        Operation::AlltoAll(e, n),
        Operation::AlltoAllV {
            send,
            recv,
            dtype: 4,
            send_counts: counts(),
            send_displs: PerRank::Values(vec![n, gap]),
            recv_counts: counts(),
            recv_displs: counts(),
        },
        Operation::BatchWrite { items: send, count: n, queue: one },
        Operation::AlltoAllvWrite { send, offsets: recv, sizes: send, window: n, local: one },
    ] {
        b.hccl(Hccl::Prepare { task: t, operation, repeat: one, commit: false });
    }
    b.hccl(Hccl::After(hccl, u));
    b.hccl(Hccl::Barrier(hccl, one));
    b.hccl(Hccl::Finalize(hccl, false));
    let by = b.variable("j", Number::U64);
    b.program.blocks.push(Vec::new());
    let body = BlockId(1);
    b.step(Step::Loop { variable: by, from: one, to: n, step: gap, body });
    b.program.blocks.extend([Vec::new(), vec![]]);
    let condition = b.binary(Binary::Less, one, n);
    let (then, otherwise) = (BlockId(2), Some(BlockId(3)));
    b.step(Step::If { condition, then, otherwise });
    let now = b.get(by);
    b.step(Step::Set(by, now));
    b.done()
}

#[test]
fn every_step_has_words() {
    let text = everything_else().to_string();
    // Another test checks the source lines.
    let cut = |line: &str| {
        line.rsplit_once(" kernel.rs:").map_or(line, |cut| cut.0).trim_end().to_owned()
    };
    let lines: Vec<String> = text.lines().map(cut).collect();
    let wanted = "\
kernel kernel (mix_aic_1_2)
  input x: f32
  output y: f32
  tiling KernelTiling, 4672 bytes
  queue ins into the vector unit: 2 of 64 f32
  queue outs out of the vector unit: 1 of 64 f32
  buffer sums: 64 f32
  client hccl: group 0, on aiv 0
  client ep: group 1
  matmul mm: f16 * f16 + f32 -> f16, tiling matmul
  v = x[8..]
  v = a[0]
  turns = t.query()
  queues = hccl.queue_num()
  queues = t.next_received()
  queues = t.next_to_send()
  init ins
  init sums
  w = sums.get()
  a = ins.alloc()
  ins.enqueue(a)
  c = outs.dequeue()
  outs.free(c)
  copy a <- x[8..], 64
  copy y[8..] <- c, 8 pieces of 64
  add y[8..] <- c, 8 pieces of 64, 1 apart
  y[8..] = v
  a[8] = v
  clean the line of y[8..]
  c = fill(v), 64
  c = add(a, a[8..]), 64
  c = adds(a, v), 64
  c = relu(a), 64
  h = cast(a, nearest), 64
  c = reduce_sum(a, with w), 64
  barrier of all
  vector waits for in
  raise flag 8 for all cores of the kind after fix
  raise flag 9 for both vector cores of the block after out
  raise flag 10 for the other kind in the block after out
  await flag 8
  sync all cores
  hccl.window_out(1)[8..] = mm(x[8..] * hccl.window_in(1)[8..] + x[8..]), rows 64, columns 8, depth 64, pitches 64, 8, 8
  t = hccl.all_reduce(x[8..] -> y[8..], 64 f32, max)
  t = hccl.all_gather(x[8..] -> y[8..], 64 f32, stride 64)
  t = hccl.all_to_all(x[8..] -> y[8..], 64 f32, stride 64)
  t = hccl.all_to_all_v(x[8..] by counts[..4] at [64, 8] -> y[8..] by counts[..4] at counts[..4], f32)
  t = hccl.batch_write(64 items at x[8..], queue 1)
  t = hccl.all_to_all_v_write(x[8..] by x[8..] at y[8..] -> windows at 64, 1 own bytes)
  hccl.after(u)
  hccl.queue_barrier(1)
  hccl.finalize(without waiting)
  for j in 1..64 by 8
  if 1 < 64
  else
  j = j
";
    assert_eq!(lines.join("\n") + "\n", wanted);
}

#[test]
fn an_expression_has_the_parentheses_it_needs_and_no_other() {
    let mut b = Builder::new(Mix::MixAiv10);
    let v = b.variable("v", Number::U64);
    let v = b.get(v);
    let (one, two, three) = (b.n(1), b.n(2), b.n(3));
    let sum = b.binary(Binary::Add, one, v);
    let product = b.binary(Binary::Mul, sum, two);
    let difference = b.binary(Binary::Sub, product, sum);
    let least = b.binary(Binary::Min, difference, sum);
    let other = b.variable("other", Number::U64);
    b.step(Step::Set(other, difference));
    b.step(Step::Set(other, least));
    let less = b.binary(Binary::Less, sum, product);
    let not = b.value(Of::Unary(Unary::Not, less), Number::Bool);
    let and = b.binary(Binary::Equal, three, two);
    let and = b.value(Of::Binary(Binary::And, not, and), Number::Bool);
    let or = b.value(Of::Binary(Binary::Or, and, less), Number::Bool);
    let select = b.value(Of::Select(or, sum, three), Number::U64);
    let cast = b.value(Of::Cast(product), Number::I64);
    let negative = b.value(Of::Unary(Unary::Negate, cast), Number::I64);
    let remainder = b.binary(Binary::Rem, negative, negative);
    let cast = b.value(Of::Cast(remainder), Number::U64);
    let twice = b.binary(Binary::Add, select, cast);
    b.step(Step::Set(other, twice));
    let text = b.done().to_string();
    let lines: Vec<&str> = text
        .lines()
        .skip(2)
        .map(|line| line.rsplit_once(' ').map_or(line, |cut| cut.0).trim())
        .collect();
    assert_eq!(
        lines,
        [
            "other = (1 + v) * 2 - (1 + v)",
            "other = min((1 + v) * 2 - (1 + v), 1 + v)",
            "other = (if !(1 + v < (1 + v) * 2) && 3 == 2 || 1 + v < (1 + v) * 2 { 1 + v } else { 3 }) + \
             (-(((1 + v) * 2) as i64) % -(((1 + v) * 2) as i64)) as u64",
        ]
    );
}

#[test]
fn a_field_is_told_from_a_variable_of_its_name() {
    let mut b = Builder::new(Mix::MixAiv10);
    let tile = b.field("tile", 64);
    b.on(Core::Aiv, |b| {
        b.range("tile", tile, |b, index| {
            let start = b.binary(Binary::Mul, index, tile);
            b.name("start", start);
        });
    });
    let text = b.program.to_string();
    assert!(text.contains("for tile in 0..tiling.tile"), "{text}");
    assert!(text.contains("let start = tile * tiling.tile"), "{text}");
}
