//! Tests of kernels on each product: the collectives that all products have, and those that only
//! some products have.

use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::build::Builder;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ranks::{Rank, name_of, on_block};
use ascend_emulator_testing::{call, hccl};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Core, Mix, Program};
use ascend_sys::*;
use std::ptr::null_mut;

const INT32: u32 = 2;

#[test]
fn every_product_has_the_collectives_with_strides() {
    let mut random = fastrand::Rng::with_seed(9);
    for product in [A2, A3, ASCEND950] {
        for command in [ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL] {
            for ranks in [1, 2, 5] {
                let (count, repeat) = (random.u64(1..300), random.u64(1..5));
                let stride = count * repeat + random.u64(0..9);
                let call = Call::new(command, random.u64(0..20), count, stride, repeat);
                let length = call.at + (ranks as u64 + 1) * stride;
                let mut input = || (0..length).map(|_| random.i32(-99..99)).collect();
                let inputs: Vec<Vec<i32>> = (0..ranks).map(|_| input()).collect();
                is_naive(product, &call, &inputs);
            }
        }
    }
}

/// Runs a kernel on two ranks of a product. Returns the error text of each rank, which is empty if
/// the rank succeeded.
fn outcome(product: u32, program: &Program, operations: &[u32], bytes: usize) -> Vec<String> {
    let config = AscendExtBlockConfig { deviceCount: 2, product, ..Block::config() };
    on_block(config, |rank: &mut Rank| {
        rank.join();
        let ready = Ready::new(rank, program, operations);
        let tensors = [rank.upload(&vec![1; bytes]), rank.upload(&vec![0; bytes])];
        ready.serve();
        ready.run(rank, 1, &tensors);
        let (code, text) = rank.sync_fails();
        let served = call!(aclrtSynchronizeStream(ready.stream));
        assert_eq!(code == 0, served == 0, "the kernel: {text}, its server: {}", message());
        ready.end();
        hccl!(HcclCommDestroy(rank.comm));
        if code == 0 { String::new() } else { text }
    })
}

fn refused(product: u32, program: &Program, operations: &[u32], pieces: &[&str]) {
    for text in outcome(product, program, operations, 1024) {
        for piece in pieces {
            assert!(text.contains(piece), "product {product}: {piece:?} is not in: {text}");
        }
    }
}

fn taken(product: u32, program: &Program, operations: &[u32]) {
    assert_eq!(outcome(product, program, operations, 1024), ["", ""], "product {product}");
}

/// Checks that the host call reports an operation that the product lacks.
fn has_no(product: u32, operation: u32, piece: &str) {
    on_block(AscendExtBlockConfig { product, ..Block::config() }, |rank| {
        rank.join();
        let bytes = tiling(&[operation], &name_of(rank.comm));
        let (bytes, mut context) = (bytes.as_ptr().cast_mut().cast(), null_mut());
        let _ = message();
        let code = call!(HcclAllocComResourceByTiling(rank.comm, rank.stream, bytes, &mut context));
        let text = message();
        assert_eq!(code, HcclResult::HCCL_E_NOT_SUPPORT, "{text}");
        assert!(text.contains(piece), "{text}");
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn an_all_to_all_v_is_for_a3_and_950() {
    let lists = [vec![3, 5], vec![0, 3], vec![3, 5], vec![0, 3]];
    let uneven = |rank: usize| {
        let mut lists = lists.clone();
        // The number of elements that the rank receives from each rank, and where they are placed.
        lists[2] = vec![lists[0][rank]; 2];
        lists[3] = vec![0, lists[0][rank]];
        vec![Call { lists, ..Call::new(ALL_TO_ALL_V, 0, 0, 0, 1) }]
    };
    let calls = [uneven(0), uneven(1)];
    let inputs: Vec<_> = (0..2).map(|rank| ints((0..8).map(|n| rank * 100 + n))).collect();
    for product in [A3, ASCEND950] {
        let outputs = run_on(product, &calls, (Number::I32, INT32), &inputs, 40, 1);
        assert_eq!(to_ints(&outputs[0])[..6], [0, 1, 2, 100, 101, 102], "product {product}");
        assert_eq!(to_ints(&outputs[1]), [3, 4, 5, 6, 7, 103, 104, 105, 106, 107]);
    }
    has_no(A2, ALL_TO_ALL_V, "on A3 and 950 also 8 AlltoAllV");
}

/// Returns a kernel with two all-reduces, which commits the second one first.
fn committed_the_other_way_round() -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::I32), b.output("y", Number::I32));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[ALL_REDUCE]);
        let tasks = ["first", "second"].map(|name| b.task(name, client));
        for (at, task) in [0, 64].into_iter().zip(tasks) {
            let operation = operation(b, &Call::new(ALL_REDUCE, at, 64, 0, 1), x, y, INT32);
            b.prepare(task, operation, 1, false);
        }
        tasks.iter().rev().for_each(|task| b.commit(*task));
        tasks.iter().for_each(|task| b.wait(*task));
        b.sync_vectors();
        b.finalize(client);
    });
    b.done()
}

