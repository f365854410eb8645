//! Tests of the rules about prepared operations: products, types, counts, strides, and the bounds
//! of every turn.

use ascend_program::check::{Product, Severity};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, exchange, rules};

/// Prepares an operation, waits for it and finalises the client, on block 0.
fn whole(k: &mut Kernel, operation: Operation, command: u32, repeat: u64) {
    let hccl = k.ready(&[command]);
    let t = k.task("tiles", hccl);
    k.on_block(0, |b| {
        b.prepare(t, operation, repeat, true);
        b.times(repeat, |b| b.wait(t));
        b.finalize(hccl);
    });
}

/// Returns `x` and `y` of half floats, with these numbers of elements.
fn tensors(k: &mut Kernel, x: u64, y: u64) -> (Base, Base) {
    k.setting.parameters = vec![Some(2 * x), Some(2 * y)];
    (k.input("x", Number::F16), k.output("y", Number::F16))
}

fn all_gather(k: &mut Kernel, room: (u64, u64), count: u64, stride: u64, repeat: u64) {
    let (x, y) = tensors(k, room.0, room.1);
    let e = exchange(k, x, y, count);
    let stride = k.n(stride);
    whole(k, Operation::AllGather(e, stride), 6, repeat);
}

fn reduce_scatter(k: &mut Kernel, room: (u64, u64), count: u64, stride: u64, repeat: u64) {
    let (x, y) = tensors(k, room.0, room.1);
    let e = exchange(k, x, y, count);
    let stride = k.n(stride);
    whole(k, Operation::ReduceScatter(e, Reduction::Sum, stride), 7, repeat);
}

fn all_to_all(k: &mut Kernel, room: (u64, u64), count: u64, stride: u64, repeat: u64) {
    let (x, y) = tensors(k, room.0, room.1);
    let e = exchange(k, x, y, count);
    let stride = k.n(stride);
    whole(k, Operation::AlltoAll(e, stride), 10, repeat);
}

fn all_reduce(k: &mut Kernel, number: Number, dtype: u32, reduction: Reduction) {
    k.dtype = dtype as u8;
    let (x, y) = (k.input("x", number), k.output("y", number));
    let e = Exchange { dtype, ..exchange(k, x, y, 64) };
    whole(k, Operation::AllReduce(e, reduction), 2, 1);
}

/// Sends bytes of `x` to each rank. The offsets and sizes are in `lists`.
fn blocks_to_windows(k: &mut Kernel, repeat: u64, local: u64) {
    let (x, lists) = (k.input("x", Number::U8), k.input("lists", Number::U64));
    let (send, offsets, sizes) = (k.at(x, 0), k.at(lists, 0), k.at(lists, 0));
    let (window, local) = (k.n(128), k.n(local));
    let operation = Operation::AlltoAllvWrite { send, offsets, sizes, window, local };
    whole(k, operation, 20, repeat);
}

fn all_to_all_v(k: &mut Kernel, room: (u64, u64), counts: [&[u64]; 4], repeat: u64) {
    let (x, y) = tensors(k, room.0, room.1);
    let (send, recv) = (k.at(x, 0), k.at(y, 0));
    let mut list = |numbers: &[u64]| PerRank::Values(numbers.iter().map(|n| k.n(*n)).collect());
    let [send_counts, send_displs, recv_counts, recv_displs] = counts.map(&mut list);
    let operation = Operation::AlltoAllV {
        send,
        recv,
        dtype: 3,
        send_counts,
        send_displs,
        recv_counts,
        recv_displs,
    };
    whole(k, operation, 8, repeat);
}

