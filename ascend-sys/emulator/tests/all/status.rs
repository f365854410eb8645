//! Tests of the status of communicators: errors, states, callbacks for state changes, suspending,
//! and spare network cards.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::ranks::{
    FP32, Rank, SUM, config, impatient_once_linked, on_block, root_info,
};
use ascend_emulator_testing::{call, hccl, refuses};
use ascend_sys::*;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The right of a test to end communicators of a 950. The callbacks apply to the whole process, so
/// only one test at a time may do so.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn blocks(ranks: u32, product: u32) -> AscendExtBlockConfig {
    AscendExtBlockConfig { deviceCount: ranks, product, ..Block::config() }
}

fn status(name: &str) -> HcclCommStatus {
    let name = CString::new(name).unwrap();
    let mut status = HcclCommStatus(99);
    hccl!(HcclCommGetStatus(name.as_ptr(), &mut status));
    status
}

#[test]
fn a_state_is_asked_for_by_name_on_950() {
    let _turn = turn();
    on_block(blocks(2, 950), |rank| {
        let config = config("state");
        hccl!(HcclCommInitRootInfoConfig(2, &rank.info, rank.rank, &config, &mut rank.comm));
        assert_eq!(status("state"), HcclCommStatus::HCCL_COMM_STATUS_READY);
        let mut unread = HcclCommStatus(0);
        let (name, null) = (c"state".as_ptr(), std::ptr::null());
        refuses!(HCCL_E_PTR, ["commId"], HcclCommGetStatus(null, &mut unread));
        refuses!(HCCL_E_PTR, ["status"], HcclCommGetStatus(name, null_mut()));
        refuses!(HCCL_E_PARA, ["nobody"], HcclCommGetStatus(c"nobody".as_ptr(), &mut unread));
        let comm = rank.comm;
        let mut found = null_mut();
        refuses!(HCCL_E_NOT_SUPPORT, ["by name"], HcclCommGetHandleWithName(name, &mut found));
        let other = c"nobody".as_ptr();
        refuses!(HCCL_E_NOT_SUPPORT, ["by name"], HcclCommGetHandleWithName(other, &mut found));
        let mut error = HcclResult(0);
        refuses!(HCCL_E_NOT_SUPPORT, ["950"], HcclGetCommAsyncError(comm, &mut error));
        refuses!(HCCL_E_NOT_SUPPORT, ["950"], HcclCommSuspend(comm));
        // The counts of the two ranks differ, which ends the communicator.
        let buffer = rank.upload(&[0; 8]);
        let count = 1 + u64::from(rank.rank);
        let (dtype, op) = (HcclDataType(4), HcclReduceOp(0));
        assert_ne!(call!(HcclAllReduce(buffer, buffer, count, dtype, op, comm, rank.stream)).0, 0);
        assert_eq!(status("state"), HcclCommStatus::HCCL_COMM_STATUS_INVALID);
        hccl!(HcclCommDestroy(comm));
    });
    on_block(blocks(1, 3), |rank| {
        rank.join();
        let mut unread = HcclCommStatus(0);
        let name = c"whatever".as_ptr();
        refuses!(HCCL_E_NOT_SUPPORT, ["only Ascend 950"], HcclCommGetStatus(name, &mut unread));
        hccl!(HcclCommDestroy(rank.comm));
    });
}

/// Returns the result of `HcclGetCommAsyncError` on rank 0 after something ended the communicator.
fn async_error(product: u32, end: impl Fn(&mut Rank) + Sync) -> HcclResult {
    let config = AscendExtBlockConfig { product, ..impatient_once_linked(2) };
    let told = on_block(config, |rank| {
        rank.join();
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        let mut error = HcclResult(99);
        hccl!(HcclGetCommAsyncError(rank.comm, &mut error));
        assert_eq!(error, HcclResult::HCCL_SUCCESS);
        end(rank);
        if rank.rank == 0 {
            hccl!(HcclGetCommAsyncError(rank.comm, &mut error));
            hccl!(HcclCommDestroy(rank.comm));
        }
        error
    });
    told[0]
}

fn fails_to_reduce(rank: &Rank, count: u64) {
    let buffer = rank.upload(&[0; 64]);
    if call!(HcclAllReduce(buffer, buffer, count, FP32, SUM, rank.comm, rank.stream)).0 == 0 {
        let _ = rank.sync_fails();
    }
}

