//! Products of matrices with the communication before or after them.

use super::*;

/// The values that both fused operators use for their matrices.
struct Matrices {
    n: ValueId,
    k: ValueId,
    tile_rows: ValueId,
    tile_count: ValueId,
    tail_rows: ValueId,
    tail_count: ValueId,
}

fn matrices(b: &mut Builder, tiling: &Tiling) -> Matrices {
    let mut get = |path: &str, name: &str| {
        let value = b.field(path, tiling.offset(path));
        b.name(name, value)
    };
    Matrices {
        n: get("n", "n"),
        k: get("k", "k"),
        tile_rows: get("tileRows", "tile_rows"),
        tile_count: get("tileCount", "tile_count"),
        tail_rows: get("tailRows", "tail_rows"),
        tail_count: get("tailCount", "tail_count"),
    }
}

/// Adds steps that compute some rows of the result, cut into base blocks that are dealt to the
/// cores in turn.
fn multiply(
    b: &mut Builder,
    matmul: MatmulId,
    of: &Matrices,
    rows: ValueId,
    a: Place,
    right: Base,
    c: Place,
) {
    let Declared { what, .. } = b.program.matmuls[matmul.0 as usize].clone();
    let (at, path) = what.tiling;
    let mut base = |name: &str, offset| {
        let (path, element) = (format!("{path}.{name}"), None);
        let value = b.value(Of::Tiling { offset: at + offset, path, element }, Number::I32);
        let value = b.value(Of::Cast(value), Number::U64);
        b.name(if offset == 32 { "base_rows" } else { "base_columns" }, value)
    };
    let (base_rows, base_columns) = (base("baseM", 32), base("baseN", 36));
    let one = b.n(1);
    let mut pieces = |all, base| {
        let more = b.binary(Binary::Add, all, base);
        let less = b.binary(Binary::Sub, more, one);
        b.binary(Binary::Div, less, base)
    };
    let (down, across) = (pieces(rows, base_rows), pieces(of.n, base_columns));
    b.name("down", down);
    let to = b.binary(Binary::Mul, down, across);
    let from = b.block_index();
    let blocks = b.value(Of::BlockCount, Number::I64);
    let step = b.value(Of::Cast(blocks), Number::U64);
    let variable = b.variable("block", Number::U64);
    b.inside(
        |body| Step::Loop { variable, from, to, step, body },
        |b| {
            let now = b.get(variable);
            let row = b.binary(Binary::Rem, now, down);
            let row = b.binary(Binary::Mul, row, base_rows);
            b.name("row", row);
            let column = b.binary(Binary::Div, now, down);
            let column = b.binary(Binary::Mul, column, base_columns);
            b.name("column", column);
            let left = b.binary(Binary::Sub, rows, row);
            let height = b.binary(Binary::Min, base_rows, left);
            let left = b.binary(Binary::Sub, of.n, column);
            let width = b.binary(Binary::Min, base_columns, left);
            let of_a = b.binary(Binary::Mul, row, of.k);
            let of_a = b.binary(Binary::Add, a.offset, of_a);
            let of_c = b.binary(Binary::Mul, row, of.n);
            let of_c = b.binary(Binary::Add, c.offset, of_c);
            let of_c = b.binary(Binary::Add, of_c, column);
            b.step(Step::Matmul(Multiply {
                matmul,
                a: Place { base: a.base, offset: of_a },
                b: Place { base: right, offset: column },
                c: Place { base: c.base, offset: of_c },
                bias: None,
                rows: height,
                columns: width,
                depth: of.k,
                pitches: [of.k, of.n, of.n],
            }));
        },
    );
}

fn sync_cube(b: &mut Builder) {
    b.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Fix, flag: 8 });
    b.sync(Sync::Await { flag: 8 });
}

fn fused(name: &'static str, cc: &'static str) -> Tiling {
    Tiling::communicating(name, cc)
        .cube("tile")
        .number("m")
        .number("n")
        .number("k")
        .number("tileRows")
        .number("tileCount")
        .number("tailRows")
        .number("tailCount")
}

/// Returns a kernel that computes `y`, the sum over all ranks of `a * b`. A tile of rows is sent
/// while the next one is computed.
pub fn matmul_all_reduce() -> Program {
    let tiling = fused("MatmulAllReduceTilingData", "allReduceCcTiling");
    let mut b = builder("matmul_all_reduce", Mix::MixAic10, &tiling);
    let [left, right] = ["a", "b"].map(|name| b.input(name, Number::F16));
    let y = b.output("y", Number::F16);
    let matmul = b.matmul("product", Number::F16, None, tiling.offset("tile"));
    b.program.matmuls[0].what.tiling.1 = "tile".into();
    b.on(Core::Aic, |b| {
        let hccl = ready(b, &tiling, "allReduceCcTiling");
        let of = matrices(b, &tiling);
        let (tiles, tail) = (b.task("tiles", hccl), b.task("tail", hccl));
        let zero = b.n(0);
        let done = b.binary(Binary::Mul, of.tile_count, of.tile_rows);
        b.name("done", done);
        let offset = b.binary(Binary::Mul, done, of.n);
        let size = |b: &mut Builder, rows| b.binary(Binary::Mul, rows, of.n);
        let tile_size = size(b, of.tile_rows);
        let tail_size = size(b, of.tail_rows);
        let narrow = |b: &mut Builder, value| b.value(Of::Cast(value), Number::U8);
        b.step(Step::Comment(
            "Everything is prepared; each tile is committed when it is there.".into(),
        ));
        let first = exchange(y, y, zero, tile_size);
        let repeat = narrow(b, of.tile_count);
        let operation = Operation::AllReduce(first, Reduction::Sum);
        b.hccl(Hccl::Prepare { task: tiles, operation, repeat, commit: false });
        let has_tail = b.binary(Binary::Greater, of.tail_count, zero);
        b.name("has_tail", has_tail);
        let repeat = narrow(b, of.tail_count);
        b.when(has_tail, |b| {
            let last = exchange(y, y, offset, tail_size);
            let operation = Operation::AllReduce(last, Reduction::Sum);
            b.hccl(Hccl::Prepare { task: tail, operation, repeat, commit: false });
        });
        let tile = |b: &mut Builder, row: ValueId, rows, task| {
            let a = b.binary(Binary::Mul, row, of.k);
            let c = b.binary(Binary::Mul, row, of.n);
            let (a, c) = (Place { base: left, offset: a }, Place { base: y, offset: c });
            multiply(b, matmul, &of, rows, a, right, c);
            sync_cube(b);
            b.commit(task);
        };
        b.range("turn", of.tile_count, |b, turn| {
            let row = b.binary(Binary::Mul, turn, of.tile_rows);
            tile(b, row, of.tile_rows, tiles);
        });
        b.when(has_tail, |b| tile(b, done, of.tail_rows, tail));
        b.range("turn", of.tile_count, |b, _| b.wait(tiles));
        b.when(has_tail, |b| b.wait(tail));
        sync_cube(b);
        b.finalize(hccl);
    });
    b.done()
}

