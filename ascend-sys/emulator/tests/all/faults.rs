//! Tests of faults that are set for devices: the errors of the rank itself and of its peers, and
//! that nothing stays allocated.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::{self, Block, message};
use ascend_emulator_testing::ranks::{
    self, FP32, Rank, SUCCESS, SUM, impatient_once_linked, impatient_to_meet, patient, root_info,
};
use ascend_emulator_testing::{call, fails, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

fn fault(kind: AscendExtFaultKind, device: u32, number: u64) -> AscendExtFault {
    let size = size_of::<AscendExtFault>() as u32;
    AscendExtFault { size, kind: kind.0, device, milliseconds: 0, number }
}

/// Runs three ranks of a communicator with faults, and then checks that none of their memory stays
/// allocated. The ranks wait without a time limit.
fn with_faults(faults: &[AscendExtFault], run: impl Fn(&mut Rank) + Sync) {
    with_faults_on(patient(3), faults, run);
}

/// Runs the ranks of a block with this configuration like [`with_faults`].
fn with_faults_on(
    config: AscendExtBlockConfig,
    faults: &[AscendExtFault],
    run: impl Fn(&mut Rank) + Sync,
) {
    let ranks = config.deviceCount;
    let block = Block::with(AscendExtBlockConfig { memoryBytes: 64 << 20, ..config });
    for fault in faults {
        ok!(ascendExtFaultSet(block.number, fault));
    }
    let info = root_info();
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (block, info, run) = (&block, &info, &run);
            scope.spawn(move || {
                let mut rank = Rank::without_comm(block, info, rank, ranks);
                rank.join();
                run(&mut rank);
                // A rank that the fault made leave has no communicator any more.
                let code = call!(HcclCommDestroy(rank.comm));
                let left = code == HcclResult::HCCL_E_PARA;
                assert!(code.0 == 0 || left, "{}", message());
                ok!(aclrtDestroyStreamForce(rank.stream));
                let (mut free, mut total) = (0, 0);
                let kind = aclrtMemAttr::ACL_HBM_MEM;
                ok!(aclrtGetMemInfo(kind, &mut free, &mut total));
                assert_eq!(free, total, "memory is left on {}", rank.device);
            });
        }
    });
}

/// Calls an all-reduce in place.
fn all_reduce(rank: &Rank, buffer: *mut c_void, count: u64) -> HcclResult {
    call!(HcclAllReduce(buffer, buffer, count, FP32, SUM, rank.comm, rank.stream))
}

/// Runs two operations, which all ranks complete.
fn meet(rank: &Rank, buffer: *mut c_void) {
    for _ in 0..2 {
        assert_eq!(all_reduce(rank, buffer, 4).0, 0, "{}", message());
        rank.sync();
    }
}

#[test]
fn a_delay_holds_one_operation_up() {
    let delay = AscendExtFault {
        milliseconds: 200,
        ..fault(AscendExtFaultKind::ASCEND_EXT_FAULT_DELAY, 1, 3)
    };
    with_faults(&[delay], |rank| {
        let buffer = rank.upload(&1f32.to_ne_bytes().repeat(4));
        meet(rank, buffer);
        let began = Instant::now();
        assert_eq!(all_reduce(rank, buffer, 4).0, 0);
        rank.sync();
        // The other ranks may have called when a part of the delay was already over.
        assert!(rank.rank != 1 || began.elapsed() >= Duration::from_millis(200));
        assert_eq!(all_reduce(rank, buffer, 4).0, 0);
        rank.sync();
        assert_eq!(rank.download(buffer, 4), 81f32.to_ne_bytes());
        rank.free(buffer);
    });
}