#[test]
fn the_asynchronous_error_is_what_two_ranks_found_out_about_each_other() {
    for product in [2, 3] {
        let differ = async_error(product, |rank| fails_to_reduce(rank, 4 + u64::from(rank.rank)));
        assert_eq!(differ, HcclResult::HCCL_E_PARA);
        let gone = async_error(product, |rank| match rank.rank {
            0 => fails_to_reduce(rank, 4),
            _ => hccl!(HcclCommDestroy(rank.comm)),
        });
        assert_eq!(gone, HcclResult::HCCL_E_REMOTE);
        // Only the stream reports that a rank does not call.
        let over = Barrier::new(2);
        let late = async_error(product, |rank| {
            if rank.rank == 0 {
                fails_to_reduce(rank, 4);
            }
            over.wait();
        });
        assert_eq!(late, HcclResult::HCCL_SUCCESS);
    }
}

#[test]
fn suspending_answers_by_the_mode_of_expansion() {
    // Each entry has the product, the mode, and whether the device confirms. A confirmation is
    // reported as `HCCL_E_SUSPENDING`, which means success here.
    let confirms = [(3, 0, true), (3, 2, true), (3, 1, false), (2, 0, false), (2, 2, true)];
    for (product, mode, confirms) in confirms {
        on_block(blocks(1, product), |rank| {
            let mut config = config("");
            config.hcclOpExpansionMode = mode;
            let (info, comm) = (&raw const rank.info, &mut rank.comm);
            hccl!(HcclCommInitRootInfoConfig(1, info, 0, &config, comm));
            let comm = rank.comm;
            let code = call!(HcclCommSuspend(comm));
            let expected =
                if confirms { HcclResult::HCCL_E_SUSPENDING } else { HcclResult::HCCL_SUCCESS };
            assert_eq!(code, expected, "product {product}, mode {mode}");
            refuses!(HCCL_E_SUSPENDING, ["is suspended"], HcclBarrier(comm, rank.stream));
            hccl!(HcclCommResume(comm));
            hccl!(HcclBarrier(comm, rank.stream));
            rank.sync();
            hccl!(HcclCommDestroy(comm));
        });
    }
    refuses!(HCCL_E_PTR, ["comm"], HcclCommSuspend(null_mut()));
    refuses!(HCCL_E_PTR, ["comm"], HcclCommResume(null_mut()));
}

thread_local! {
    /// The calls of the callbacks on this thread: the number with which the callback was
    /// registered, and the phase.
    static SEEN: RefCell<Vec<(usize, i32)>> = const { RefCell::new(Vec::new()) };
    /// Whether this is the thread of the test. The callbacks are called for the whole process, and
    /// must not disturb the communicators of other tests.
    static HEARS: Cell<bool> = const { Cell::new(false) };
}

/// Records the number of the callback and the phase. On the thread of the test, refuses the phase
/// if the number is 100 plus the phase.
unsafe extern "C" fn note(_: HcclComm, phase: HcclCommStatePhase, args: *mut c_void) -> HcclResult {
    SEEN.with_borrow_mut(|seen| seen.push((args.addr(), phase.0)));
    let refuses = HEARS.get() && args.addr() == 100 + phase.0 as usize;
    HcclResult(if refuses { 7 } else { 0 })
}

/// Makes calls that would wait for themselves, and must be refused.
unsafe extern "C" fn come_back(
    comm: HcclComm,
    phase: HcclCommStatePhase,
    _: *mut c_void,
) -> HcclResult {
    if !HEARS.get() {
        return HcclResult(0);
    }
    // In the phase after the end, the communicator does not exist any more, so only this phase
    // tries to resume it.
    if phase == HcclCommStatePhase::HCCL_COMM_STATE_PHASE_DESTROY_PRE {
        refuses!(HCCL_E_UNAVAIL, ["wait for itself"], HcclCommResume(comm));
    }
    let (name, args) = (c"again".as_ptr(), null_mut());
    refuses!(
        HCCL_E_UNAVAIL,
        ["wait for itself"],
        HcclCommRegCommStateCallback(name, Some(note), args)
    );
    HcclResult(0)
}

