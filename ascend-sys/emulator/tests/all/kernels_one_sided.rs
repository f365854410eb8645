//! Tests of one-sided writes of kernels: to windows on Ascend 950, to queues on A3, and between
//! windows on A2.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::build::Builder;
use ascend_emulator_testing::kernel::one_sided::{
    self, ALL_TO_ALL_V_WRITE, BATCH_WRITE, numbers, words, write_blocks,
};
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ranks::{Rank, name_of, on_block};
use ascend_emulator_testing::{call, hccl};
use ascend_program::Mix;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_sys::*;
use std::ptr::null_mut;

#[test]
fn blocks_come_into_the_windows_of_all_ranks() {
    for ranks in 1..=8 {
        let config =
            AscendExtBlockConfig { deviceCount: ranks, product: ASCEND950, ..Block::config() };
        on_block(config, |rank: &mut Rank| {
            rank.join();
            one_sided::blocks_come_into_windows(rank, 20 + u64::from(ranks));
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn a_block_beyond_a_window_ends_the_kernels_of_all_ranks() {
    let config = AscendExtBlockConfig { deviceCount: 2, product: ASCEND950, ..Block::config() };
    let failed = Barrier::new(2);
    let texts = on_block(config, |rank: &mut Rank| {
        rank.join();
        let ready = Ready::of(rank, &write_blocks(), numbers(rank, 0, 0));
        let size = if rank.rank == 1 { 1 << 40 } else { 8 };
        let tensors = [words(&[0; 4]), words(&[0, 0]), words(&[size, size])];
        let tensors: Vec<_> = tensors.iter().map(|bytes| rank.upload(bytes)).collect();
        ready.serve();
        ready.run(rank, 1, &tensors);
        let (code, text) = rank.sync_fails();
        assert_ne!(code, 0);
        assert_ne!(call!(aclrtSynchronizeStream(ready.stream)), 0);
        // A rank has no window after its communicator is destroyed. Without this barrier, the other
        // rank could get that error first.
        failed.wait();
        ready.end();
        hccl!(HcclCommDestroy(rank.comm));
        text
    });
    let told = "are touched, ";
    assert!(texts[1].contains(told), "{}", texts[1]);
    assert!(texts[0].contains("the communication server of rank 1 has failed"), "{}", texts[0]);
}

/// Checks the error of a kernel that begins after another rank has ended its communicator. That
/// rank has no window any more. The error gives this reason and says what to do.
#[test]
fn the_window_of_a_rank_that_has_left_is_an_error() {
    let config = AscendExtBlockConfig {
        deviceCount: 2,
        product: AscendExtProduct::ASCEND_EXT_PRODUCT_A3.0,
        ..Block::config()
    };
    let left = Barrier::new(2);
    let mut b = Builder::new(Mix::MixAiv10);
    let client = b.ready(&[2]);
    let (other, v) = (b.n(1), b.variable("v", Number::U8));
    let place = b.at(Base::WindowIn(client, other), 0);
    b.step(Step::Read(v, Read::Global(place)));
    b.finalize(client);
    let program = b.done();
    let texts = on_block(config, |rank: &mut Rank| {
        rank.join();
        let ready = Ready::new(rank, &program, &[2]);
        if rank.rank == 1 {
            hccl!(HcclCommDestroy(rank.comm));
            left.wait();
            return String::new();
        }
        left.wait();
        ready.run(rank, 1, &[]);
        rank.sync_fails().1
    });
    let pieces =
        ["rank 1 of ", "has no window, because it has ended the communicator", "let it keep"];
    assert!(pieces.iter().all(|piece| texts[0].contains(piece)), "{}", texts[0]);
}

#[test]
fn every_core_writes_into_queues_of_its_own() {
    for ranks in [2, 3] {
        let config = AscendExtBlockConfig { deviceCount: ranks, product: A3, ..Block::config() };
        on_block(config, |rank: &mut Rank| {
            rank.join();
            one_sided::cores_write_into_queues(rank);
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn batches_of_an_a2_go_from_window_to_window() {
    let config = AscendExtBlockConfig { deviceCount: 2, product: A2, ..Block::config() };
    on_block(config, |rank| {
        rank.join();
        one_sided::batches_go_from_window_to_window(rank);
        hccl!(HcclCommDestroy(rank.comm));
    });
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
fn each_product_has_its_own_one_sided_writes() {
    has_no(ASCEND950, BATCH_WRITE, "on A2 and A3 also 18 BatchWrite");
    has_no(A2, ALL_TO_ALL_V_WRITE, "on 950 also 20 AlltoAllvWrite");
    has_no(A3, ALL_TO_ALL_V_WRITE, "on 950 also 20 AlltoAllvWrite");
}