#[test]
fn commits_come_in_the_order_of_prepares_on_950() {
    let program = committed_the_other_way_round();
    for product in [A2, A3] {
        taken(product, &program, &[ALL_REDUCE]);
    }
    let pieces = ["`second` is committed before `first`", "in the order of prepares"];
    refused(ASCEND950, &program, &[ALL_REDUCE], &pieces);
}

/// Checks the setting by which the host keeps the rank's own block out of the result on A2. Other
/// products ignore it.
#[test]
fn the_own_block_stays_out_of_the_result_where_the_host_says_so() {
    for (product, skipped) in [(A2, true), (A3, false)] {
        for (command, stride, repeat) in
            [(ALL_GATHER, 0, 1), (ALL_GATHER, 50, 3), (ALL_TO_ALL, 0, 1), (ALL_TO_ALL, 50, 3)]
        {
            let call = Call::new(command, 4, 16, stride, repeat);
            let program = kernel(std::slice::from_ref(&call), Number::I32, INT32);
            let inputs: Vec<Vec<i32>> =
                (0..3).map(|rank| (0..200).map(|n| 1000 * rank + n).collect()).collect();
            let mut expected = vec![vec![-1; 200]; 3];
            naive(&call, &inputs, &mut expected);
            if skipped {
                let stride = if stride == 0 { 16 } else { stride as usize };
                for (rank, output) in expected.iter_mut().enumerate() {
                    let own = 4 + rank * stride;
                    output[own..own + 16 * repeat as usize].fill(-1);
                }
            }
            let config = AscendExtBlockConfig { deviceCount: 3, product, ..Block::config() };
            let found = on_block(config, |rank: &mut Rank| {
                rank.join();
                let mut bytes = tiling(&[command], &name_of(rank.comm));
                bytes[64] = 1;
                let ready = Ready::of(rank, &program, bytes);
                let x = rank.upload(&ints(inputs[rank.rank as usize].iter().copied()));
                let y = rank.upload(&[0xff; 800]);
                ready.run_all(rank, 1, &[x, y]);
                let found = to_ints(&rank.download(y, 800));
                ready.end();
                hccl!(HcclCommDestroy(rank.comm));
                found
            });
            assert_eq!(found, expected, "{call:?}, product {product}");
        }
    }
}

/// Checks the calls of older operators, which read the tiling struct at its address in memory.
#[test]
fn older_clients_are_for_a2_and_a3() {
    let calls = [Call::new(ALL_GATHER, 0, 16, 20, 1)];
    let mut program = kernel(&calls, Number::I32, INT32);
    program.clients[0].what.by_address = true;
    for product in [A2, A3] {
        taken(product, &program, &[ALL_GATHER]);
    }
    refused(ASCEND950, &program, &[ALL_GATHER], &["no Init and SetCcTiling", "use InitV2"]);
}

#[test]
fn a_950_has_no_query() {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::I32), b.output("y", Number::I32));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[ALL_REDUCE]);
        let task = b.task("sum", client);
        let operation = operation(b, &Call::new(ALL_REDUCE, 0, 64, 0, 1), x, y, INT32);
        b.prepare(task, operation, 1, true);
        let done = b.variable("done", Number::I32);
        b.step(Step::Read(done, Read::Finished(task)));
        b.wait(task);
        b.sync_vectors();
        b.finalize(client);
    });
    let program = b.done();
    for product in [A2, A3] {
        taken(product, &program, &[ALL_REDUCE]);
    }
    refused(ASCEND950, &program, &[ALL_REDUCE], &["has no Query", "wait for the turn"]);
}