/// Returns a kernel that computes `y`: the matrices `a` of all ranks, one below the other, times
/// `b`. The rank's own rows are multiplied while those of the other ranks arrive.
pub fn all_gather_matmul() -> Program {
    let tiling = fused("AllGatherMatmulTilingData", "allGatherCcTiling").cube("local");
    let mut b = builder("all_gather_matmul", Mix::MixAic10, &tiling);
    let [left, right] = ["a", "b"].map(|name| b.input(name, Number::F16));
    let [y, gathered] = ["y", "gather_out"].map(|name| b.output(name, Number::F16));
    let [local, tile] = ["local", "tile"].map(|name| {
        let matmul = b.matmul(name, Number::F16, None, tiling.offset(name));
        b.program.matmuls[matmul.0 as usize].what.tiling.1 = name.into();
        matmul
    });
    b.on(Core::Aic, |b| {
        let hccl = ready(b, &tiling, "allGatherCcTiling");
        let of = matrices(b, &tiling);
        let m = b.field("m", tiling.offset("m"));
        b.name("m", m);
        let rank = b.value(Of::Rank(hccl), Number::U32);
        let ranks = b.value(Of::Ranks(hccl), Number::U32);
        let (rank, ranks) =
            (b.value(Of::Cast(rank), Number::U64), b.value(Of::Cast(ranks), Number::U64));
        b.name("rank", rank);
        b.name("ranks", ranks);
        let (tiles, tail) = (b.task("tiles", hccl), b.task("tail", hccl));
        let zero = b.n(0);
        let stride = b.binary(Binary::Mul, m, of.k);
        b.name("stride", stride);
        let done = b.binary(Binary::Mul, of.tile_count, of.tile_rows);
        b.name("done", done);
        let size = |b: &mut Builder, rows| b.binary(Binary::Mul, rows, of.k);
        let tile_size = size(b, of.tile_rows);
        let tail_size = size(b, of.tail_rows);
        let offset = size(b, done);
        let narrow = |b: &mut Builder, value| b.value(Of::Cast(value), Number::U8);
        let first = exchange(left, gathered, zero, tile_size);
        let repeat = narrow(b, of.tile_count);
        let operation = Operation::AllGather(first, stride);
        b.hccl(Hccl::Prepare { task: tiles, operation, repeat, commit: true });
        let has_tail = b.binary(Binary::Greater, of.tail_count, zero);
        b.name("has_tail", has_tail);
        let repeat = narrow(b, of.tail_count);
        b.when(has_tail, |b| {
            let last = exchange(left, gathered, offset, tail_size);
            let operation = Operation::AllGather(last, stride);
            b.hccl(Hccl::Prepare { task: tail, operation, repeat, commit: true });
        });
        b.step(Step::Comment("The own rows need nobody.".into()));
        let own = b.binary(Binary::Mul, rank, m);
        let own = b.binary(Binary::Mul, own, of.n);
        let (a, c) = (Place { base: left, offset: zero }, Place { base: y, offset: own });
        multiply(b, local, &of, m, a, right, c);
        b.step(Step::Comment("Those of the others, tile by tile.".into()));
        let others = |b: &mut Builder, row: ValueId, rows| {
            b.range("other", ranks, |b, other| {
                let is_other = b.binary(Binary::NotEqual, other, rank);
                b.when(is_other, |b| {
                    let first = b.binary(Binary::Mul, other, m);
                    let first = b.binary(Binary::Add, first, row);
                    b.name("first", first);
                    let a = b.binary(Binary::Mul, first, of.k);
                    let c = b.binary(Binary::Mul, first, of.n);
                    let (a, c) =
                        (Place { base: gathered, offset: a }, Place { base: y, offset: c });
                    multiply(b, tile, &of, rows, a, right, c);
                });
            });
        };
        b.range("turn", of.tile_count, |b, turn| {
            b.wait(tiles);
            let row = b.binary(Binary::Mul, turn, of.tile_rows);
            others(b, row, of.tile_rows);
        });
        b.when(has_tail, |b| {
            b.wait(tail);
            others(b, done, of.tail_rows);
        });
        sync_cube(b);
        b.finalize(hccl);
    });
    b.done()
}
