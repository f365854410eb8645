//! The kernels that are printed: those that communicate, and one that only computes. The fused
//! kernels are in `fused`.

use ascend_program::layout::{Field, Item, Layout, Number, Role};
use ascend_program::step::*;
use ascend_program::*;

use crate::build::Builder;

mod fused;

pub use fused::*;

const FP16: u32 = 3;

/// Returns one of CANN's structs.
fn built_in(name: &'static str, role: Role, size: u32) -> Item {
    let align = if role == Role::CubeTiling { 4 } else { 1 };
    let fields = match role {
        Role::CubeTiling => cube_fields(),
        _ => vec![field("reserved", 0, Item::Number(Number::U8), &[size])],
    };
    let layout = Layout {
        name: name.into(),
        namespace: "".into(),
        doc: "".into(),
        role,
        size,
        align,
        fields: fields.into(),
    };
    Item::Struct(std::borrow::Cow::Owned(layout))
}

/// Returns the fields of `TCubeTiling` that a kernel reads.
fn cube_fields() -> Vec<Field> {
    let number = |(name, offset)| field(name, offset, Item::Number(Number::I32), &[]);
    [("M", 4), ("N", 8), ("Ka", 12), ("baseM", 32), ("baseN", 36)].map(number).into()
}

fn field(name: &'static str, offset: u32, item: Item, lengths: &[u32]) -> Field {
    Field { name: name.into(), doc: "".into(), offset, item, lengths: lengths.to_vec().into() }
}

/// A tiling struct, built field by field.
pub struct Tiling {
    layout: Layout,
}

impl Tiling {
    fn new(name: &'static str) -> Self {
        let layout = Layout {
            name: name.into(),
            namespace: "".into(),
            doc: "".into(),
            role: Role::User,
            size: 0,
            align: 8,
            fields: Vec::new().into(),
        };
        Tiling { layout }
    }

    /// Returns a tiling struct with the two structs of CANN that communication needs.
    fn communicating(name: &'static str, cc: &'static str) -> Self {
        Tiling::new(name)
            .with("mc2InitTiling", built_in("Mc2InitTiling", Role::InitTiling, 64), &[])
            .with(cc, built_in("Mc2CcTiling", Role::CcTiling, 512), &[])
    }

    fn with(mut self, name: &'static str, item: Item, lengths: &[u32]) -> Self {
        let offset = self.layout.size;
        let of_one = match &item {
            Item::Number(number) => number.size(),
            Item::Struct(inner) => inner.size,
        };
        self.layout.size += of_one * lengths.iter().product::<u32>();
        self.layout.fields.to_mut().push(field(name, offset, item, lengths));
        self
    }

    fn number(self, name: &'static str) -> Self {
        self.with(name, Item::Number(Number::U64), &[])
    }

    fn cube(self, name: &'static str) -> Self {
        self.with(name, built_in("TCubeTiling", Role::CubeTiling, 200), &[])
    }

    fn offset(&self, name: &str) -> u32 {
        self.layout.field(name).unwrap().offset
    }
}

fn exchange(x: Base, y: Base, offset: ValueId, count: ValueId) -> Exchange {
    let place = |base| Place { base, offset };
    Exchange { send: place(x), recv: place(y), count, dtype: FP16 }
}

fn named(b: &mut Builder, name: &str, number: u64) -> ValueId {
    let value = b.n(number);
    b.name(name, value)
}

/// Returns a client that is ready for one operation.
fn ready(b: &mut Builder, tiling: &Tiling, cc: &str) -> ClientId {
    let client = b.client("hccl", 0, None);
    b.hccl(Hccl::Init(client, 0));
    b.hccl(Hccl::Configure(client, tiling.offset(cc), cc.into()));
    client
}

fn builder(name: &str, mix: Mix, tiling: &Tiling) -> Builder {
    let mut b = Builder::new(mix);
    b.program.name = name.into();
    b.program.workspace = false;
    b.program.groups = 0;
    b.program.tiling = Some(tiling.layout.clone());
    b.program.files = vec!["src/kernels.rs".into()];
    b
}

/// Returns a kernel with an all-to-all of 128 elements for every rank.
pub fn all_to_all() -> Program {
    let tiling = Tiling::communicating("AllToAllCustomTilingData", "alltoallCcTiling");
    let mut b = builder("alltoall_custom", Mix::MixAiv10, &tiling);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let count = named(&mut b, "data_count", 128);
    b.on(Core::Aiv, |b| {
        let hccl = ready(b, &tiling, "alltoallCcTiling");
        let task = b.task("handle_id", hccl);
        let zero = b.n(0);
        let all = exchange(x, y, zero, count);
        b.prepare(task, Operation::AlltoAll(all, zero), 1, true);
        b.wait(task);
        b.step(Step::Comment("No core may be waiting any more when core 0 finalises.".into()));
        b.sync_vectors();
        b.finalize(hccl);
    });
    b.done()
}

/// Some tiles and a tail, the same for all blocks.
struct Rounds {
    tile_num: ValueId,
    tile_len: ValueId,
    tail_num: ValueId,
    tail_len: ValueId,
}

