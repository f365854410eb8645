//! Tests of the limits of numbers, from both sides, and the features that a kind of core or a
//! launch lacks.

use ascend_program::check::Product;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, all_to_all_v, reduction, rules};
use ascend_program_testing::build::{Builder, tiling_layout};

/// Returns a tensor of `bytes` bytes in a scratch buffer of local memory.
fn scratch(b: &mut Builder, bytes: u64) -> Local {
    b.filled("a", Number::U8, bytes)
}

/// Adds `y = a`, in pieces.
fn copy_out(b: &mut Builder, from: Local, to: Base, pieces: [u64; 3]) {
    let [length, count, gap] = pieces.map(|n| b.n(n));
    let pieces = Pieces { length, count: Some(count), gap: Some(gap) };
    let to = b.at(to, 0);
    b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
}

fn queue(b: &mut Builder, buffers: u8, length: u64) -> QueueId {
    let length = b.n(length);
    let queue = b.queue("ins", Number::F32, Position::VecIn, buffers, length);
    b.buffer(Buffer::InitQueue(queue));
    queue
}

/// Adds a product of 16 by 16 by 16 half floats, whose tiling begins at byte 64. It has a bias if
/// `bias` gives a type.
fn product(k: &mut Kernel, bias: Option<Number>, change: impl FnOnce(&mut Kernel, &mut Multiply)) {
    let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
    k.builder.program.tiling = Some(tiling_layout(0));
    // Two blocks would write the same elements.
    k.blocks = 1;
    k.put_cube(64, Number::F16, bias, [16; 3]);
    let (matmul, n) = (k.matmul("mm", Number::F16, bias, 64), k.n(16));
    let [a, b, c] = [x, x, y].map(|base| k.at(base, 0));
    let (rows, columns, depth, pitches) = (n, n, n, [n; 3]);
    let mut multiply = Multiply { matmul, a, b, c, bias: None, rows, columns, depth, pitches };
    change(k, &mut multiply);
    k.on(Core::Aic, |b| b.step(Step::Matmul(multiply)));
}

/// Builds a kernel that only initialises a client, whose struct begins at this byte.
fn initialised(k: &mut Kernel, at: u32) {
    k.operations = vec![2];
    k.builder.program.tiling = Some(tiling_layout(1));
    let hccl = k.client("hccl", 0, None);
    k.hccl(Hccl::Init(hccl, at));
}

/// Adds an AlltoAllvWrite. The offsets are an argument of this type, and the sizes begin at this
/// byte of the workspace.
fn written_to_windows(k: &mut Kernel, number: Number, byte: u64) {
    k.setting.product = Product::Ascend950;
    let (x, offsets) = (k.input("x", Number::F16), k.input("offsets", number));
    k.write_workspace(64);
    let hccl = k.ready(&[20]);
    let t = k.task("tiles", hccl);
    let (send, offsets) = (k.at(x, 0), k.at(offsets, 0));
    let (sizes, window, local) = (k.at(Base::Workspace, byte), k.n(0), k.n(64));
    let operation = Operation::AlltoAllvWrite { send, offsets, sizes, window, local };
    k.on_block(0, |b| {
        b.prepare(t, operation, 1, true);
        b.wait(t);
        b.finalize(hccl);
    });
}

