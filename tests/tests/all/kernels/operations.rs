//! The records of every operation.

use hccl::kernel::*;
use hccl::{bf16, f16};

use crate::kernels::golden::golden;

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Inner {
    counts: [u32; 2],
}

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Everything {
    init: Mc2InitTiling,
    first: Mc2CcTiling,
    more: [Mc2CcTiling; 2],
    cube: TCubeTiling,
    inner: [Inner; 2],
    table: [[u64; 4]; 2],
    length: u64,
    scale: f32,
    start: i32,
    half_float: f16,
    small: u8,
    flag: bool,
    _pad: [u8; 4],
}

#[kernel(mix = "aiv_1_0")]
fn values(k: Kernel<Everything>, y: Output<f32>) {
    let t = k.tiling();
    let sum = t.length + 3 - t.table[1].at(2) * 2;
    let quotient = 7 / sum % 5;
    let bounded = quotient.min(sum).max(1u64);
    let float = -t.scale * 0.5 + bounded.cast::<f32>();
    let index = t.inner[1].counts.at(t.small.cast::<u32>());
    let logic = (t.flag & bounded.lt(9)) | !sum.ne(quotient);
    let order = bounded.le(1) & bounded.gt(2) & bounded.ge(3) & bounded.eq(4);
    let chosen = (logic | order).select(float, 1.5);
    let half = t.half_float.cast::<f32>() - t.start.cast::<f32>();
    let cores = k.block_count() * k.task_ratio() + k.block_index() - k.sub_block_index();
    let pieces = index.div_ceil(k.value(3));
    y.set(pieces, chosen + half + cores.cast::<f32>());
}

#[kernel(mix = "aiv_1_0")]
fn control(k: Kernel<Everything>, x: Input<i32>, y: Output<i32>) {
    let t = k.tiling();
    let mut total = k.variable(0);
    k.range(..t.length, |i| {
        total += x.get(i);
        let so_far = total.get();
        k.when(so_far.gt(100), || total.set(0));
        k.when_else(
            so_far.eq(50),
            || y.set(0, so_far),
            || {
                k.comment("an odd one");
                y.set(1, so_far);
            },
        );
    });
    k.range(k.value(2i32)..t.start, |_| k.sync_all_aiv());
    k.range_by(1..10u64, t.length, |step| y.set(step, 0));
    for constant in 0..2 {
        y.at(4).set(constant, total.get());
    }
    y.clean(0);
}

#[kernel(mix = "aiv_1_0")]
fn memory(k: Kernel<Everything>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    let queue = k.queue::<f16>(Position::VecIn, 2, t.length);
    let scratch = k.scratch::<f16>(64);
    let spare = k.workspace::<f16>(1024);
    let first = k.workspace::<f16>(0);
    let a = queue.alloc();
    k.copy_in(&a, x.at(t.length).at(16), Pieces::new(16, 4, t.length));
    queue.enqueue(a);
    let a = queue.dequeue();
    let b = scratch.get();
    k.copy_out(spare.at(32), &a, 64);
    k.copy_out_add(first.at(t.start), a.at(16), t.inner[0].counts.at(0));
    k.copy_out(y, b.at(32), 16);
    k.wait_for(Pipe::Scalar, Pipe::In);
    b.set(0, a.get(t.start));
    queue.free(a);
}

#[kernel(mix = "aiv_1_0")]
fn vectors(k: Kernel<Everything>) {
    let t = k.tiling();
    let n = t.length;
    let floats = k.scratch::<f32>(n);
    let brains = k.scratch::<bf16>(n);
    let a = floats.get();
    let b = brains.get();
    k.fill(&a, 1.0, n);
    k.add(&a, &a, &a, n);
    k.sub(&a, &a, a.at(8), n);
    k.mul(&a, &a, &a, n);
    k.div(&a, &a, &a, n);
    k.max(&a, &a, &a, n);
    k.min(&a, &a, &a, n);
    k.adds(&a, &a, t.scale, n);
    k.muls(&a, &a, 2.0, n);
    k.maxs(&a, &a, 0.0, n);
    k.mins(&a, &a, t.scale + 1.0, n);
    k.relu(&a, &a, n);
    k.exp(&a, &a, n);
    k.sqrt(&a, &a, n);
    k.cast(&b, &a, Round::Nearest, n);
    k.cast(&a, &b, Round::None, n);
    for round in [Round::Floor, Round::Ceil, Round::Away, Round::Truncate] {
        k.cast(&b, &a, round, 16);
    }
    k.reduce_sum(&a, &a, &a, n);
    k.reduce_max(&a, &a, &a, n);
    k.pipe_barrier(Pipe::Vector);
    k.pipe_barrier(Pipe::All);
}

