//! Tests of features that kernels use beside the plain collectives: fine-grained exchange, two
//! groups, windows, one-sided writes, and polling.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::kernel::{self, build::Builder};
use ascend_emulator_testing::ranks::{self, Rank, name_of, on_ranks};
use ascend_emulator_testing::{call, fails, hccl, ok};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Binary, Core, Mix, Of};
use std::ptr::null_mut;

const INT32: u32 = 2;
const BATCH_WRITE: u32 = 18;

/// Runs an AlltoAllV whose turn has steps of two blocks. The core commits both steps, and then
/// reads the numbers of the blocks that arrive.
#[test]
fn a_fine_grained_exchange_names_its_blocks() {
    let ranks = 4u64;
    let outputs = on_ranks(4, |rank| {
        let mut b = Builder::new(Mix::MixAiv10);
        let (x, y) = (b.input("x", Number::I32), b.output("y", Number::I32));
        let seen = b.output("seen", Number::U64);
        b.on(Core::Aiv, |b| {
            let client = b.ready(&[ALL_TO_ALL_V]);
            let task = b.task("blocks", client);
            let counts = vec![5u64; 4];
            let at: Vec<u64> = (0..4).map(|n| n * 5).collect();
            let lists = [counts.clone(), at.clone(), counts, at];
            let call = Call { lists, ..Call::new(ALL_TO_ALL_V, 0, 0, 0, 1) };
            let operation = operation(b, &call, x, y, INT32);
            b.prepare(task, operation, 1, false);
            // The core commits twice, with two blocks per step, and then stores the numbers of the
            // blocks in the order in which they arrived.
            b.times(2, |b| b.commit(task));
            let slice = b.variable("slice", Number::U16);
            let total = b.n(ranks);
            b.range("n", total, |b, now| {
                b.step(Step::Read(slice, Read::Slice(task, true)));
                let got = b.get(slice);
                let value = b.value(Of::Cast(got), Number::U64);
                let to = Place { base: seen, offset: now };
                b.step(Step::Copy(Copy::Set { to, value }));
                b.step(Step::Copy(Copy::Clean(to)));
            });
            b.sync_vectors();
            b.finalize(client);
        });
        let program = b.done();
        let mut ready = Ready::new(rank, &program, &[ALL_TO_ALL_V]);
        let name = b"AlltoAll=level0:fullmesh;level1:pairwise";
        ready.tiling[64 + 2] = 2;
        ready.tiling[64 + 144..][..name.len()].copy_from_slice(name);
        let own = rank.rank as i32;
        let x = rank.upload(&ints((0..20).map(|n| own * 100 + n)));
        let (y, seen) = (rank.upload(&[0; 80]), rank.upload(&[0; 32]));
        ready.run_all(rank, 1, &[x, y, seen]);
        let seen = read(seen, 32).chunks(8).map(|c| c[0]).collect::<Vec<_>>();
        (to_ints(&read(y, 80)), seen)
    });
    for (rank, (values, seen)) in outputs.into_iter().enumerate() {
        let expected: Vec<i32> = (0..20).map(|n| n / 5 * 100 + rank as i32 * 5 + n % 5).collect();
        assert_eq!(values, expected, "rank {rank}");
        let order: Vec<u8> = (0..4).map(|step| ((rank + 4 - step) % 4) as u8).collect();
        assert_eq!(seen, order, "rank {rank}");
    }
}