rules! {
    a_piece_has_2097151_bytes, "pieces", MixAiv10, |k, broken| {
        let y = k.output("y", Number::U8);
        let a = scratch(k, 64);
        // The piece is longer than local memory, which breaks another rule. So none of it is
        // copied.
        let count = u64::from(broken);
        copy_out(k, a, y, [2_097_151 + u64::from(broken), count, 0]);
    };

    a_gap_has_32_bits, "pieces", MixAiv10, |k, broken| {
        k.blocks = 1;
        let y = k.output("y", Number::U8);
        let a = scratch(k, 64);
        copy_out(k, a, y, [32, 2, u64::from(u32::MAX) + u64::from(broken)]);
    };

    a_gap_on_ascend_950_has_40_bits, "pieces", MixAiv10, |k, broken| {
        k.blocks = 1;
        k.setting.product = Product::Ascend950;
        let y = k.output("y", Number::U8);
        let a = scratch(k, 64);
        copy_out(k, a, y, [32, 2, (1 << 40) - u64::from(!broken)]);
    };

    a_vector_operation_counts_to_2_31, "vector-count", MixAiv10, |k, broken| {
        let length = k.n(8);
        let buffer = k.scratch("buffer", Number::F32, length);
        let tensor = k.local("a", Number::F32);
        k.buffer(Buffer::InitScratch(buffer));
        k.buffer(Buffer::Get(buffer, tensor));
        let (count, value) = (k.n(if broken { 1 << 31 } else { 8 }), k.float(Number::F32, 1.0));
        let to = Local { tensor, offset: None };
        k.step(Step::Vector(Vector::Fill { to, value, count }));
    };

    a_queue_has_a_buffer, "buffers", MixAiv10, |k, broken| {
        queue(k, u8::from(!broken), 8);
    };

    a_buffer_has_an_element, "memory", MixAiv10, |k, broken| {
        queue(k, 1, u64::from(!broken));
    };

    a_tensor_is_enqueued_once, "queue", MixAiv10, |k, broken| {
        let ins = queue(k, 2, 8);
        let a = k.local("a", Number::F32);
        k.buffer(Buffer::Alloc(ins, a));
        k.times(if broken { 2 } else { 1 }, |b| b.buffer(Buffer::Enqueue(ins, a)));
        k.buffer(Buffer::Dequeue(ins, a));
        k.buffer(Buffer::Free(ins, a));
    };

    a_tensor_is_freed_once, "queue", MixAiv10, |k, broken| {
        let ins = queue(k, 2, 8);
        let a = k.local("a", Number::F32);
        k.buffer(Buffer::Alloc(ins, a));
        k.times(if broken { 2 } else { 1 }, |b| b.buffer(Buffer::Free(ins, a)));
    };

    a3_has_40_queues_in_all, "product", MixAiv10, |k, broken| {
        initialised(k, 0);
        // The low half is the number of queues of a core, and the high half the number of cores.
        k.put(42, 8 | if broken { 6 } else { 5 } << 16);
        k.blocks = 6;
    };

    a_client_is_initialised_with_the_struct_for_it, "init", MixAiv10, |k, broken| {
        initialised(k, if broken { 64 } else { 0 });
    };

    a_client_is_configured_with_the_struct_for_it, "configure", MixAiv10, |k, broken| {
        initialised(k, 0);
        k.hccl(Hccl::Configure(ClientId(0), if broken { 65 } else { 64 }, "cc0".into()));
    };

    a_barrier_is_of_a_queue_that_there_is, "task", MixAiv10, |k, broken| {
        initialised(k, 0);
        k.put(42, 2 | 1 << 16);
        let queue = k.n(if broken { 2 } else { 1 });
        k.hccl(Hccl::Barrier(ClientId(0), queue));
    };

    only_a3_has_barriers_of_queues, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::A2 } else { Product::A3 };
        initialised(k, 0);
        let queue = k.n(0);
        k.hccl(Hccl::Barrier(ClientId(0), queue));
    };

    a_launch_has_a_context_for_each_group, "launch", MixAiv10, |k, broken| {
        initialised(k, 0);
        k.contexts = Some(usize::from(!broken));
        let hccl = ClientId(0);
        let ranks = k.value(Of::Ranks(hccl), Number::U32);
        let ranks = k.value(Of::Cast(ranks), Number::U64);
        k.range("i", ranks, |b, _| b.sync_vectors());
    };

    ascend_950_exchanges_unevenly_among_32_ranks, "ranks", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        k.ranks = if broken { 33 } else { 32 };
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        let hccl = k.ready(&[8]);
        let t = k.task("tiles", hccl);
        let operation = all_to_all_v(k, (x, y), 33, 1);
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a_product_has_elements, "matmul", MixAic11, |k, broken| {
        product(k, None, |k, multiply| multiply.depth = k.n(if broken { 0 } else { 1 }));
    };

    a_bias_is_declared, "matmul", MixAic11, |k, broken| {
        product(k, (!broken).then_some(Number::F16), |_, multiply| {
            multiply.bias = Some(multiply.a);
        });
    };

    cube_cores_do_not_copy, "core", MixAic11, |k, broken| {
        k.blocks = 1;
        let y = k.output("y", Number::U8);
        let kind = if broken { Core::Aic } else { Core::Aiv };
        let mut a = Local { tensor: LocalId(0), offset: None };
        k.on(Core::Aiv, |b| a = scratch(b, 64));
        k.on(kind, |b| copy_out(b, a, y, [64, 1, 0]));
    };

    cube_cores_compute_no_vectors, "core", MixAic11, |k, broken| {
        let kind = if broken { Core::Aic } else { Core::Aiv };
        let mut a = Local { tensor: LocalId(0), offset: None };
        k.on(Core::Aiv, |b| a = scratch(b, 64));
        let (count, value) = (k.n(32), k.value(Of::Constant(1), Number::U8));
        k.setting.product = Product::Ascend950;
        k.on(kind, |b| b.step(Step::Vector(Vector::Fill { to: a, value, count })));
    };

    a_cube_core_raises_nothing_after_vectors, "flag", MixAic10, |k, broken| {
        let pipe = if broken { Pipe::Vector } else { Pipe::Fix };
        k.sync(Sync::Raise { mode: Mode::Kind, pipe, flag: 8 });
        k.sync(Sync::Await { flag: 8 });
    };

    a_kernel_of_cube_cores_has_no_barrier_of_all, "mix", MixAic10, |k, broken| {
        if broken {
            k.sync(Sync::All { vector: false });
        }
    };

    cube_cores_only_cannot_synchronise, "mix", AicOnly, |k, broken| {
        if broken {
            k.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Fix, flag: 8 });
        }
    };

    a_cube_core_has_no_vector_unit_to_wait_for, "core", MixAic10, |k, broken| {
        k.sync(Sync::Units(if broken { Pipe::Vector } else { Pipe::Fix }, Pipe::In));
    };

    one_unit_waits_for_another, "core", MixAiv10, |k, broken| {
        k.sync(Sync::Units(Pipe::In, if broken { Pipe::In } else { Pipe::Vector }));
    };

    ascend_950_does_not_iterate, "product", MixAiv10, |k, broken| {
        let (hccl, t, operation) = reduction(k);
        let block = k.variable("block", Number::U16);
        k.setting.product = Product::Ascend950;
        k.on_block(0, |b| {
            b.prepare(t, operation, 1, true);
            if broken {
                b.step(Step::Read(block, Read::Slice(t, true)));
            }
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a3_takes_3_members_at_launch, "product", MixAiv10, |k, broken| {
        k.ready(if broken { &[2, 6, 7, 10] } else { &[2, 6, 7] });
    };

    a2_knows_32_windows, "ranks", MixAiv10, |k, broken| {
        k.allow_windows();
        k.setting.product = Product::A2;
        k.ranks = 64;
        let hccl = k.ready(&[2]);
        let (rank, v) = (k.n(if broken { 32 } else { 31 }), k.variable("v", Number::F32));
        let place = k.at(Base::WindowIn(hccl, rank), 0);
        k.step(Step::Read(v, Read::Global(place)));
    };

    wider_elements_go_elsewhere, "overlap", MixAiv10, |k, broken| {
        let length = k.n(64);
        let mut tensor = |name: &str, number: Number| {
            let buffer = k.scratch(name, number, length);
            let tensor = k.local(&format!("{name}_all"), number);
            k.buffer(Buffer::InitScratch(buffer));
            k.fill(buffer, 64 * u64::from(number.size()));
            (buffer, Local { tensor, offset: None })
        };
        let (wide, to) = tensor("wide", Number::F32);
        let (narrow, from) = tensor("narrow", Number::F16);
        k.buffer(Buffer::Get(wide, to.tensor));
        k.buffer(Buffer::Get(if broken { wide } else { narrow }, from.tensor));
        let (round, count) = (Round::None, k.n(32));
        k.step(Step::Vector(Vector::Cast { to, from, round, count }));
    };

    offsets_of_blocks_are_u64, "dtype", MixAiv10, |k, broken| {
        written_to_windows(k, if broken { Number::U32 } else { Number::U64 }, 0);
    };

    offsets_of_blocks_are_aligned, "align", MixAiv10, |k, broken| {
        written_to_windows(k, Number::U64, if broken { 4 } else { 8 });
    };
}