#[test]
fn callbacks_are_called_around_the_end_and_on_950_around_the_resuming() {
    let _turn = turn();
    HEARS.set(true);
    let block = Block::one_with(blocks(1, 950));
    let register = |name: &str, number: usize| {
        let name = CString::new(name).unwrap();
        let args = std::ptr::without_provenance_mut(number);
        hccl!(HcclCommRegCommStateCallback(name.as_ptr(), Some(note), args));
    };
    let seen = || SEEN.with_borrow_mut(std::mem::take);
    let make = || {
        let (info, mut comm) = (root_info(), null_mut());
        hccl!(HcclCommInitRootInfo(1, &info, 0, &mut comm));
        comm
    };
    register("a", 1);
    register("b", 2);
    // This registration replaces the callback of the same name.
    register("a", 3);
    let comm = make();
    assert_eq!(seen(), []);
    hccl!(HcclCommResume(comm));
    assert_eq!(seen(), [(3, 2), (2, 2), (3, 3), (2, 3)]);
    hccl!(HcclCommDestroy(comm));
    assert_eq!(seen(), [(3, 0), (2, 0), (3, 1), (2, 1)]);

    // If a callback refuses the phase before the end, the call returns the code of the callback and
    // does nothing.
    let comm = make();
    register("a", 100);
    let code = call!(HcclCommDestroy(comm));
    assert_eq!((code.0, seen()), (7, vec![(100, 0)]));
    hccl!(HcclGetRankSize(comm, &mut 0));
    register("a", 102);
    assert_eq!(call!(HcclCommResume(comm)).0, 7);
    assert_eq!(seen(), [(102, 2)]);
    // If a callback refuses the phase after the end, the call has already done its work.
    register("a", 101);
    assert_eq!(call!(HcclCommDestroy(comm)).0, 7);
    refuses!(HCCL_E_PARA, ["communicator"], HcclGetRankSize(comm, &mut 0));
    let _ = seen();

    register("a", 1);
    let comm = make();
    let name = c"c".as_ptr();
    hccl!(HcclCommRegCommStateCallback(name, Some(come_back), null_mut()));
    hccl!(HcclCommDestroy(comm));

    let args = null_mut();
    let null = std::ptr::null();
    refuses!(HCCL_E_PTR, ["regName"], HcclCommRegCommStateCallback(null, Some(note), args));
    refuses!(HCCL_E_PTR, ["cb"], HcclCommRegCommStateCallback(name, None, args));
    let long = CString::new("x".repeat(160)).unwrap();
    for (name, length) in [(c"", "0 bytes"), (&*long, "160 bytes")] {
        refuses!(
            HCCL_E_PARA,
            [length],
            HcclCommRegCommStateCallback(name.as_ptr(), Some(note), args)
        );
    }
    // This callback stays registered, so it must not refuse anything.
    hccl!(HcclCommRegCommStateCallback(name, Some(note), args));
    drop(block);
    // Callbacks can be registered while no device is set, as in the constructor of a library, and
    // while a device of another product is set.
    std::thread::spawn(|| {
        hccl!(HcclCommRegCommStateCallback(c"c".as_ptr(), Some(note), null_mut()));
    })
    .join()
    .unwrap();
    let _a3 = Block::one_with(blocks(1, 3));
    hccl!(HcclCommRegCommStateCallback(name, Some(note), args));
    let _ = seen();
    hccl!(HcclCommDestroy(make()));
    assert_eq!(seen(), [(1, 0), (2, 0), (0, 0), (1, 1), (2, 1), (0, 1)]);
}

#[test]
fn spare_network_cards_are_a_matter_of_a3() {
    let _turn = turn();
    for product in [2, 3, 950] {
        on_block(blocks(1, product), |rank| {
            rank.join();
            let (mut ranks, mut use_backup, comm) = ([0, 1], [true; 2], rank.comm);
            let (list, backup) = (ranks.as_mut_ptr(), use_backup.as_mut_ptr());
            let null = null_mut();
            refuses!(HCCL_E_PTR, ["comm"], HcclCommWorkingDevNicSet(null, list, backup, 1));
            let none = null_mut();
            refuses!(HCCL_E_PTR, ["ranks"], HcclCommWorkingDevNicSet(comm, none, backup, 1));
            let none = null_mut();
            refuses!(HCCL_E_PTR, ["useBackup"], HcclCommWorkingDevNicSet(comm, list, none, 1));
            hccl!(HcclCommWorkingDevNicSet(comm, list, backup, 1));
            if product == 3 {
                refuses!(HCCL_E_PARA, ["rank 1"], HcclCommWorkingDevNicSet(comm, list, backup, 2));
            } else {
                hccl!(HcclCommWorkingDevNicSet(comm, list, backup, 2));
            }
            hccl!(HcclCommDestroy(comm));
        });
    }
}
