//! Tests of the threads of operators: errors and their codes, quotas, sharing, and the streams that
//! threads run on.

use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::{self, *};
use ascend_emulator_testing::ranks::{self, Rank};
use ascend_emulator_testing::{hccl, issue, not_issued, ok, refuses};
use ascend_sys::*;
use std::ptr::null_mut;

fn config(notifies: u16) -> ThreadConfig {
    let mut config = ThreadConfig::unset();
    config.notifyNumPerThread = notifies;
    config
}

#[test]
fn what_is_refused_of_threads_and_with_which_code() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let comm = rank.comm;
            let mut one = 0;
            let to = &raw mut one;
            refuses!(HCCL_E_PTR, ["comm"], HcclThreadAcquire(null_mut(), CPU_TS, 1, 0, to));
            refuses!(HCCL_E_PTR, ["threads"], HcclThreadAcquire(comm, CPU_TS, 1, 0, null_mut()));
            // The null pointer is reported before all other mistakes.
            refuses!(HCCL_E_PTR, ["threads"], HcclThreadAcquire(comm, CCU, 0, 70_000, null_mut()));
            for engine in [AIV, CCU] {
                refuses!(HCCL_E_PARA, ["no threads"], HcclThreadAcquire(comm, engine, 1, 0, to));
            }
            for engine in [CommEngine(-1), CommEngine(6)] {
                refuses!(HCCL_E_PARA, ["engine"], HcclThreadAcquire(comm, engine, 1, 0, to));
            }
            refuses!(HCCL_E_PARA, ["threadNum is 0"], HcclThreadAcquire(comm, CPU_TS, 0, 0, to));
            refuses!(HCCL_E_PARA, ["65536"], HcclThreadAcquire(comm, CPU_TS, 1, 65_536, to));
            for engine in [CPU, CPU_TS, AICPU, AICPU_TS] {
                hccl!(HcclThreadAcquire(comm, engine, 1, 0, to));
            }
        });
    }
}

#[test]
fn what_is_refused_of_threads_with_configurations() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let (comm, ts) = (rank.comm, ThreadType::THREAD_TYPE_TS);
            let mut threads = [0; 2];
            let to = threads.as_mut_ptr();
            let good = [config(3), config(0)];
            let it = good.as_ptr();
            let null = std::ptr::null();
            refuses!(
                HCCL_E_PTR,
                ["comm"],
                HcclThreadAcquireWithConfig(null_mut(), CPU, 2, ts, it, to)
            );
            refuses!(
                HCCL_E_PTR,
                ["config"],
                HcclThreadAcquireWithConfig(comm, CPU, 2, ts, null, to)
            );
            refuses!(
                HCCL_E_PTR,
                ["threads"],
                HcclThreadAcquireWithConfig(comm, CPU, 2, ts, it, null_mut())
            );
            for engine in [CPU_TS, AICPU_TS, AIV, CCU] {
                refuses!(
                    HCCL_E_PARA,
                    ["engine"],
                    HcclThreadAcquireWithConfig(comm, engine, 2, ts, it, to)
                );
            }
            let invalid = ThreadType::THREAD_TYPE_INVALID;
            refuses!(
                HCCL_E_PARA,
                ["type"],
                HcclThreadAcquireWithConfig(comm, CPU, 2, invalid, it, to)
            );
            let mut bad = good;
            bad[1].header.magicWord = 0x0f0f_0f0f;
            refuses!(
                HCCL_E_PARA,
                ["config[1]", "ThreadConfigInit"],
                HcclThreadAcquireWithConfig(comm, CPU, 2, ts, bad.as_ptr(), to)
            );
            hccl!(HcclThreadAcquireWithConfig(comm, CPU, 2, ts, it, to));
            // Each thread has its own number of notifies.
            let memory = upload(&[0; 8]);
            issue!(HcommLocalCopyOnThread(threads[0], at(memory, 4), memory, 4));
            issue!(HcommThreadNotifyRecordOnThread(threads[1], threads[0], 2));
            not_issued!(
                HCCL_E_PTR,
                ["notify 0", "which has 0"],
                HcommThreadNotifyRecordOnThread(threads[0], threads[1], 0)
            );
            not_issued!(
                HCCL_E_PTR,
                ["notify 3", "which has 3"],
                HcommThreadNotifyWaitOnThread(threads[0], 3, LONG)
            );
        });
    }
}

