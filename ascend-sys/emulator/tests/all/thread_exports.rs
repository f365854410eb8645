//! Threads for purposes of the library, and threads of one engine in the hands of another.

use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::Rank;
use ascend_emulator_testing::{hccl, issue, not_issued, refuses};
use ascend_sys::*;
use std::ptr::{null, null_mut};

const LAUNCH: HcclDedicatedThreadType = HcclDedicatedThreadType::HCCL_DED_THREAD_TYPE_AICPU_LAUNCH;
const LAUNCH_GE: HcclDedicatedThreadType =
    HcclDedicatedThreadType::HCCL_DED_THREAD_TYPE_AICPU_LAUNCH_GE;
/// Those that put the launches of a device in order.
const ORDERS: std::ops::RangeInclusive<i32> = 2..=5;

fn dedicated(comm: HcclComm, purpose: HcclDedicatedThreadType, notifies: u32) -> ThreadHandle {
    let mut thread = 77;
    hccl!(HcclDedicatedThreadAcquire(comm, purpose, notifies, &mut thread));
    thread
}

#[test]
fn a_dedicated_thread_is_made_once_for_its_purpose() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let comm = rank.comm;
            let launch = dedicated(comm, LAUNCH, 1);
            assert_ne!(launch, 0);
            assert_eq!(dedicated(comm, LAUNCH, 3), launch);
            assert_eq!(dedicated(comm, LAUNCH_GE, 1), 0);
            let orders = ORDERS.map(|order| dedicated(comm, HcclDedicatedThreadType(order), 1));
            let orders: std::collections::BTreeSet<_> = orders.chain([launch]).collect();
            assert_eq!(orders.len(), 5);
            // The later calls have added notifies, and it runs what it is given.
            let own = threads(rank, CPU_TS, 1, 0)[0];
            let (from, to) = (upload(&[5; 64]), upload(&[0; 64]));
            issue!(HcommThreadNotifyWaitOnThread(launch, 2, LONG));
            issue!(HcommLocalCopyOnThread(launch, to, from, 64));
            issue!(HcommThreadNotifyRecordOnThread(own, launch, 2));
            finish(rank);
            assert_eq!(common::read(to, 64), [5; 64]);
        });
    }
}

#[test]
fn communicators_of_a_device_share_the_threads_that_order_launches() {
    on_product(3, 2, |rank| {
        let (mut device, mut second) = (rank.device, null_mut());
        hccl!(HcclCommInitAll(1, &mut device, &mut second));
        for order in ORDERS.map(HcclDedicatedThreadType) {
            let first = dedicated(rank.comm, order, 1);
            assert_eq!(dedicated(second, order, 1), first);
        }
        let own = dedicated(second, LAUNCH, 1);
        assert_ne!(dedicated(rank.comm, LAUNCH, 1), own);
        let order = dedicated(second, HcclDedicatedThreadType(2), 1);
        hccl!(HcclCommDestroy(second));
        // The one ends with its communicator, the others with the device.
        let to = upload(&[0; 8]);
        not_issued!(HCCL_E_PARA, ["thread"], HcommLocalCopyOnThread(own, to, at(to, 4), 4));
        issue!(HcommLocalCopyOnThread(order, to, at(to, 4), 4));
        finish(rank);
    });
}

#[test]
fn wrong_purposes_are_refused() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let (comm, mut thread) = (rank.comm, 77);
            let wrong = HcclDedicatedThreadType;
            let to = &raw mut thread;
            refuses!(HCCL_E_PARA, ["useType"], HcclDedicatedThreadAcquire(comm, wrong(-1), 1, to));
            for other in [6, -2] {
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    ["not the number of a purpose"],
                    HcclDedicatedThreadAcquire(comm, wrong(other), 1, to)
                );
            }
            refuses!(
                HCCL_E_PARA,
                ["65536 notifies"],
                HcclDedicatedThreadAcquire(comm, LAUNCH, 65_536, to)
            );
            refuses!(HCCL_E_PTR, ["comm"], HcclDedicatedThreadAcquire(null_mut(), LAUNCH, 1, to));
            refuses!(
                HCCL_E_PTR,
                ["thread"],
                HcclDedicatedThreadAcquire(comm, LAUNCH, 1, null_mut())
            );
            assert_eq!(thread, 77);
        });
    }
}

