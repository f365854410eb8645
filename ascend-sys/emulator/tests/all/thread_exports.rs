//! Tests of threads for purposes of the library, and of threads of one engine that another engine
//! uses.

use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::Rank;
use ascend_emulator_testing::{hccl, issue, not_issued, refuses};
use ascend_sys::*;
use std::ptr::{null, null_mut};

const LAUNCH: HcclDedicatedThreadType = HcclDedicatedThreadType::HCCL_DED_THREAD_TYPE_AICPU_LAUNCH;
const LAUNCH_GE: HcclDedicatedThreadType =
    HcclDedicatedThreadType::HCCL_DED_THREAD_TYPE_AICPU_LAUNCH_GE;
/// The purposes of the dedicated threads that order the launches of a device.
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
            // The later call has added notifies, so notify 2 exists, and the thread runs its tasks.
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
fn communicators_of_a_device_share_the_threads_that_order_launches_once_there_are_many() {
    on_product(3, 2, |rank| {
        let orders = || ORDERS.map(HcclDedicatedThreadType);
        let mut device = rank.device;
        let mut made: Vec<HcclComm> = Vec::new();
        // While each communicator has its own block of the AI CPU, launches need no order.
        while made.len() < 5 {
            let mut comm = null_mut();
            hccl!(HcclCommInitAll(1, &mut device, &mut comm));
            made.push(comm);
        }
        assert!(orders().all(|order| dedicated(made[0], order, 1) == 0));
        let mut seventh = null_mut();
        hccl!(HcclCommInitAll(1, &mut device, &mut seventh));
        let threads: std::collections::BTreeSet<_> =
            orders().map(|order| dedicated(seventh, order, 2)).collect();
        assert_eq!(threads.len(), 4);
        assert!(orders().all(|order| threads.contains(&dedicated(rank.comm, order, 1))));
        // Threads of two communicators start the shared thread, and that thread signals a thread of
        // a third communicator.
        let order = dedicated(seventh, HcclDedicatedThreadType(2), 2);
        let [first, second, third] =
            [rank.comm, made[0], seventh].map(|comm| dedicated(comm, LAUNCH, 1));
        let (from, to) = (upload(&[7; 64]), upload(&[0; 64]));
        issue!(HcommThreadNotifyWaitOnThread(third, 0, LONG));
        issue!(HcommThreadNotifyWaitOnThread(order, 0, LONG));
        issue!(HcommThreadNotifyWaitOnThread(order, 1, LONG));
        issue!(HcommLocalCopyOnThread(order, to, from, 64));
        issue!(HcommThreadNotifyRecordOnThread(order, third, 0));
        issue!(HcommThreadNotifyRecordOnThread(first, order, 0));
        issue!(HcommThreadNotifyRecordOnThread(second, order, 1));
        finish(rank);
        assert_eq!(common::read(to, 64), [7; 64]);
        // Threads of two communicators still cannot signal each other.
        not_issued!(
            HCCL_E_PARA,
            ["different ranks"],
            HcommThreadNotifyRecordOnThread(first, second, 0)
        );
        hccl!(HcclCommDestroy(seventh));
        assert_eq!(dedicated(rank.comm, HcclDedicatedThreadType(2), 1), 0, "there are six again");
        // The thread for launches ends with its communicator, and the shared threads end with the
        // device.
        let nothing = upload(&[0; 8]);
        not_issued!(
            HCCL_E_PARA,
            ["thread"],
            HcommLocalCopyOnThread(third, nothing, at(nothing, 4), 4)
        );
        issue!(HcommLocalCopyOnThread(order, nothing, at(nothing, 4), 4));
        finish(rank);
        made.iter().for_each(|comm| hccl!(HcclCommDestroy(*comm)));
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
                ["is 65536"],
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
                    ["cannot be exported to the engine"],
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
                ["is not the handle of any thread"],
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