#[test]
fn a_communicator_has_two_hundred_threads_and_as_many_notifies_as_sixteen_bits_count() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let comm = rank.comm;
            threads(rank, CPU_TS, 150, 0);
            let mut more = [0; 300];
            // The quota counts the threads of all engines together.
            refuses!(
                HCCL_E_UNAVAIL,
                ["EI0007", "200"],
                HcclThreadAcquire(comm, AICPU, 51, 0, more.as_mut_ptr())
            );
            refuses!(
                HCCL_E_UNAVAIL,
                ["EI0007", "200"],
                HcclThreadAcquire(comm, CPU_TS, 300, 0, more.as_mut_ptr())
            );
            hccl!(HcclThreadAcquire(comm, AICPU, 48, 0, more.as_mut_ptr()));
            // The last two threads take all notifies but one.
            let one = if product == 950 { 49 } else { 1 };
            let wanted: Vec<ThreadConfig> =
                (0..one).map(|at| config(if at + 1 == one { 65_535 } else { 0 })).collect();
            let (ts, count) = (ThreadType::THREAD_TYPE_TS, one as u32);
            hccl!(HcclThreadAcquireWithConfig(
                comm,
                AICPU,
                count,
                ts,
                wanted.as_ptr(),
                more.as_mut_ptr()
            ));
            let count = if product == 950 { 151 } else { 1 };
            refuses!(
                HCCL_E_UNAVAIL,
                ["EI0007", "is 65535", "65536"],
                HcclThreadAcquire(comm, CPU_TS, count, 2, more.as_mut_ptr())
            );
            // Threads on streams of the program count neither for the quota of threads nor for that
            // of notifies.
            let wrapped = stream_thread(rank, 1000);
            issue!(HcommThreadNotifyRecordOnThread(wrapped, wrapped, 999));
            issue!(HcommThreadNotifyWaitOnThread(wrapped, 999, LONG));
            rank.sync();
        });
    }
}

#[test]
fn on_950_a_later_call_gets_the_first_threads_again_and_their_missing_notifies() {
    on_product(950, 1, |rank| {
        let three = threads(rank, AICPU, 3, 1);
        assert_eq!(threads(rank, AICPU_TS, 2, 0), three[..2]);
        let five = threads(rank, AICPU, 5, 4);
        assert_eq!(five[..3], three[..]);
        assert!(five[3..].iter().all(|thread| !three.contains(thread)));
        // Another engine has threads of its own.
        assert!(threads(rank, CPU, 2, 4).iter().all(|thread| !five.contains(thread)));
        // A record of an existing notify stays set when more notifies are added.
        issue!(HcommThreadNotifyRecordOnThread(three[0], three[1], 3));
        assert_eq!(threads(rank, AICPU, 2, 40), three[..2]);
        issue!(HcommThreadNotifyWaitOnThread(three[1], 3, LONG));
        issue!(HcommThreadNotifyRecordOnThread(three[0], three[1], 39));
        finish(rank);
    });
}

#[test]
fn on_a2_and_a3_every_call_makes_new_threads() {
    for product in [2, 3] {
        on_product(product, 1, |rank| {
            let mut all = Vec::new();
            for _ in 0..10 {
                all.extend(threads(rank, AICPU, 20, 0));
            }
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 200);
            let mut one = 0;
            refuses!(
                HCCL_E_UNAVAIL,
                ["every call makes new ones"],
                HcclThreadAcquire(rank.comm, AICPU, 1, 0, &mut one)
            );
        });
    }
}

#[test]
fn a_stream_has_one_thread_whose_notifies_only_become_more() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let (comm, stream) = (rank.comm, rank.stream);
            let mut to = 0;
            let to = &raw mut to;
            refuses!(
                HCCL_E_PTR,
                ["comm"],
                HcclThreadAcquireWithStream(null_mut(), CPU, stream, 1, to)
            );
            refuses!(
                HCCL_E_PTR,
                ["stream"],
                HcclThreadAcquireWithStream(comm, CPU, null_mut(), 1, to)
            );
            refuses!(
                HCCL_E_PTR,
                ["thread"],
                HcclThreadAcquireWithStream(comm, CPU, stream, 1, null_mut())
            );
            for engine in [AICPU, AICPU_TS, AIV] {
                refuses!(
                    HCCL_E_PARA,
                    ["engine"],
                    HcclThreadAcquireWithStream(comm, engine, stream, 1, to)
                );
            }
            let first = stream_thread(rank, 2);
            assert_eq!(stream_thread(rank, 0), first);
            issue!(HcommThreadNotifyRecordOnThread(first, first, 1));
            assert_eq!(stream_thread(rank, 5), first);
            issue!(HcommThreadNotifyRecordOnThread(first, first, 4));
            let other = common::stream();
            let mut second = 0;
            hccl!(HcclThreadAcquireWithStream(comm, CCU, other, 1, &mut second));
            assert_ne!(second, first);
            // When its stream is destroyed, the thread has no stream to run on any more.
            ok!(aclrtDestroyStream(other));
            let memory = upload(&[0; 8]);
            not_issued!(
                HCCL_E_PARA,
                ["no stream any more"],
                HcommLocalCopyOnThread(second, at(memory, 4), memory, 4)
            );
            rank.sync();
        });
    }
}