rules! {
    // There are four ranks with 300 half floats each: 128 + 128 + 44.
    an_all_gather_reads_within_its_input, "bounds", MixAiv10, |k, broken| {
        all_gather(k, (if broken { 255 } else { 256 }, 1156), 128, 300, 2);
    };

    an_all_gather_writes_within_its_output, "bounds", MixAiv10, |k, broken| {
        all_gather(k, (256, if broken { 1155 } else { 1156 }), 128, 300, 2);
    };

    a_reduce_scatter_reads_within_its_input, "bounds", MixAiv10, |k, broken| {
        reduce_scatter(k, (if broken { 1199 } else { 1200 }, 300), 100, 300, 3);
    };

    a_reduce_scatter_writes_within_its_output, "bounds", MixAiv10, |k, broken| {
        reduce_scatter(k, (1200, if broken { 250 } else { 300 }), 100, 300, 3);
    };

    an_all_to_all_stays_within_both, "bounds", MixAiv10, |k, broken| {
        let room = if broken { 1000 } else { 1324 };
        all_to_all(k, (room, room), 128, 356, 2);
    };

    a_task_begins_within_its_tensor, "bounds", MixAiv10, |k, broken| {
        let (x, y) = tensors(k, 128, 128);
        let e = exchange(k, x, y, 64);
        let send = k.at(x, if broken { 100 } else { 64 });
        whole(k, Operation::AllReduce(Exchange { send, ..e }, Reduction::Sum), 2, 1);
    };

    an_uneven_all_to_all_reads_within_its_input, "bounds", MixAiv10, |k, broken| {
        let (four, sixteen) = ([4; 4], [0, 8, 16, 24]);
        let room = if broken { 31 } else { 32 };
        all_to_all_v(k, (room, 32), [&four, &sixteen, &four, &sixteen], 2);
    };

    an_uneven_all_to_all_leaves_room_for_each_rank, "overlap", MixAiv10, |k, broken| {
        let four = [4; 4];
        let displs = [0, 8, 16, if broken { 20 } else { 24 }];
        all_to_all_v(k, (32, 32), [&four, &[0, 8, 16, 24], &four, &displs], 2);
    };

    there_is_a_count_for_each_rank, "counts", MixAiv10, |k, broken| {
        let counts = if broken { &[4, 4, 4][..] } else { &[4; 4] };
        let displs = [0, 4, 8, 12];
        all_to_all_v(k, (16, 16), [counts, &displs, &[4; 4], &displs], 1);
    };

    turns_without_a_stride_overwrite_one_another, "overlap", MixAiv10, |k, broken| {
        all_gather(k, (256, 2048), 128, if broken { 0 } else { 256 }, 2);
    };

    a_stride_leaves_room_for_all_turns, "overlap", MixAiv10, |k, broken| {
        all_to_all(k, (2048, 2048), 128, if broken { 255 } else { 256 }, 2);
    };

    a_scatter_without_room_takes_what_is_another_ranks, "overlap", MixAiv10, |k, broken| {
        reduce_scatter(k, (2048, 256), 128, if broken { 0 } else { 256 }, 2);
    };

    a3_takes_no_stride_below_the_count, "stride", MixAiv10, |k, broken| {
        k.setting.tolerant = true;
        all_gather(k, (128, 2048), 128, if broken { 127 } else { 128 }, 1);
    };

    a2_scatters_with_a_stride_for_all_turns, "stride", MixAiv10, |k, broken| {
        k.setting.product = Product::A2;
        k.setting.tolerant = true;
        reduce_scatter(k, (2048, 256), 128, if broken { 255 } else { 256 }, 2);
    };

    a_call_has_a_turn, "repeat", MixAiv10, |k, broken| {
        let (x, y) = tensors(k, 64, 64);
        let e = exchange(k, x, y, 64);
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        let tail = u64::from(!broken);
        k.on_block(0, |b| {
            b.prepare(t, Operation::AllReduce(e, Reduction::Sum), tail, true);
            b.wait(t);
            b.finalize(hccl);
        });
    };

    a_call_has_at_most_255_turns, "repeat", MixAiv10, |k, broken| {
        let (x, y) = tensors(k, 256, 256);
        let e = exchange(k, x, y, 1);
        let hccl = k.ready(&[2]);
        let t = k.task("tiles", hccl);
        k.on_block(0, |b| {
            b.prepare(t, Operation::AllReduce(e, Reduction::Sum), if broken { 256 } else { 255 }, true);
            b.times(255, |b| b.wait(t));
            b.finalize(hccl);
        });
    };

    a_count_is_not_zero, "count", MixAiv10, |k, broken| {
        let (x, y) = tensors(k, 64, 64);
        let e = exchange(k, x, y, u64::from(!broken));
        whole(k, Operation::AllReduce(e, Reduction::Sum), 2, 1);
    };

    ascend_950_takes_256_mib_a_turn, "count", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        let e = exchange(k, x, y, (128 << 20) + u64::from(broken));
        whole(k, Operation::AllReduce(e, Reduction::Sum), 2, 1);
    };

    a2_has_no_all_to_all_v, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::A2 } else { Product::A3 };
        let displs = [0, 4, 8, 12];
        all_to_all_v(k, (16, 16), [&[4; 4], &displs, &[4; 4], &displs], 1);
    };

    a3_exchanges_among_128_ranks, "ranks", MixAiv10, |k, broken| {
        k.ranks = if broken { 129 } else { 128 };
        all_to_all(k, (129, 129), 1, 1, 1);
    };

    nothing_has_more_than_256_ranks, "ranks", MixAiv10, |k, broken| {
        k.setting.tolerant = true;
        k.ranks = if broken { 257 } else { 256 };
        all_to_all(k, (257, 257), 1, 1, 1);
    };

    ascend_950_has_64_ranks, "ranks", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        k.ranks = if broken { 65 } else { 64 };
        all_gather(k, (1, 65), 1, 1, 1);
    };

    what_is_reduced_is_a_type_that_can_be, "dtype", MixAiv10, |k, broken| {
        let (number, dtype) = if broken { (Number::U8, 7) } else { (Number::I8, 0) };
        all_reduce(k, number, dtype, Reduction::Sum);
    };

    ascend_950_reduces_no_i8, "dtype", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        let (number, dtype) = if broken { (Number::I8, 0) } else { (Number::I16, 1) };
        all_reduce(k, number, dtype, Reduction::Sum);
    };

    on_ascend_950_the_tiling_is_of_the_type_of_the_call, "dtype", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        all_reduce(k, Number::F32, 4, Reduction::Sum);
        k.dtype = if broken { 3 } else { 4 };
    };

    the_call_says_the_type_of_the_tensor, "dtype", MixAiv10, |k, broken| {
        all_reduce(k, Number::F32, if broken { 3 } else { 4 }, Reduction::Sum);
    };

    products_are_not_documented, "reduction", MixAiv10, |k, broken| {
        all_reduce(k, Number::F32, 4, if broken { Reduction::Prod } else { Reduction::Max });
    };

    on_ascend_950_the_tiling_says_how_to_reduce, "reduction", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        all_reduce(k, Number::F32, 4, Reduction::Max);
        k.put(64 + 276, if broken { 0 } else { 2 });
    };

    an_input_is_not_written, "written", MixAiv10, |k, broken| {
        let x = k.input("x", Number::F16);
        let y = k.output("y", Number::F16);
        let e = exchange(k, if broken { y } else { x }, if broken { x } else { y }, 64);
        whole(k, Operation::AllReduce(e, Reduction::Sum), 2, 1);
    };

    a2_writes_batches_in_queue_0, "product", MixAiv10, |k, broken| {
        k.setting.product = Product::A2;
        k.write_workspace(256);
        let items = Place { base: Base::Workspace, offset: k.n(0) };
        let (count, queue) = (k.n(4), k.n(u64::from(broken)));
        whole(k, Operation::BatchWrite { items, count, queue }, 18, 1);
    };

    a3_writes_2047_items_a_batch, "count", MixAiv10, |k, broken| {
        k.write_workspace(2048 * 64);
        let items = Place { base: Base::Workspace, offset: k.n(0) };
        let (count, queue) = (k.n(if broken { 2048 } else { 2047 }), k.n(0));
        whole(k, Operation::BatchWrite { items, count, queue }, 18, 1);
    };

    items_lie_within_the_workspace, "bounds", MixAiv10, |k, broken| {
        k.setting.workspace = Some(256);
        k.write_workspace(256);
        let items = Place { base: Base::Workspace, offset: k.n(0) };
        let (count, queue) = (k.n(if broken { 5 } else { 4 }), k.n(0));
        whole(k, Operation::BatchWrite { items, count, queue }, 18, 1);
    };

    ascend_950_has_no_batches, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::Ascend950 } else { Product::A3 };
        k.write_workspace(256);
        let items = Place { base: Base::Workspace, offset: k.n(0) };
        let (count, queue) = (k.n(4), k.n(0));
        whole(k, Operation::BatchWrite { items, count, queue }, 18, 1);
    };

    only_ascend_950_writes_blocks_to_windows, "product", MixAiv10, |k, broken| {
        k.setting.product = if broken { Product::A3 } else { Product::Ascend950 };
        blocks_to_windows(k, 1, 0);
    };

    blocks_to_windows_have_one_turn, "repeat", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        blocks_to_windows(k, if broken { 2 } else { 1 }, 0);
    };

    the_own_block_lies_within_the_window, "bounds", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        k.setting.window = Some(1024);
        blocks_to_windows(k, 1, if broken { 897 } else { 896 });
    };

    every_rank_has_a_size, "bounds", MixAiv10, |k, broken| {
        k.setting.product = Product::Ascend950;
        blocks_to_windows(k, 1, 0);
        k.setting.parameters = vec![Some(4096), Some(if broken { 24 } else { 32 })];
    };

    a_place_in_the_workspace_is_aligned, "align", MixAiv10, |k, broken| {
        let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
        let e = exchange(k, x, y, 64);
        k.write_workspace(256);
        let send = Place { base: Base::Workspace, offset: k.n(if broken { 3 } else { 4 }) };
        whole(k, Operation::AllReduce(Exchange { send, ..e }, Reduction::Sum), 2, 1);
    };
}