#[test]
fn a_device_that_stops_is_missed_by_name() {
    let stop = fault(AscendExtFaultKind::ASCEND_EXT_FAULT_STOP, 2, 3);
    let (issue_together, over) = (Barrier::new(3), Barrier::new(3));
    with_faults_on(impatient_once_linked(3), &[stop], |rank| {
        let buffer = rank.upload(&[0; 16]);
        meet(rank, buffer);
        issue_together.wait();
        assert_eq!(all_reduce(rank, buffer, 4).0, 0);
        if rank.rank == 2 {
            let code = call!(aclrtSynchronizeStreamWithTimeout(rank.stream, 1000));
            assert_eq!(code, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
            assert!(message().contains("told to stop"));
            // Streams that are created after the stop do not run either.
            let late = common::stream();
            ok!(aclrtMemsetAsync(buffer, 16, 1, 16, late));
            assert!(!common::idle(late));
            ok!(aclrtDestroyStreamForce(late));
        } else {
            let (code, text) = rank.sync_fails();
            assert_eq!(code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
            assert!(text.contains("EI0002") && text.contains("rank 2 did not come"), "{text}");
        }
        // If a rank left now, the other ranks would report that as the reason.
        over.wait();
        rank.free(buffer);
    });
}

#[test]
fn a_device_that_has_stopped_can_be_let_go() {
    let block = Block::new(2);
    let number = block.number;
    ok!(ascendExtFaultSet(number, &fault(AscendExtFaultKind::ASCEND_EXT_FAULT_STOP, 1, 0)));
    let info = root_info();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (block, info) = (&block, &info);
            scope.spawn(move || {
                let mut rank = Rank::without_comm(block, info, rank, 2);
                rank.join();
                let buffer = rank.upload(&1f32.to_ne_bytes());
                assert_eq!(all_reduce(&rank, buffer, 1).0, 0);
                if rank.rank == 0 {
                    std::thread::sleep(Duration::from_millis(100));
                    assert!(!common::idle(rank.stream));
                    ok!(ascendExtFaultClear(number, 1));
                }
                rank.sync();
                assert_eq!(rank.download(buffer, 4), 2f32.to_ne_bytes());
                hccl!(HcclCommDestroy(rank.comm));
            });
        }
    });
}

#[test]
fn a_rank_that_leaves_is_gone_for_all() {
    with_faults(&[fault(AscendExtFaultKind::ASCEND_EXT_FAULT_LEAVE, 0, 3)], |rank| {
        let buffer = rank.upload(&[0; 16]);
        meet(rank, buffer);
        if rank.rank == 0 {
            let comm = rank.comm;
            refuses!(
                HCCL_E_UNAVAIL,
                ["rank 0 has left"],
                HcclAllReduce(buffer, buffer, 4, FP32, SUM, comm, rank.stream)
            );
            refuses!(HCCL_E_PARA, ["communicator"], HcclGetRankSize(comm, &mut 0));
        } else {
            // If this rank sees the departure of rank 0 before its call, the call itself returns
            // the error.
            match all_reduce(rank, buffer, 4) {
                HcclResult::HCCL_SUCCESS => {
                    let (code, text) = rank.sync_fails();
                    assert_eq!(code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "{text}");
                    assert!(text.contains("EI0012") && text.contains("rank 0 is gone"), "{text}");
                }
                code => {
                    let text = message();
                    assert_eq!(code, HcclResult::HCCL_E_REMOTE, "{text}");
                    assert!(text.contains("rank 0 is gone"), "{text}");
                }
            }
        }
        rank.free(buffer);
    });
}

#[test]
fn a_wrong_count_is_shown_to_both_sides() {
    with_faults(&[fault(AscendExtFaultKind::ASCEND_EXT_FAULT_WRONG_COUNT, 1, 3)], |rank| {
        let buffer = rank.upload(&[0; 16]);
        meet(rank, buffer);
        // A rank that calls after the mismatch was found gets the error from the call.
        let text = match all_reduce(rank, buffer, 4) {
            HcclResult::HCCL_SUCCESS => {
                let (code, text) = rank.sync_fails();
                assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
                text
            }
            code => {
                assert_eq!(code, HcclResult::HCCL_E_PARA);
                message()
            }
        };
        for piece in ["EI0005", "the counts differ", "count 4", "count 3"] {
            assert!(text.contains(piece), "{piece} is not in {text}");
        }
        rank.free(buffer);
    });
}

#[test]
fn a_wrong_count_of_a_message_is_shown_to_both_sides() {
    with_faults(&[fault(AscendExtFaultKind::ASCEND_EXT_FAULT_WRONG_COUNT, 1, 0)], |rank| {
        let buffer = rank.upload(&[0; 16]);
        let item = |kind, peer| HcclSendRecvItem {
            sendRecvType: kind,
            buf: buffer,
            count: 4,
            dataType: FP32,
            remoteRank: peer,
        };
        let mut item = match rank.rank {
            0 => item(HcclSendRecvType::HCCL_RECV, 1),
            1 => item(HcclSendRecvType::HCCL_SEND, 0),
            _ => {
                rank.free(buffer);
                return;
            }
        };
        hccl!(HcclBatchSendRecv(&mut item, 1, rank.comm, rank.stream));
        let (code, text) = rank.sync_fails();
        assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
        for piece in ["EI0005", "rank 1  sends     count 3", "rank 0  receives  count 4"] {
            assert!(text.contains(piece), "{piece} is not in {text}");
        }
        rank.free(buffer);
    });
}

