//! Tests of cores: copies, arithmetic, products, flags, and the local memory of each product.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::kernel::{self, build::Builder};
use ascend_emulator_testing::{call, fails, ok};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Binary, Core, Mix, Of, Position, Program};
use ascend_sys::{ACL_ERROR_INVALID_PARAM, AscendExtBlockConfig};
use half::f16;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Runs a kernel without communication on a device of its own, and returns its tensors as they are
/// afterwards.
fn run(program: &Program, blocks: u32, tensors: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let _block = Block::one();
    let stream = stream();
    let pointers: Vec<*mut c_void> = tensors
        .iter()
        .map(|bytes| {
            let pointer = malloc(bytes.len());
            write(pointer, bytes);
            pointer
        })
        .collect();
    let workspace = malloc(1 << 16);
    write(workspace, &[0; 1 << 16]);
    let mut given: Vec<_> = pointers.iter().map(|pointer| Given::Pointer(*pointer)).collect();
    given.extend([Given::Pointer(workspace), Given::Pointer(null_mut())]);
    let binary = load(program);
    launch(function(binary, &program.name), blocks, &given, stream);
    let _ = message();
    match call!(aclrtSynchronizeStream(stream)) {
        0 => Ok(pointers.iter().zip(tensors).map(|(p, bytes)| read(*p, bytes.len())).collect()),
        _ => Err(message()),
    }
}

fn builder(mix: Mix) -> Builder {
    let mut b = Builder::new(mix);
    b.program.groups = 0;
    b
}