/// Returns the places that all turns of one rank's call read and write, address by address, as the
/// documents list them.
fn addresses(
    operation: u32,
    (count, stride, repeat, ranks): (u64, u64, u64, u64),
) -> (Vec<u64>, Vec<u64>) {
    let stride = if stride == 0 { count } else { stride };
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for t in 0..repeat {
        for i in 0..count {
            let own = t * count + i;
            for r in 0..ranks {
                let block = t * count + r * stride + i;
                match operation {
                    2 => (read.push(own), written.push(own)),
                    6 => (read.push(own), written.push(block)),
                    7 => (read.push(block), written.push(own)),
                    _ => (read.push(block), written.push(block)),
                };
            }
        }
    }
    (read, written)
}

#[test]
fn bounds_and_overlaps_are_those_of_every_address() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut seen = [0; 2];
    for _ in 0..4000 {
        let operation = *random.choice(&[2, 6, 7, 10]).unwrap();
        let (count, repeat) = (random.u64(1..9), random.u64(1..6));
        let (stride, ranks) = (random.u64(0..40), random.u64(1..9));
        let numbers = (count, stride, repeat, ranks);
        let (read, written) = addresses(operation, numbers);
        let (from, to) = (random.u64(0..5), random.u64(0..5));
        let needed =
            [from + read.iter().max().unwrap() + 1, to + written.iter().max().unwrap() + 1];
        let room = needed.map(|needed| needed + random.u64(0..3) - random.u64(0..2));

        let mut k = Kernel::new(Mix::MixAiv10);
        k.blocks = 1;
        k.ranks = ranks as u32;
        let (x, y) = tensors(&mut k, room[0], room[1]);
        let (send, recv) = (k.at(x, from), k.at(y, to));
        let e = Exchange { send, recv, ..exchange(&mut k, x, y, count) };
        let stride = k.n(stride);
        let call = match operation {
            2 => Operation::AllReduce(e, Reduction::Sum),
            6 => Operation::AllGather(e, stride),
            7 => Operation::ReduceScatter(e, Reduction::Sum, stride),
            _ => Operation::AlltoAll(e, stride),
        };
        whole(&mut k, call, operation, repeat);
        let findings = k.findings();
        let of = |rule: &str| findings.iter().any(|finding| finding.rule == rule);

        let beyond = room[0] < needed[0] || room[1] < needed[1];
        assert_eq!(of("bounds"), beyond, "{operation} {numbers:?} {room:?}: {findings:#?}");
        seen[usize::from(beyond)] += 1;
        // No element belongs to two blocks or turns. The server of A3 uses the stride with any
        // number of ranks.
        let mut touched = if operation == 7 { read } else { written };
        let all = touched.len();
        touched.sort_unstable();
        touched.dedup();
        let shared = operation != 2 && touched.len() < all;
        let refused = matches!(operation, 6 | 7) && (1..count).contains(&numbers.1);
        let found = of("overlap") || of("stride");
        assert_eq!(found, shared || refused, "{operation} {numbers:?}: {findings:#?}");
    }
    assert!(seen[0] > 500 && seen[1] > 500, "{seen:?}");
}

/// On a product where the call decides, a tiling of another type is only a note. A tiling without a
/// type does not count as another type.
#[test]
fn a_tiling_of_another_type_is_told_where_the_call_decides() {
    for product in [Product::A2, Product::A3] {
        for (filled, notes) in [(3, 1), (4, 0), (0, 0)] {
            let mut k = Kernel::new(Mix::MixAiv10);
            k.setting.product = product;
            all_reduce(&mut k, Number::F32, 4, Reduction::Sum);
            k.dtype = filled;
            let found = k.findings();
            assert_eq!(found.len(), notes, "{found:#?}");
            assert!(found.iter().all(|of| (of.severity, of.rule) == (Severity::Note, "dtype")));
        }
    }
}
