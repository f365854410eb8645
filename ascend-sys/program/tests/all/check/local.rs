//! Tests of the rules of local memory, of copies, and of the vector and cube units.

use ascend_program::check::Product;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, rules};
use ascend_program_testing::build::Builder;

fn all(tensor: LocalId) -> Local {
    Local { tensor, offset: None }
}

fn pieces(length: ValueId) -> Pieces {
    Pieces { length, count: None, gap: None }
}

/// Returns a tensor in an initialised scratch buffer of `elements` elements.
fn scratch(b: &mut Builder, name: &str, number: Number, elements: u64) -> LocalId {
    b.filled(name, number, elements).tensor
}

/// Returns a queue into the vector unit.
fn queue(k: &mut Builder, name: &str, buffers: u8, elements: u64) -> QueueId {
    let length = k.n(elements);
    let queue = k.queue(name, Number::F32, Position::VecIn, buffers, length);
    k.buffer(Buffer::InitQueue(queue));
    queue
}

/// Adds a copy of `elements` elements of `x` into `a`, which has 64 elements.
fn copy_in(k: &mut Kernel, elements: u64, offset: u64, room: u64) {
    let x = k.input("x", Number::F32);
    k.setting.parameters = vec![Some(4 * room)];
    let a = scratch(k, "a", Number::F32, 64);
    let (from, length) = (k.at(x, offset), k.n(elements));
    k.step(Step::Copy(Copy::In { to: all(a), from, pieces: pieces(length) }));
}

/// Adds `c = a + b` of this type.
fn add(k: &mut Kernel, number: Number) {
    let a = scratch(k, "a", number, 64);
    let count = k.n(64);
    let operator = VectorBinary::Add;
    let (to, a) = (all(a), all(a));
    k.step(Step::Vector(Vector::Binary { operator, to, a, b: a, count }));
}

fn cast(k: &mut Kernel, from: Number, to: Number, round: Round) {
    let (a, c) = (scratch(k, "a", from, 64), scratch(k, "c", to, 64));
    let count = k.n(64);
    k.step(Step::Vector(Vector::Cast { to: all(c), from: all(a), round, count }));
}

/// Adds a product of 64 by 32 and 32 by 48 elements of this type, with a suitable tiling.
fn product(k: &mut Kernel, number: Number, change: impl FnOnce(&mut Kernel, &mut Multiply)) {
    let (x, w) = (k.input("x", number), k.input("w", number));
    let y = k.output("y", number);
    k.setting.parameters = vec![Some(2 * 64 * 32), Some(2 * 32 * 48), Some(2 * 64 * 48)];
    k.builder.program.tiling = Some(ascend_program_testing::build::tiling_layout(0));
    // Two blocks would write the same elements.
    k.blocks = 1;
    let tiling = 64;
    // A type without products has no tiling.
    let filled = if number == Number::I16 { Number::F16 } else { number };
    k.put_cube(tiling, filled, None, [64, 48, 32]);
    let mm = k.matmul("mm", number, None, tiling as u32);
    let (rows, columns, depth) = (k.n(64), k.n(48), k.n(32));
    let mut multiply = Multiply {
        matmul: mm,
        a: k.at(x, 0),
        b: k.at(w, 0),
        c: k.at(y, 0),
        bias: None,
        rows,
        columns,
        depth,
        pitches: [depth, columns, columns],
    };
    change(k, &mut multiply);
    k.on(Core::Aic, |b| b.step(Step::Matmul(multiply)));
}