fn floats(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn halves(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(|n| f16::from_f32(n).to_le_bytes()).collect()
}

fn local(tensor: ascend_program::LocalId) -> Local {
    Local { tensor, offset: None }
}

fn whole(length: ascend_program::ValueId) -> Pieces {
    Pieces { length, count: None, gap: None }
}

/// Returns the kernel z = x + y in tiles of 64 elements. Each queue has two buffers, and the blocks
/// take the tiles in turn.
fn vector_add(tiles: u64) -> Program {
    let mut b = builder(Mix::AivOnly);
    let (x, y) = (b.input("x", Number::F16), b.input("y", Number::F16));
    let z = b.output("z", Number::F16);
    let tile = b.n(64);
    let queue_in = b.queue("in_x", Number::F16, Position::VecIn, 2, tile);
    let queue_in_y = b.queue("in_y", Number::F16, Position::VecIn, 2, tile);
    let queue_out = b.queue("out_z", Number::F16, Position::VecOut, 2, tile);
    let names = ["a", "b", "c", "d", "e", "f"].map(|name| b.local(name, Number::F16));
    for queue in [queue_in, queue_in_y, queue_out] {
        b.buffer(Buffer::InitQueue(queue));
    }
    let total = b.n(tiles);
    b.range("tile", total, |b, now| {
        let count = b.value(Of::BlockCount, Number::I64);
        let count = b.value(Of::Cast(count), Number::U64);
        let (own, index) = (b.binary(Binary::Rem, now, count), b.block_index());
        let mine = b.binary(Binary::Equal, own, index);
        b.when(mine, |b| {
            let offset = b.binary(Binary::Mul, now, tile);
            for (queue, base, into) in [(queue_in, x, names[0]), (queue_in_y, y, names[1])] {
                b.buffer(Buffer::Alloc(queue, into));
                let from = Place { base, offset };
                b.step(Step::Copy(Copy::In { to: local(into), from, pieces: whole(tile) }));
                b.buffer(Buffer::Enqueue(queue, into));
            }
            b.buffer(Buffer::Dequeue(queue_in, names[2]));
            b.buffer(Buffer::Dequeue(queue_in_y, names[3]));
            b.buffer(Buffer::Alloc(queue_out, names[4]));
            b.step(Step::Vector(Vector::Binary {
                operator: VectorBinary::Add,
                to: local(names[4]),
                a: local(names[2]),
                b: local(names[3]),
                count: tile,
            }));
            b.buffer(Buffer::Enqueue(queue_out, names[4]));
            b.buffer(Buffer::Free(queue_in, names[2]));
            b.buffer(Buffer::Free(queue_in_y, names[3]));
            b.buffer(Buffer::Dequeue(queue_out, names[5]));
            let to = Place { base: z, offset };
            let out = Copy::Out { to, from: local(names[5]), pieces: whole(tile), add: false };
            b.step(Step::Copy(out));
            b.buffer(Buffer::Free(queue_out, names[5]));
        });
    });
    b.done()
}

/// Lets one core wait at a barrier for another core, which arrives late and then ends at once. The
/// test covers both orders and different amounts of work before the barrier.
#[test]
fn a_core_that_ends_behind_a_barrier_lets_the_others_go_on() {
    for late in [0, 1] {
        for reads in [1, 500, 900, 1000, 1020, 1100, 3000] {
            let mut b = builder(Mix::MixAiv10);
            let (x, read) = (b.input("x", Number::U64), b.variable("read", Number::U64));
            b.on_block(late, |b| {
                let from = b.at(x, 0);
                b.times(reads, |b| b.step(Step::Read(read, Read::Global(from))));
            });
            b.sync_vectors();
            run(&b.done(), 2, &[vec![0; 64]]).unwrap();
        }
    }
}

#[test]
fn tiles_are_added_whatever_the_number_of_blocks() {
    let (x, y) = (|n: usize| n as f32 / 8.0, |n: usize| 3.0 - n as f32 / 4.0);
    let tensors = [halves((0..640).map(x)), halves((0..640).map(y)), vec![0; 1280]];
    let expected =
        halves((0..640).map(|n| f16::from_f32(x(n)).to_f32() + f16::from_f32(y(n)).to_f32()));
    for blocks in [1, 3, 8, 200] {
        assert_eq!(run(&vector_add(10), blocks, &tensors).unwrap()[2], expected, "{blocks}");
    }
}

#[test]
fn a_kernel_that_breaks_a_rule_is_not_begun() {
    let tensors = [halves([0.0; 640]), halves([0.0; 600]), vec![0; 1280]];
    let text = run(&vector_add(10), 1, &tensors).unwrap_err();
    for piece in ["not begun", "576..640 of `y`, which has 600", "kernel.rs:"] {
        assert!(text.contains(piece), "{piece:?} is not in: {text}");
    }
}

/// Lets each block copy 64 floats in and cast them to half floats. The block adds every other group
/// of eight to the data that is already in `y`.
#[test]
fn casts_pieces_and_atomic_adds() {
    let mut b = builder(Mix::AivOnly);
    let (x, y) = (b.input("x", Number::F32), b.output("y", Number::F16));
    let (n, eight, gap) = (b.n(64), b.n(8), b.n(2));
    let wide = b.scratch("wide", Number::F32, n);
    let room = b.n(128);
    let narrow = b.scratch("narrow", Number::F16, room);
    let (a, c) = (b.local("a", Number::F32), b.local("c", Number::F16));
    b.buffer(Buffer::InitScratch(wide));
    b.buffer(Buffer::InitScratch(narrow));
    b.buffer(Buffer::Get(wide, a));
    b.buffer(Buffer::Get(narrow, c));
    let from = b.at(x, 0);
    b.step(Step::Copy(Copy::In { to: local(a), from, pieces: whole(n) }));
    b.sync(Sync::Units(Pipe::In, Pipe::Vector));
    b.step(Step::Vector(Vector::Cast {
        to: local(c),
        from: local(a),
        round: Round::Floor,
        count: n,
    }));
    b.sync(Sync::Units(Pipe::Vector, Pipe::Out));
    // Each piece begins at a multiple of 32 bytes in local memory, so the copy writes every other
    // eight of the 64 elements.
    let pieces = Pieces { length: eight, count: Some(b.n(4)), gap: Some(gap) };
    let to = b.at(y, 1);
    b.step(Step::Copy(Copy::Out { to, from: local(c), pieces, add: true }));
    let value = |n: usize| n as f32 + 0.0001;
    let before = |n: usize| n as f32 * 2.0;
    let tensors = [floats((0..64).map(value)), halves((0..64).map(before))];
    let found = run(&b.done(), 3, &tensors).unwrap();
    let mut expected: Vec<f32> = (0..64).map(before).collect();
    for piece in 0..4 {
        for n in 0..8 {
            // Each of the three blocks adds once.
            expected[1 + piece * 10 + n] += 3.0 * (piece * 16 + n) as f32;
        }
    }
    let found: Vec<f32> = found[1]
        .chunks_exact(2)
        .map(|bytes| f16::from_le_bytes(bytes.try_into().unwrap()).to_f32())
        .collect();
    // The cast rounds down, but 0.0001 can still make a small difference to the sum.
    for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() < 0.01, "{n}: {found} for {expected}");
    }
}