#[test]
fn memory_runs_out_from_an_allocation_on() {
    let out = AscendExtFaultKind::ASCEND_EXT_FAULT_OUT_OF_MEMORY;
    let faults = [fault(out, 0, 2), fault(out, 1, 0)];
    with_faults(&faults, |rank| {
        let mut pointer = null_mut();
        let mut fails = || {
            let code = call!(aclrtMalloc(&mut pointer, 64, common::POLICY));
            let text = message();
            if code == 0 {
                rank.free(pointer);
                return false;
            }
            assert_eq!(code, ACL_ERROR_RT_MEMORY_ALLOCATION);
            assert!(text.contains("out of memory"), "{text}");
            true
        };
        let expected = match rank.rank {
            0 => [false, true, true],
            1 => [true; 3],
            _ => [false; 3],
        };
        assert_eq!([fails(), fails(), fails()], expected);
    });
}

fn with_a_link_that_does_not_come_up(run: impl Fn(&mut Rank) + Sync) {
    let fault = fault(AscendExtFaultKind::ASCEND_EXT_FAULT_LINK_TIMEOUT, 1, 0);
    let over = Barrier::new(3);
    with_faults_on(impatient_to_meet(3), &[fault], |rank| {
        run(rank);
        // If a rank left now, the other ranks would report that as the reason.
        over.wait();
    });
}

#[test]
fn links_that_do_not_come_up_are_a_time_out_in_the_call() {
    with_a_link_that_does_not_come_up(|rank| {
        let buffer = rank.upload(&[0; 16]);
        refuses!(
            HCCL_E_TIMEOUT,
            ["EI0006", "rank 1"],
            HcclAllReduce(buffer, buffer, 4, FP32, SUM, rank.comm, rank.stream)
        );
        rank.free(buffer);
    });
}

#[test]
fn links_that_do_not_come_up_are_a_time_out_of_a_group() {
    with_a_link_that_does_not_come_up(|rank| {
        let buffer = rank.upload(&[0; 16]);
        hccl!(HcclGroupStart());
        assert_eq!(all_reduce(rank, buffer, 4), SUCCESS);
        hccl!(HcclGroupEnd());
        let (code, text) = ranks::group_result(0);
        assert_eq!(code, HcclResult::HCCL_E_TIMEOUT.0);
        assert!(text.contains("EI0006") && text.contains("rank 1"), "{text}");
        rank.free(buffer);
    });
}

#[test]
fn faults_that_make_no_sense_are_refused() {
    let block = Block::new(2);
    let good = fault(AscendExtFaultKind::ASCEND_EXT_FAULT_STOP, 0, 0);
    let null = std::ptr::null();
    fails!(ACL_ERROR_INVALID_PARAM, ["NULL"], ascendExtFaultSet(block.number, null));
    let small = AscendExtFault { size: 4, ..good };
    fails!(ACL_ERROR_INVALID_PARAM, ["size"], ascendExtFaultSet(block.number, &small));
    let strange = AscendExtFault { kind: 7, ..good };
    fails!(ACL_ERROR_INVALID_PARAM, ["kind is 7"], ascendExtFaultSet(block.number, &strange));
    let third = AscendExtFault { device: 2, ..good };
    fails!(ACL_ERROR_RT_PARAM_INVALID, ["no device 2"], ascendExtFaultSet(block.number, &third));
    fails!(ACL_ERROR_RT_PARAM_INVALID, ["no block"], ascendExtFaultSet(9999, &good));
    fails!(ACL_ERROR_RT_PARAM_INVALID, ["no device 5"], ascendExtFaultClear(block.number, 5));
    ok!(ascendExtFaultClear(block.number, 0));
}

#[test]
fn a_block_of_stopped_devices_ends() {
    let block = Block::one();
    ok!(ascendExtFaultSet(block.number, &fault(AscendExtFaultKind::ASCEND_EXT_FAULT_STOP, 0, 0)));
    let mut comm = null_mut();
    hccl!(HcclCommInitAll(1, &mut { block.first }, &mut comm));
    let stream = common::stream();
    let buffer = common::malloc(16);
    hccl!(HcclAllReduce(buffer, buffer, 4, FP32, SUM, comm, stream));
    assert!(!common::idle(stream));
}