/// Uses the output of an all-gather on one communicator as the input of a reduce-scatter on another
/// one.
#[test]
fn a_task_of_one_group_waits_for_a_task_of_the_other() {
    let mut second = ascend_sys::HcclRootInfo::default();
    hccl!(HcclGetRootInfo(&mut second));
    let outputs = on_ranks(2, |rank| {
        let mut b = Builder::new(Mix::MixAiv10);
        let (x, y) = (b.input("x", Number::I32), b.output("y", Number::I32));
        let z = b.output("z", Number::I32);
        b.on(Core::Aiv, |b| {
            let [first, second] = two_clients(b);
            let (gather, scatter) = (b.task("gather", first), b.task("scatter", second));
            let gather_call = Call::new(ALL_GATHER, 0, 8, 0, 1);
            let operation_of_first = operation(b, &gather_call, x, y, INT32);
            b.prepare(gather, operation_of_first, 1, false);
            b.hccl(Hccl::After(second, gather));
            let operation_of_second =
                operation(b, &Call::new(REDUCE_SCATTER, 0, 8, 0, 1), y, z, INT32);
            b.prepare(scatter, operation_of_second, 1, true);
            b.commit(gather);
            b.wait(gather);
            b.wait(scatter);
            b.sync_vectors();
            b.finalize(first);
            b.finalize(second);
        });
        let program = b.done();
        let mut other = null_mut();
        hccl!(HcclCommInitRootInfo(2, &second, rank.rank, &mut other));
        let x = rank.upload(&ints((0..8).map(|n| rank.rank as i32 * 10 + n)));
        let (y, z) = (rank.upload(&[0; 64]), rank.upload(&[0; 32]));
        let operations = [ALL_GATHER, REDUCE_SCATTER];
        let stream = launch_for_two(rank, other, &program, operations, &[x, y, z]);
        rank.sync();
        ok!(aclrtSynchronizeStream(stream));
        hccl!(HcclCommDestroy(other));
        to_ints(&read(z, 32))
    });
    for (rank, values) in outputs.into_iter().enumerate() {
        let expected: Vec<i32> = (0..8).map(|n| 2 * (rank as i32 * 10 + n)).collect();
        assert_eq!(values, expected, "rank {rank}");
    }
}

/// Lets a core poll the progress of a task instead of waiting for it.
#[test]
fn a_core_that_polls_sees_the_turns_end() {
    on_ranks(2, |rank| {
        let mut b = Builder::new(Mix::MixAiv10);
        let (x, y) = (b.input("x", Number::I32), b.output("y", Number::I32));
        let polls = b.output("polls", Number::U64);
        b.on(Core::Aiv, |b| {
            let client = b.ready(&[ALL_REDUCE]);
            let task = b.task("sum", client);
            let operation = operation(b, &Call::new(ALL_REDUCE, 0, 64, 0, 2), x, y, INT32);
            b.prepare(task, operation, 2, true);
            let done = b.variable("done", Number::I32);
            // This polls for longer than the other rank may need to begin.
            let many = b.n(1 << 22);
            b.range("n", many, |b, _| b.step(Step::Read(done, Read::Finished(task))));
            let (so_far, zero) = (b.get(done), b.n(0));
            let finished = b.value(Of::Cast(so_far), Number::U64);
            let to = Place { base: polls, offset: zero };
            b.step(Step::Copy(Copy::Set { to, value: finished }));
            b.step(Step::Copy(Copy::Clean(to)));
            b.times(2, |b| b.wait(task));
            b.sync_vectors();
            b.finalize(client);
        });
        let ready = Ready::new(rank, &b.done(), &[ALL_REDUCE]);
        let (x, y, polls) =
            (rank.upload(&ints(0..128)), rank.upload(&[0; 512]), rank.upload(&[0; 8]));
        ready.run_all(rank, 1, &[x, y, polls]);
        assert_eq!(read(polls, 8)[0], 2);
        assert_eq!(to_ints(&read(y, 512))[127], 254);
    });
}