/// Lets the cube core of each block compute a product for a range of rows and raise a flag. Then
/// the vector cores of the same block apply a relu to the product.
#[test]
fn a_product_and_an_activation_by_cores_of_both_kinds() {
    let (rows, columns, depth) = (12u64, 20u64, 16u64);
    let mut b = builder(Mix::MixAic12);
    let (a, w) = (b.input("a", Number::F32), b.input("w", Number::F32));
    let y = b.output("y", Number::F32);
    b.program.tiling = Some(kernel::build::tiling_layout(0));
    let product = b.matmul("product", Number::F32, None, 64);
    let (m, n, k) = (b.n(rows / 3), b.n(columns), b.n(depth));
    let index = b.block_index();
    let first_row = b.binary(Binary::Mul, index, m);
    let (a_at, y_at) = (b.binary(Binary::Mul, first_row, k), b.binary(Binary::Mul, first_row, n));
    let zero = b.n(0);
    b.on(Core::Aic, |b| {
        b.step(Step::Matmul(Multiply {
            matmul: product,
            a: Place { base: a, offset: a_at },
            b: Place { base: w, offset: zero },
            c: Place { base: y, offset: y_at },
            bias: None,
            rows: m,
            columns: n,
            depth: k,
            pitches: [k, n, n],
        }));
        b.sync(Sync::Raise { mode: Mode::Block, pipe: Pipe::Fix, flag: 8 });
    });
    let half = b.n(rows / 3 * columns / 2);
    let buffer = b.scratch("buffer", Number::F32, half);
    let tile = b.local("tile", Number::F32);
    b.on(Core::Aiv, |b| {
        b.buffer(Buffer::InitScratch(buffer));
        b.sync(Sync::Await { flag: 8 });
        b.buffer(Buffer::Get(buffer, tile));
        let own = b.block_index();
        let at = b.binary(Binary::Mul, own, half);
        let place = Place { base: y, offset: at };
        b.step(Step::Copy(Copy::In { to: local(tile), from: place, pieces: whole(half) }));
        b.sync(Sync::Units(Pipe::In, Pipe::Vector));
        let relu = Vector::Unary {
            operator: VectorUnary::Relu,
            to: local(tile),
            a: local(tile),
            count: half,
        };
        b.step(Step::Vector(relu));
        b.sync(Sync::Units(Pipe::Vector, Pipe::Out));
        let pieces = whole(half);
        b.step(Step::Copy(Copy::Out { to: place, from: local(tile), pieces, add: false }));
    });
    let program = b.done();
    let value = |n: u64| (n % 7) as f32 - 3.0;
    let tensors = [
        floats((0..rows * depth).map(value)),
        floats((0..depth * columns).map(|n| value(n * 3))),
        vec![0; (rows * columns * 4) as usize],
    ];
    let expected = floats((0..rows * columns).map(|n| {
        let (row, column) = (n / columns, n % columns);
        let sum: f32 =
            (0..depth).map(|d| value(row * depth + d) * value((d * columns + column) * 3)).sum();
        sum.max(0.0)
    }));
    // The kernel declares a tiling, which `run` does not pass, so this test launches the kernel
    // itself.
    let _block = Block::one();
    let stream = stream();
    let pointers = tensors.each_ref().map(|bytes| {
        let pointer = malloc(bytes.len());
        write(pointer, bytes);
        pointer
    });
    let mut bytes = kernel::build::tiling(&[]);
    let size = [rows, columns, depth].map(|side| side as usize);
    let cube = kernel::build::cube(Number::F32, None, size, 3);
    bytes[64..264].copy_from_slice(&kernel::build::cube_bytes(&cube));
    let [a, w, y] = pointers.map(Given::Pointer);
    let binary = load(&program);
    let given = [a, w, y, Given::Pointer(malloc(16)), Given::Bytes(&bytes)];
    launch(function(binary, &program.name), 3, &given, stream);
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(read(pointers[2], expected.len()), expected);
}