#[kernel(mix = "aic_1_2")]
fn cores(k: Kernel<Everything>, a: Input<f16>, b: Input<f16>, bias: Input<f32>, c: Output<f32>) {
    let t = k.tiling();
    let plain = k.matmul::<f16, f16, f32>(&t.cube);
    let turned = k.matmul::<f16, f16, f32>(&t.cube).transposed_a().transposed_b().bias::<f32>();
    k.on_aic(|| {
        plain.multiply(a.matrix(t.cube.ka), b.matrix(t.cube.n), c.matrix(64), (16, t.cube.n, 32));
        turned.multiply_add(a.matrix(16), b.matrix(32), c.at(1024).matrix(64), bias, (16, 64, 32));
        k.sync_all_aic(9);
        k.cross_core_set_flag(Mode::Block, Pipe::Fix, 8);
    });
    k.on_aiv(|| {
        k.cross_core_wait_flag(8);
        k.cross_core_set_flag(Mode::Pair, Pipe::Out, 10);
        k.cross_core_wait_flag(10);
        k.sync_all_aiv();
    });
    k.sync_all();
}

#[kernel(mix = "aic_1_1")]
fn client(k: Kernel<Everything>, x: Input<f16>, y: Output<f16>, items: Output<u8>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let world = k.hccl(0).only_from_aiv(0).init().configure(&t.first).configure(&t.more[0]);
        let pair = k.hccl(1).init().configure(&t.more[1]);
        let n = t.length;
        let sums = world.all_reduce(y, y, n, Max).repeat(3).prepare();
        let parts = world.all_gather(x, y, n).stride(2 * n).prepare();
        let _ = world.reduce_scatter(x.at(n), y, n, Min).commit_all();
        let blocks = world.all_to_all(x, y.at(n), n).stride(n).repeat(t.small).commit_all();
        let own = [n, n + 1];
        let steps =
            world.all_to_all_v(x, (&t.table[0], own), y, (&own, &t.table[1])).repeat(2).prepare();
        pair.after(&parts);
        let _later = pair.all_gather(world.window_in::<f16>(pair.rank()), y, n).commit_all();
        world.commit(&sums);
        world.wait(&sums);
        world.wait_all(&blocks);
        k.range(..sums.turns() - 1, |_| world.commit(&sums));
        k.when(world.query(&sums).lt(3), || k.comment("not yet"));
        world.iterate_to_send(&steps, |block| {
            y.set(block, world.window_out::<f16>(1).get(0));
            world.commit(&steps);
        });
        world.iterate(&steps, |block| k.when(block.cast().eq(world.rank()), || items.clean(block)));
        k.when(world.next_received(&steps).eq(world.next_to_send(&steps)), || {});
        let written = world.batch_write(items, 4, world.queues()).write();
        world.queue_barrier(0);
        world.wait(&written);
        k.sync_all_aiv();
        pair.finalise();
        world.finalise_without_waiting();
    });
}

#[test]
fn scalars_are_recorded_with_their_operators() {
    golden("op_values", &values::record().unwrap().to_string());
}

#[test]
fn loops_branches_and_variables_are_recorded() {
    golden("op_control", &control::record().unwrap().to_string());
}

#[test]
fn memory_and_copies_are_recorded() {
    golden("op_memory", &memory::record().unwrap().to_string());
}

#[test]
fn every_vector_operation_is_recorded() {
    golden("op_vectors", &vectors::record().unwrap().to_string());
}

#[test]
fn products_and_meetings_of_cores_are_recorded() {
    golden("op_cores", &cores::record().unwrap().to_string());
}

#[test]
fn every_call_of_the_client_is_recorded() {
    golden("op_client", &client::record().unwrap().to_string());
}

#[kernel(mix = "aiv_1_0")]
fn one_sided(k: Kernel<Everything>, x: Input<f16>, lists: Input<u64>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let world = k.hccl(0).by_address().init().configure(&t.first);
        let (offsets, sizes) = (lists, lists.at(4));
        let blocks = world.all_to_all_v_write(x.at(8), offsets, sizes, t.length, 64).prepare();
        world.commit(&blocks);
        world.wait_all(&blocks);
        let more = world.all_to_all_v_write(x, offsets, sizes, 0, t.small).commit_all();
        world.wait(&more);
        k.sync_all_aiv();
        world.finalise();
    });
}

#[test]
fn one_sided_writes_are_recorded_and_printed_for_the_client_of_the_950() {
    let recorded = one_sided::record().unwrap();
    golden("op_one_sided", &recorded.to_string());
    let source = recorded.ascend_c().unwrap();
    let call =
        "world.AlltoAllvWrite<true>(x, lists, lists + 4 * sizeof(uint64_t), 0, tilingData.small);";
    assert!(source.contains(call), "{source}");
    assert!(source.contains("Hccl<HcclServerType::HCCL_SERVER_TYPE_CCU> world;"), "{source}");
    assert!(source.contains("world.Init(GetHcclContext<0>(), tiling);"), "{source}");
    assert!(source.contains("world.SetCcTiling(tiling + offsetof(Everything, first))"), "{source}");
}