#[test]
fn what_is_behind_a_thread_is_a_stream() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let kind = ThreadResType::THREAD_RES_TYPE_STREAM;
            let (comm, mut info) = (rank.comm, null_mut());
            let to = &raw mut info;
            refuses!(HCCL_E_PTR, ["comm"], HcclThreadResGetInfo(null_mut(), thread, kind, 8, to));
            refuses!(HCCL_E_PTR, ["info"], HcclThreadResGetInfo(comm, thread, kind, 8, null_mut()));
            let other = ThreadResType::THREAD_RES_TYPE_INVALID;
            refuses!(
                HCCL_E_NOT_SUPPORT,
                ["resType"],
                HcclThreadResGetInfo(comm, thread, other, 8, to)
            );
            refuses!(HCCL_E_PARA, ["infoLen"], HcclThreadResGetInfo(comm, thread, kind, 4, to));
            refuses!(HCCL_E_NOT_FOUND, ["thread"], HcclThreadResGetInfo(comm, 77, kind, 8, to));
            hccl!(HcclThreadResGetInfo(comm, thread, kind, 8, to));
            let (input, output) = (upload(&[3; 99]), upload(&[0; 99]));
            issue!(HcommLocalCopyOnThread(thread, output, input, 99));
            ok!(aclrtSynchronizeStream(info));
            assert_eq!(common::read(output, 99), [3; 99]);
            let wrapped = stream_thread(rank, 0);
            hccl!(HcclThreadResGetInfo(comm, wrapped, kind, 8, to));
            assert_eq!(info, rank.stream);
        });
    }
}

#[test]
fn threads_outside_of_communicators_are_freed() {
    for product in PRODUCTS {
        let block = common::Block::with(operator::block(product, 1));
        ok!(aclrtSetDevice(block.first));
        let mut two = [0; 2];
        let to = two.as_mut_ptr();
        let notifies = [2, 64];
        let it = notifies.as_ptr();
        not_issued!(HCCL_E_PTR, ["threads"], HcommThreadAlloc(CPU, 2, it, null_mut()));
        not_issued!(HCCL_E_PTR, ["notify"], HcommThreadAlloc(CPU, 2, std::ptr::null(), to));
        not_issued!(HCCL_E_PARA, ["threadNum"], HcommThreadAlloc(CPU, 0, it, to));
        not_issued!(HCCL_E_PARA, ["1000"], HcommThreadAlloc(CPU, 1001, it, to));
        not_issued!(HCCL_E_PARA, ["[1] is 65"], HcommThreadAlloc(CPU, 2, [0, 65].as_ptr(), to));
        not_issued!(HCCL_E_PARA, ["engine"], HcommThreadAlloc(AIV, 2, it, to));
        issue!(HcommThreadAlloc(CPU, 2, it, to));
        let (input, output) = (upload(&[8; 64]), upload(&[0; 64]));
        issue!(HcommThreadNotifyWaitOnThread(two[0], 1, LONG));
        issue!(HcommLocalCopyOnThread(two[0], output, input, 64));
        issue!(HcommThreadNotifyRecordOnThread(two[1], two[0], 1));
        let mut stream = null_mut();
        let kind = ThreadResType::THREAD_RES_TYPE_STREAM;
        issue!(HcommThreadResGetInfo(two[0], kind, 8, &mut stream));
        ok!(aclrtSynchronizeStream(stream));
        assert_eq!(common::read(output, 64), [8; 64]);
        not_issued!(HCCL_E_PTR, ["threads"], HcommThreadFree(std::ptr::null(), 1));
        not_issued!(HCCL_E_PARA, ["0"], HcommThreadFree(two.as_ptr(), 0));
        // The waiting thread gives up when it is freed.
        issue!(HcommThreadNotifyWaitOnThread(two[0], 0, 0));
        issue!(HcommThreadFree(two.as_ptr(), 2));
        not_issued!(HCCL_E_PARA, ["thread"], HcommThreadFree(two.as_ptr(), 1));
        not_issued!(HCCL_E_PARA, ["destroyed"], HcommThreadNotifyWaitOnThread(two[0], 0, 0));
        // The remaining threads end with the device.
        issue!(HcommThreadAlloc(AICPU, 2, it, to));
        ok!(aclrtResetDevice(block.first));
        not_issued!(HCCL_E_PARA, ["thread"], HcommThreadFree(two.as_ptr(), 1));
    }
}

#[test]
fn threads_end_with_their_communicator() {
    for product in PRODUCTS {
        ranks::on_block(operator::block(product, 1), |rank: &mut Rank| {
            rank.join();
            let (own, wrapped) = (threads(rank, CPU_TS, 1, 1)[0], stream_thread(rank, 1));
            issue!(HcommThreadNotifyWaitOnThread(own, 0, 0));
            hccl!(HcclCommDestroy(rank.comm));
            for thread in [own, wrapped] {
                not_issued!(
                    HCCL_E_PARA,
                    ["thread", "destroyed"],
                    HcommThreadNotifyWaitOnThread(thread, 0, 1)
                );
            }
            // The stream belongs to the program, so it still runs.
            rank.sync();
        });
    }
}