#[test]
fn local_memory_is_what_the_product_has() {
    for (bytes, fits) in [(184 << 10, true), ((184 << 10) + 32, false)] {
        let mut b = builder(Mix::AivOnly);
        let length = b.n(bytes / 4);
        let scratch = b.scratch("all", Number::F32, length);
        b.buffer(Buffer::InitScratch(scratch));
        let ended = run(&b.done(), 1, &[]);
        match fits {
            true => assert_eq!(ended, Ok(Vec::new())),
            false => assert!(
                ended.as_ref().unwrap_err().contains("local memory")
                    || ended.as_ref().unwrap_err().contains("unified buffer"),
                "{ended:?}"
            ),
        }
    }
}

/// Checks a length that a kernel reads from memory. The checker cannot find the mistake in advance,
/// so the mistake is found when the kernel runs.
#[test]
fn a_length_from_data_beyond_any_memory_is_refused() {
    for length in [u64::MAX, u64::MAX / 4, u64::MAX / 4 - 3, u64::from(u32::MAX), 65] {
        let mut b = builder(Mix::MixAiv10);
        let (x, y) = (b.input("x", Number::U64), b.output("y", Number::F32));
        let (v, from, to) = (b.variable("v", Number::U64), b.at(x, 0), b.at(y, 0));
        b.step(Step::Read(v, Read::Global(from)));
        let (count, room) = (b.get(v), b.n(64));
        let buffer = b.scratch("buffer", Number::F32, room);
        let a = b.local("a", Number::F32);
        b.buffer(Buffer::InitScratch(buffer));
        b.buffer(Buffer::Get(buffer, a));
        let (from, pieces) = (local(a), whole(count));
        b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
        let text = run(&b.done(), 1, &[length.to_le_bytes().to_vec(), vec![0; 4096]]).unwrap_err();
        let refused = text.contains("does not fit into 64 bits")
            || text.contains(&format!("elements 0 to {length} of a are touched, which has 64"));
        assert!(refused && text.contains("kernel.rs:4:5"), "{length}: {text}");
    }
}

#[test]
fn a_block_in_which_nobody_knows_who_is_late_is_refused() {
    let letter = |text: &[u8], at: usize| text.get(at).map_or(0, |letter| *letter as _);
    let late = |text: &[u8]| AscendExtBlockConfig {
        kernelLate: std::array::from_fn(|at| letter(text, at)),
        ..Block::config()
    };
    let (mut block, mut first) = (0, 0);
    let code = ACL_ERROR_INVALID_PARAM;
    // The last text fills the whole array, so it has no NUL.
    for text in [&b"aiv 3"[..], b"\xff", &[b'9'; 32]] {
        let config = late(text);
        fails!(
            code,
            ["config->kernelLate=", "such as `aiv 3:40`, or `server`"],
            ascendExtBlockCreate(&config, &mut block, &mut first)
        );
    }
    for text in [&b""[..], b"server", b"aic 0:7"] {
        ok!(ascendExtBlockCreate(&late(text), &mut block, &mut first));
        ok!(ascendExtBlockDestroy(block));
    }
}