fn export(rank: &Rank, threads: &[ThreadHandle], to: CommEngine) -> Vec<ThreadHandle> {
    let mut exported = vec![0; threads.len()];
    let count = threads.len() as u32;
    let (from, out) = (threads.as_ptr(), exported.as_mut_ptr());
    hccl!(HcclThreadExportToCommEngine(rank.comm, count, from, to, out));
    exported
}

#[test]
fn an_exported_thread_is_the_same_thread() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let host = [stream_thread(rank, 1), threads(rank, CPU_TS, 1, 1)[0]];
            let on_device = export(rank, &host, AICPU_TS);
            assert_eq!(on_device, host);
            assert_eq!(export(rank, &host, AICPU), on_device);
            let main = threads(rank, AICPU_TS, 40, 1);
            let on_host = export(rank, &main, CPU_TS);
            assert_eq!(export(rank, &main, CPU), on_host);
            // The host starts the main thread and waits for its end.
            let (from, to) = (upload(&[3; 64]), upload(&[0; 64]));
            issue!(HcommThreadNotifyRecordOnThread(host[0], on_host[0], 0));
            issue!(HcommThreadNotifyWaitOnThread(host[0], 0, LONG));
            in_batch(|| {
                issue!(HcommThreadNotifyWaitOnThread(main[0], 0, LONG));
                issue!(HcommLocalCopyOnThread(main[0], to, from, 64));
                issue!(HcommThreadNotifyRecordOnThread(main[0], on_device[0], 0));
            });
            rank.sync();
            assert_eq!(common::read(to, 64), [3; 64]);
        });
    }
}

#[test]
fn threads_that_cannot_be_exported_are_refused() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let (comm, mut out) = (rank.comm, [77; 41]);
            let host = vec![stream_thread(rank, 1); 41];
            let (from, to) = (host.as_ptr(), out.as_mut_ptr());
            let none = null_mut();
            refuses!(HCCL_E_PTR, ["comm"], HcclThreadExportToCommEngine(none, 1, from, AICPU, to));
            refuses!(
                HCCL_E_PTR,
                ["threads"],
                HcclThreadExportToCommEngine(comm, 1, null(), AICPU, to)
            );
            refuses!(
                HCCL_E_PTR,
                ["exportedThreads"],
                HcclThreadExportToCommEngine(comm, 1, from, AICPU, null_mut())
            );
            for count in [0, 41] {
                refuses!(
                    HCCL_E_PARA,
                    ["threadNum", "1 to 40"],
                    HcclThreadExportToCommEngine(comm, count, from, AICPU, to)
                );
            }
            for engine in [AIV, CCU, CommEngine(-1), CommEngine(6)] {
                refuses!(
                    HCCL_E_PARA,
                    ["not exported to the engine"],
                    HcclThreadExportToCommEngine(comm, 1, from, engine, to)
                );
            }
            refuses!(
                HCCL_E_PARA,
                ["only threads of the engine AICPU"],
                HcclThreadExportToCommEngine(comm, 1, from, CPU_TS, to)
            );
            let stale = [0x1234];
            refuses!(
                HCCL_E_PARA,
                ["no thread"],
                HcclThreadExportToCommEngine(comm, 1, stale.as_ptr(), AICPU, to)
            );
            let (mut device, mut other) = (rank.device, null_mut());
            hccl!(HcclCommInitAll(1, &mut device, &mut other));
            refuses!(
                HCCL_E_PARA,
                ["not of rank 0 of communicator"],
                HcclThreadExportToCommEngine(other, 1, from, AICPU, to)
            );
            hccl!(HcclCommDestroy(other));
            assert_eq!(out, [77; 41]);
        });
    }
}