fn rounds(b: &mut Builder, tail: u64) -> Rounds {
    let tile_num = b.value(Of::Constant(2), Number::U8);
    let tile_num = b.name("tile_num", tile_num);
    let tile_len = named(b, "tile_len", 128);
    let tail_num = b.value(Of::Constant(1), Number::U8);
    let tail_num = b.name("tail_num", tail_num);
    let tail_len = named(b, "tail_len", tail);
    Rounds { tile_num, tile_len, tail_num, tail_len }
}

/// Returns an all-to-all or a reduce-scatter in rounds.
fn in_rounds(
    name: &str,
    tiling: Tiling,
    cc: &str,
    tail: u64,
    operation: impl Fn(Exchange, ValueId) -> Operation,
) -> Program {
    let mut b = builder(name, Mix::MixAiv10, &tiling);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let Rounds { tile_num, tile_len, tail_num, tail_len } = rounds(&mut b, tail);
    b.on(Core::Aiv, |b| {
        let hccl = ready(b, &tiling, cc);
        let wide = |b: &mut Builder, value| b.value(Of::Cast(value), Number::U64);
        let (tiles_num, tails_num) = (wide(b, tile_num), wide(b, tail_num));
        let done = b.binary(Binary::Mul, tile_len, tiles_num);
        let rest = b.binary(Binary::Mul, tail_len, tails_num);
        let stride = b.binary(Binary::Add, done, rest);
        b.name("stride_count", stride);
        let (tiles, tails) = (b.task("tiles", hccl), b.task("tail", hccl));
        let zero = b.n(0);
        b.step(Step::Comment("The tiles of one length.".into()));
        let first = operation(exchange(x, y, zero, tile_len), stride);
        let repeat = tile_num;
        b.hccl(Hccl::Prepare { task: tiles, operation: first, repeat, commit: true });
        b.step(Step::Comment("The tail behind them.".into()));
        let last = operation(exchange(x, y, done, tail_len), stride);
        let repeat = tail_num;
        b.hccl(Hccl::Prepare { task: tails, operation: last, repeat, commit: true });
        b.step(Step::Comment("One wait for each turn.".into()));
        let variable = b.variable("turn", Number::U8);
        let from = b.value(Of::Constant(0), Number::U8);
        let step = b.value(Of::Constant(1), Number::U8);
        b.inside(|body| Step::Loop { variable, from, to: tile_num, step, body }, |b| b.wait(tiles));
        b.wait(tails);
        b.sync_vectors();
        b.finalize(hccl);
    });
    b.done()
}

/// Returns a kernel with an all-to-all of 128 + 128 + 100 elements for every rank.
pub fn all_to_all_in_rounds() -> Program {
    let tiling = Tiling::communicating("AllToAllCustomTilingData", "alltoallCcTiling");
    in_rounds("alltoall_custom", tiling, "alltoallCcTiling", 100, Operation::AlltoAll)
}

/// Returns a kernel with a reduce-scatter of 300 sums for every rank.
pub fn reduce_scatter() -> Program {
    let tiling = Tiling::communicating("ReduceScatterCustomTilingData", "reduceScatterCcTiling");
    let mut b = builder("reduce_scatter_custom", Mix::MixAiv10, &tiling);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    let count = named(&mut b, "recv_count", 300);
    let stride = named(&mut b, "stride_count", 0);
    b.on(Core::Aiv, |b| {
        let hccl = ready(b, &tiling, "reduceScatterCcTiling");
        let task = b.task("handle_id", hccl);
        let zero = b.n(0);
        let all = exchange(x, y, zero, count);
        b.prepare(task, Operation::ReduceScatter(all, Reduction::Sum, stride), 1, true);
        b.wait(task);
        b.sync_vectors();
        b.finalize(hccl);
    });
    b.done()
}

/// Returns a kernel that reduces and scatters 300 elements in three rounds: 128, 128 and 44.
pub fn reduce_scatter_in_rounds() -> Program {
    let tiling = Tiling::communicating("ReduceScatterCustomTilingData", "reduceScatterCcTiling");
    in_rounds("reduce_scatter_custom", tiling, "reduceScatterCcTiling", 44, |all, stride| {
        Operation::ReduceScatter(all, Reduction::Sum, stride)
    })
}

/// Returns a kernel with an all-to-all in which each rank has other counts, so that the counts are
/// in its tiling.
pub fn all_to_all_v() -> Program {
    let list = Item::Number(Number::U64);
    let tiling = Tiling::communicating("AllToAllVCustomTilingData", "alltoallvCcTiling")
        .with("sendCounts", list.clone(), &[4])
        .with("sdispls", list.clone(), &[4])
        .with("recvCounts", list.clone(), &[4])
        .with("rdispls", list, &[4]);
    let mut b = builder("alltoallv_custom", Mix::MixAiv10, &tiling);
    let (x, y) = (b.input("x", Number::F16), b.output("y", Number::F16));
    b.on(Core::Aiv, |b| {
        let hccl = ready(b, &tiling, "alltoallvCcTiling");
        let task = b.task("blocks", hccl);
        let per_rank = |name: &str| PerRank::Tiling(tiling.offset(name), name.into(), 4);
        let (send, recv) = (b.at(x, 0), b.at(y, 0));
        let operation = Operation::AlltoAllV {
            send,
            recv,
            dtype: FP16,
            send_counts: per_rank("sendCounts"),
            send_displs: per_rank("sdispls"),
            recv_counts: per_rank("recvCounts"),
            recv_displs: per_rank("rdispls"),
        };
        b.prepare(task, operation, 1, true);
        b.wait(task);
        b.sync_vectors();
        b.finalize(hccl);
    });
    b.done()
}