/// Lets each rank write to the input window of the other rank in two ways: directly, and with items
/// that its server carries out.
#[test]
fn windows_are_reached_by_copies_and_by_one_sided_writes() {
    on_ranks(2, |rank| {
        let mut b = Builder::new(Mix::MixAiv10);
        let (x, items) = (b.input("x", Number::I32), b.input("items", Number::U8));
        let y = b.output("y", Number::U64);
        b.on(Core::Aiv, |b| {
            let client = b.ready(&[BATCH_WRITE]);
            let task = b.task("write", client);
            let own = b.value(Of::Rank(client), Number::U32);
            let one = b.value(Of::Constant(1), Number::U32);
            let next = b.binary(Binary::Sub, one, own);
            let place = Place { base: Base::WindowIn(client, next), offset: b.n(64) };
            let number = b.value(Of::Cast(own), Number::U64);
            let hundred = b.n(100);
            let value = b.binary(Binary::Add, number, hundred);
            let value = b.value(Of::Cast(value), Number::U8);
            b.step(Step::Copy(Copy::Set { to: place, value }));
            b.step(Step::Copy(Copy::Clean(place)));
            let items = b.at(items, 0);
            let (count, queue) = (b.n(1), b.n(0));
            b.prepare(task, Operation::BatchWrite { items, count, queue }, 1, true);
            b.wait(task);
            b.sync_vectors();
            b.finalize(client);
            let _ = (x, y);
        });
        let ready = Ready::new(rank, &b.done(), &[BATCH_WRITE]);
        // The address of the own window is in the context. The other rank sends the address of its
        // window.
        let word =
            |at: usize| u64::from_le_bytes(read(ready.context, 48)[at..at + 8].try_into().unwrap());
        let window = word(32);
        let told = rank.upload(&window.to_le_bytes());
        let all = rank.upload(&[0; 16]);
        hccl!(HcclAllGather(told, all, 1, ascend_sys::HcclDataType(5), rank.comm, rank.stream));
        rank.sync();
        let windows = read(all, 16);
        let other =
            u64::from_le_bytes(windows[8 * (1 - rank.rank as usize)..][..8].try_into().unwrap());
        let x = rank.upload(&ints((0..16).map(|n| n + 1000 * rank.rank as i32)));
        let mut item = [0u8; 64];
        item[28..32].copy_from_slice(&64u32.to_le_bytes());
        item[32..40].copy_from_slice(&(x as u64).to_le_bytes());
        item[40..48].copy_from_slice(&(other + 128).to_le_bytes());
        let (items, y) = (rank.upload(&item), rank.upload(&[0; 8]));
        ready.run_all(rank, 1, &[x, items, y]);
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        let there = read(std::ptr::with_exposed_provenance(window as usize), 192);
        let from = 1 - rank.rank;
        assert_eq!(u32::from(there[64]), 100 + from);
        assert_eq!(
            to_ints(&there[128..]),
            (0..16).map(|n| n + 1000 * from as i32).collect::<Vec<_>>()
        );
    });
}

/// Checks that the kernel and the server of rank 0 end when rank 0 destroys the communicator. Rank
/// 1 never launches its kernel.
#[test]
fn a_communicator_that_is_destroyed_ends_its_kernels() {
    let block = Block::new(2);
    let info = ranks::root_info();
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (block, info) = (&block, &info);
            scope.spawn(move || {
                let mut rank = Rank::without_comm(block, info, n, 2);
                rank.join();
                if n == 1 {
                    context(&rank, &tiling(&[ALL_REDUCE], &name_of(rank.comm)));
                    return;
                }
                let program =
                    kernel::kernel(&[Call::new(ALL_REDUCE, 0, 64, 0, 1)], Number::I32, INT32);
                let ready = Ready::new(&rank, &program, &[ALL_REDUCE]);
                let tensors = [rank.upload(&[0; 256]), rank.upload(&[0; 256])];
                ready.serve();
                ready.run(&rank, 2, &tensors);
                hccl!(HcclCommDestroy(rank.comm));
                let (code, text) = rank.sync_fails();
                assert!(code != 0 && text.contains("rank 0 ended the communicator"), "{text}");
                assert_ne!(call!(aclrtSynchronizeStream(ready.stream)), 0);
                // The context is destroyed together with the communicator.
                let descriptor = std::ptr::without_provenance_mut(0x11);
                let list = list(
                    ready.server,
                    &[Given::Pointer(descriptor), Given::Pointer(ready.context)],
                );
                fails!(
                    ascend_sys::ACL_ERROR_RT_PARAM_INVALID,
                    ["is not a context"],
                    aclrtLaunchKernelWithConfig(
                        ready.server,
                        1,
                        ready.stream,
                        null_mut(),
                        list,
                        null_mut()
                    )
                );
            });
        }
    });
}