rules! {
    local_memory_is_184_kib_on_a3, "memory", MixAiv10, |k, broken| {
        scratch(k, "half", Number::U8, 92 * 1024);
        scratch(k, "rest", Number::U8, 92 * 1024 + u64::from(broken));
    };

    local_memory_is_less_beside_cube_cores, "memory", MixAic11, |k, broken| {
        let length = 184 * 1024 - if broken { 255 } else { 256 };
        k.on(Core::Aiv, |b| {
            scratch(b, "all", Number::U8, length);
        });
    };

    local_memory_is_248_kib_on_ascend_950, "memory", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        scratch(k, "all", Number::U8, 248 * 1024 + u64::from(broken));
    };

    every_buffer_of_a_queue_counts, "memory", MixAiv10, |k, broken| {
        queue(k, "ins", if broken { 8 } else { 7 }, 6 * 1024);
    };

    a_position_has_8_buffers, "buffers", MixAiv10, |k, broken| {
        queue(k, "ins", 4, 8);
        queue(k, "more", if broken { 5 } else { 4 }, 8);
    };

    buffers_are_initialised_once, "memory", MixAiv10, |k, broken| {
        let length = k.n(8);
        let ins = k.queue("ins", Number::F32, Position::VecIn, 1, length);
        k.times(if broken { 2 } else { 1 }, |b| b.buffer(Buffer::InitQueue(ins)));
    };

    buffers_are_initialised_before_they_are_used, "memory", MixAiv10, |k, broken| {
        let length = k.n(8);
        let sums = k.scratch("sums", Number::F32, length);
        let a = k.local("a", Number::F32);
        if !broken {
            k.buffer(Buffer::InitScratch(sums));
        }
        k.buffer(Buffer::Get(sums, a));
    };

    a_queue_has_a_buffer_left, "queue", MixAiv10, |k, broken| {
        let ins = queue(k, "ins", if broken { 1 } else { 2 }, 8);
        let (a, b) = (k.local("a", Number::F32), k.local("b", Number::F32));
        k.buffer(Buffer::Alloc(ins, a));
        k.buffer(Buffer::Alloc(ins, b));
        k.buffer(Buffer::Free(ins, a));
        k.buffer(Buffer::Free(ins, b));
        if broken {
            k.setting.tolerant = true;
        }
    };

    what_is_dequeued_was_enqueued, "queue", MixAiv10, |k, broken| {
        let ins = queue(k, "ins", 1, 8);
        let a = k.local("a", Number::F32);
        k.buffer(Buffer::Alloc(ins, a));
        if !broken {
            k.buffer(Buffer::Enqueue(ins, a));
        }
        k.buffer(Buffer::Dequeue(ins, a));
        k.buffer(Buffer::Free(ins, a));
    };

    a_tensor_goes_back_to_its_queue, "queue", MixAiv10, |k, broken| {
        let (ins, more) = (queue(k, "ins", 1, 8), queue(k, "more", 1, 8));
        let a = k.local("a", Number::F32);
        k.buffer(Buffer::Alloc(ins, a));
        k.buffer(Buffer::Free(if broken { more } else { ins }, a));
        if broken {
            k.setting.tolerant = true;
        }
    };

    a_tensor_is_not_used_after_it_was_enqueued, "tensor", MixAiv10, |k, broken| {
        let ins = queue(k, "ins", 1, 8);
        let (a, count) = (k.local("a", Number::F32), k.n(8));
        let value = k.float(Number::F32, 1.0);
        let fill = Step::Vector(Vector::Fill { to: all(a), value, count });
        k.buffer(Buffer::Alloc(ins, a));
        k.buffer(Buffer::Enqueue(ins, a));
        if broken {
            k.step(fill);
            k.buffer(Buffer::Dequeue(ins, a));
        } else {
            k.buffer(Buffer::Dequeue(ins, a));
            k.step(fill);
        }
        k.buffer(Buffer::Free(ins, a));
    };

    every_tensor_is_freed, "freed", MixAiv10, |k, broken| {
        let ins = queue(k, "ins", 2, 8);
        let a = k.local("a", Number::F32);
        k.times(2, |b| {
            b.buffer(Buffer::Alloc(ins, a));
            if !broken {
                b.buffer(Buffer::Free(ins, a));
            }
        });
    };

    cube_cores_have_no_local_memory_for_vectors, "core", MixAic11, |k, broken| {
        if broken {
            queue(k, "ins", 1, 8);
        } else {
            k.on(Core::Aiv, |b| {
                queue(b, "ins", 1, 8);
            });
        }
    };

    a_copy_stays_within_its_tensor, "bounds", MixAiv10, |k, broken| {
        copy_in(k, if broken { 65 } else { 64 }, 0, 100);
    };

    a_copy_stays_within_global_memory, "bounds", MixAiv10, |k, broken| {
        copy_in(k, 64, if broken { 37 } else { 36 }, 100);
    };

    pieces_begin_at_blocks_of_32_bytes, "bounds", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        let a = scratch(k, "a", Number::F32, if broken { 31 } else { 32 });
        let (from, length, count) = (k.at(x, 0), k.n(5), k.n(if broken { 5 } else { 4 }));
        let pieces = Pieces { length, count: Some(count), gap: None };
        k.step(Step::Copy(Copy::In { to: all(a), from, pieces }));
    };

    gaps_count_in_global_memory, "bounds", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        k.setting.parameters = vec![Some(4 * if broken { 31 } else { 32 })];
        let a = scratch(k, "a", Number::F32, 32);
        let (from, length, count) = (k.at(x, 0), k.n(5), k.n(4));
        let gap = k.n(4);
        let pieces = Pieces { length, count: Some(count), gap: Some(gap) };
        k.step(Step::Copy(Copy::In { to: all(a), from, pieces }));
    };

    a_copy_has_4095_pieces, "pieces", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F32);
        let a = scratch(k, "a", Number::F32, 4096 * 8);
        let (from, length) = (k.at(x, 0), k.n(8));
        let count = Some(k.n(if broken { 4096 } else { 4095 }));
        k.step(Step::Copy(Copy::In { to: all(a), from, pieces: Pieces { length, count, gap: None } }));
    };

    a_copy_is_between_the_same_types, "dtype", MixAiv10, |k, broken| {
        let x = k.input("x", if broken { Number::F16 } else { Number::F32 });
        let a = scratch(k, "a", Number::F32, 64);
        let (from, length) = (k.at(x, 0), k.n(64));
        k.step(Step::Copy(Copy::In { to: all(a), from, pieces: pieces(length) }));
    };

    a_copy_adds_what_can_be_added, "dtype", MixAiv10, |k, broken| {
        let number = if broken { Number::U32 } else { Number::I32 };
        let y = k.output("y", number);
        let a = scratch(k, "a", number, 64);
        let (to, length) = (k.at(y, 0), k.n(64));
        k.step(Step::Copy(Copy::Out { to, from: all(a), pieces: pieces(length), add: true }));
    };

    a_scalar_is_written_within_its_tensor, "bounds", MixAiv10, |k, broken| {
        let y = k.output("y", Number::F32);
        k.setting.parameters = vec![Some(16)];
        let (to, value) = (k.at(y, if broken { 4 } else { 3 }), k.float(Number::F32, 0.5));
        k.on_block(0, |b| {
            b.step(Step::Copy(Copy::Set { to, value }));
            b.step(Step::Copy(Copy::Clean(to)));
        });
    };

    a_scalar_is_read_within_its_tensor, "bounds", MixAiv10, |k, broken| {
        let a = scratch(k, "a", Number::F32, 8);
        let v = k.variable("v", Number::F32);
        let offset = Some(k.n(if broken { 8 } else { 7 }));
        k.step(Step::Read(v, Read::Local(Local { tensor: a, offset })));
    };

    operands_are_aligned, "align", MixAiv10, |k, broken| {
        let a = scratch(k, "a", Number::F32, 64);
        let (count, offset) = (k.n(8), Some(k.n(if broken { 4 } else { 8 })));
        let value = k.float(Number::F32, 1.0);
        k.step(Step::Vector(Vector::Fill { to: Local { tensor: a, offset }, value, count }));
    };

    operands_do_not_overlap_in_part, "overlap", MixAiv10, |k, broken| {
        let a = scratch(k, "a", Number::F32, 64);
        let (count, offset) = (k.n(16), Some(k.n(if broken { 8 } else { 16 })));
        let to = Local { tensor: a, offset };
        k.step(Step::Vector(Vector::Unary { operator: VectorUnary::Relu, to, a: all(a), count }));
    };

    a3_computes_with_no_bf16, "vector-type", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::A3 } else { Product::Ascend950 };
        add(k, Number::Bf16);
    };

    nobody_divides_bf16, "vector-type", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        let number = if broken { Number::Bf16 } else { Number::F32 };
        let a = scratch(k, "a", number, 64);
        let (count, operator) = (k.n(64), VectorBinary::Div);
        let (to, a) = (all(a), all(a));
        k.step(Step::Vector(Vector::Binary { operator, to, a, b: a, count }));
    };

    a_vector_operation_on_ascend_950_has_elements, "vector-count", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        let a = scratch(k, "a", Number::F32, 64);
        let (count, value) = (k.n(u64::from(!broken)), k.float(Number::F32, 1.0));
        k.step(Step::Vector(Vector::Fill { to: all(a), value, count }));
    };

    a3_casts_bf16_by_way_of_f32, "cast", MixAiv10, |k, broken| {
        let from = if broken { Number::F16 } else { Number::F32 };
        cast(k, from, Number::Bf16, Round::Nearest);
    };

    a_cast_that_loses_says_how_to_round, "cast", MixAiv10, |k, broken| {
        cast(k, Number::F32, Number::Bf16, if broken { Round::None } else { Round::Away });
    };

    a_cast_that_loses_nothing_does_not_round, "cast", MixAiv10, |k, broken| {
        cast(k, Number::Bf16, Number::F32, if broken { Round::Nearest } else { Round::None });
    };

    a_maximum_has_memory_to_work_with, "bounds", MixAiv10, |k, broken| {
        let a = scratch(k, "a", Number::F32, 2048);
        let work = scratch(k, "work", Number::F32, if broken { 56 } else { 64 });
        let (operator, count) = (VectorReduce::Max, k.n(2048));
        let (to, from, work) = (all(a), all(a), all(work));
        k.step(Step::Vector(Vector::Reduce { operator, to, from, work, count }));
    };

    cube_cores_multiply, "core", MixAic11, |k, broken| {
        product(k, Number::F16, |_, _| {});
        if broken {
            let program = &mut k.builder.program;
            let multiply = program.blocks[1].remove(0);
            program.blocks[0].push(multiply);
        }
    };

    a_product_stays_within_its_matrices, "bounds", MixAic11, |k, broken| {
        product(k, Number::F16, |k, multiply| {
            if broken {
                multiply.rows = k.n(65);
            }
        });
    };

    rows_do_not_overlap, "matmul", MixAic11, |k, broken| {
        product(k, Number::F16, |k, multiply| {
            if broken {
                multiply.pitches[2] = k.n(47);
            }
        });
    };

    a_product_is_of_types_that_there_are, "matmul", MixAic11, |k, broken| {
        product(k, if broken { Number::I16 } else { Number::F16 }, |_, _| {});
    };
}