/// Returns a kernel that writes blocks of bytes into the windows of the other ranks. Only the
/// engine of the 950 can write them.
pub fn all_to_all_v_write() -> Program {
    let tiling = Tiling::communicating("AllToAllVWriteTilingData", "alltoallvWriteCcTiling")
        .with("windowOffset", Item::Number(Number::U64), &[])
        .with("localSize", Item::Number(Number::U64), &[]);
    let mut b = builder("alltoallv_write_custom", Mix::MixAiv10, &tiling);
    let (x, offsets) = (b.input("x", Number::U8), b.input("offsets", Number::U64));
    let (sizes, y) = (b.input("sizes", Number::U64), b.output("y", Number::U8));
    b.on(Core::Aiv, |b| {
        let hccl = ready(b, &tiling, "alltoallvWriteCcTiling");
        let task = b.task("blocks", hccl);
        let number = |b: &mut Builder, name: &str| {
            let of = Of::Tiling { offset: tiling.offset(name), path: name.into(), element: None };
            b.value(of, Number::U64)
        };
        let (window, local) = (number(b, "windowOffset"), number(b, "localSize"));
        let [send, offsets, sizes] = [x, offsets, sizes].map(|base| b.at(base, 0));
        let operation = Operation::AlltoAllvWrite { send, offsets, sizes, window, local };
        b.prepare(task, operation, 1, true);
        b.wait(task);
        b.sync_vectors();
        b.finalize(hccl);
        let _ = y;
    });
    b.done()
}

/// Returns a kernel that computes `z = x + y`, in tiles that are dealt to the blocks in turn. Each
/// tensor has two buffers.
pub fn vadd() -> Program {
    let tiling = Tiling::new("VaddTiling").number("total").number("tile");
    let mut b = builder("vadd", Mix::AivOnly, &tiling);
    let (x, y) = (b.input("x", Number::F16), b.input("y", Number::F16));
    let z = b.output("z", Number::F16);
    let total = b.field("total", tiling.offset("total"));
    let tile = b.field("tile", tiling.offset("tile"));
    b.name("total", total);
    b.name("tile", tile);
    let ins = [("in_x", x), ("in_y", y)]
        .map(|(name, base)| (b.queue(name, Number::F16, Position::VecIn, 2, tile), base));
    let out = b.queue("out_z", Number::F16, Position::VecOut, 2, tile);
    for queue in [ins[0].0, ins[1].0, out] {
        b.buffer(Buffer::InitQueue(queue));
    }
    let index = b.block_index();
    let blocks = b.value(Of::BlockCount, Number::I64);
    let blocks = b.value(Of::Cast(blocks), Number::U64);
    let from = b.binary(Binary::Mul, index, tile);
    let step = b.binary(Binary::Mul, blocks, tile);
    let start = b.variable("start", Number::U64);
    b.inside(
        |body| Step::Loop { variable: start, from, to: total, step, body },
        |b| {
            let offset = b.get(start);
            let left = b.binary(Binary::Sub, total, offset);
            let length = b.binary(Binary::Min, left, tile);
            b.name("length", length);
            let pieces = Pieces { length, count: None, gap: None };
            let whole = |tensor| Local { tensor, offset: None };
            for (queue, base) in ins {
                let name = if base == x { "x_part" } else { "y_part" };
                let part = b.local(name, Number::F16);
                b.buffer(Buffer::Alloc(queue, part));
                let from = Place { base, offset };
                b.step(Step::Copy(Copy::In { to: whole(part), from, pieces }));
                b.buffer(Buffer::Enqueue(queue, part));
            }
            let mut get = |name: &str| b.local(name, Number::F16);
            let [a, c, sum, done] = ["a", "c", "sum", "done"].map(&mut get);
            b.buffer(Buffer::Dequeue(ins[0].0, a));
            b.buffer(Buffer::Dequeue(ins[1].0, c));
            b.buffer(Buffer::Alloc(out, sum));
            let operator = VectorBinary::Add;
            let (to, x, y) = (whole(sum), whole(a), whole(c));
            b.step(Step::Vector(Vector::Binary { operator, to, a: x, b: y, count: length }));
            b.buffer(Buffer::Enqueue(out, sum));
            b.buffer(Buffer::Free(ins[0].0, a));
            b.buffer(Buffer::Free(ins[1].0, c));
            b.buffer(Buffer::Dequeue(out, done));
            let to = Place { base: z, offset };
            b.step(Step::Copy(Copy::Out { to, from: whole(done), pieces, add: false }));
            b.buffer(Buffer::Free(out, done));
        },
    );
    b.done()
}
