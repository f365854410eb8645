//! The calls to a backend and their order, in cases where the emulator accepts more than CANN.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};

use ascend_sys::{HcclComm, HcclResult, aclrtEventRecordedStatus};

use super::*;

/// The communicators that the table of [`noting_destroyed`] has destroyed.
static DESTROYED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Returns the functions of the emulator. The function that destroys a communicator also notes it.
fn noting_destroyed() -> ascend_sys::Functions {
    unsafe extern "C" fn destroy(comm: HcclComm) -> HcclResult {
        DESTROYED.lock().unwrap().push(comm.addr());
        let real = ascend_emulator::table().HcclCommDestroy.unwrap();
        // SAFETY: the caller's argument is passed on.
        unsafe { real(comm) }
    }
    let mut table = ascend_emulator::table();
    table.HcclCommDestroy = Some(destroy);
    table
}

/// Returns which of these two communicators were destroyed, in the order of destruction. A handle
/// is used only once, so communicators of other tests do not match.
fn destroyed(of: [usize; 2]) -> Vec<usize> {
    let all = DESTROYED.lock().unwrap();
    all.iter().copied().filter(|comm| of.contains(comm)).collect()
}

#[test]
fn a_part_is_destroyed_before_the_whole() {
    let runtime = own(1, noting_destroyed());
    let device = runtime.device(0).unwrap();
    let mut whole = Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap().remove(0);
    let part = whole.split(Some(0), 0).wait().unwrap().unwrap();
    let both = [&part, &whole].map(|comm| comm.as_raw().addr());
    drop(whole);
    // Long enough for everything else that could hold the communicator.
    for _ in 0..50 {
        device.reap();
        assert!(destroyed(both).is_empty(), "the part is alive");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(part);
    eventually("both are destroyed", || {
        device.reap();
        destroyed(both).len() == 2
    });
    assert_eq!(destroyed(both), both);
}

/// The first operation of a communicator runs on a stream of its own, and may continue when the
/// program's stream has been aborted.
#[test]
fn a_communicator_whose_operation_goes_on_after_its_stream_is_aborted_is_destroyed_behind_it() {
    let runtime = own(2, noting_destroyed());
    let devices = [0, 1].map(|index| runtime.device(index).unwrap());
    let [mut here, mut there] =
        <[_; 2]>::try_from(Communicator::init_all(&devices).wait().unwrap())
            .expect("one for each device");
    let [stream, other] = [0, 1].map(|index| devices[index].stream().unwrap());
    let gate = Gate::on(&other);
    let work = here.barrier(&stream).unwrap();
    let others = there.barrier(&other).unwrap();
    eventually("both calls are made", || devices.iter().all(|device| device.linking().is_idle()));
    {
        let _bound = devices[0].bind().unwrap();
        let abort = ascend_emulator::table().aclrtStreamAbort.unwrap();
        // SAFETY: the stream is alive.
        assert_eq!(unsafe { abort(stream.as_raw()) }, 0);
    }
    assert!(work.wait().is_err());
    let both = [&here, &there].map(|comm| comm.as_raw().addr());
    drop((here, stream));
    for _ in 0..50 {
        devices[0].reap();
        assert!(destroyed(both).is_empty(), "its operation waits for the other rank");
        std::thread::sleep(Duration::from_millis(1));
    }
    gate.open();
    let _ = others.wait();
    eventually("it is destroyed", || {
        devices[0].reap();
        destroyed(both).contains(&both[0])
    });
}

/// If the backend does not count tasks, it reports a failure only once, to one of several threads.
#[test]
fn a_failure_that_another_thread_is_being_told_is_not_overlooked() {
    const AICORE_EXCEPTION: c_int = 507_015;
    static ARMED: AtomicBool = AtomicBool::new(false);
    static TOLD: AtomicU32 = AtomicU32::new(0);
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn event(event: *mut c_void, limit: i32) -> c_int {
        let real = ascend_emulator::table().aclrtSynchronizeEventWithTimeout.unwrap();
        // SAFETY: the caller's arguments are passed on.
        let code = unsafe { real(event, limit) };
        if code != 0 || !ARMED.load(SeqCst) || TOLD.fetch_add(1, SeqCst) != 0 {
            return code;
        }
        // The failure has been reported to this call, which has not returned yet.
        while !GOES_ON.load(SeqCst) {
            std::thread::yield_now();
        }
        AICORE_EXCEPTION
    }
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = None;
    table.aclrtSynchronizeEventWithTimeout = Some(event);
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut x = device.zeros::<u8>(8, &stream).unwrap();
    stream.synchronize().unwrap();
    let gate = Gate::on(&stream);
    ARMED.store(true, SeqCst);
    let work = x.fill_zero(&stream).unwrap();
    // A later operation, so that the wait is for a mark instead of the end of the stream.
    let _later = x.fill_zero(&stream).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| work.wait());
        std::thread::sleep(SOON);
        gate.open();
        eventually("somebody is told", || TOLD.load(SeqCst) != 0);
        let too_early = (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            work.is_done()
        });
        GOES_ON.store(true, SeqCst);
        assert!(waits.join().unwrap().is_err());
        assert!(!too_early, "complete before its outcome was known");
    });
    assert!(work.wait().is_err());
}

/// The first operation of a communicator runs on a stream of its own. The program's stream
/// continues when a notify is recorded there. An event after that record may be complete a little
/// later.
#[test]
fn a_failure_is_told_when_the_events_behind_it_are_complete_later_than_what_waited_for_it() {
    /// The time by which events are complete too late.
    const LATE: Duration = Duration::from_millis(100);
    /// The events and the time at which each was recorded.
    static RECORDED: Mutex<Vec<(usize, Instant)>> = Mutex::new(Vec::new());
    /// The number of queries that reported an event as not ready because of [`LATE`].
    static HELD_BACK: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn record(event: *mut c_void, stream: *mut c_void) -> c_int {
        let mut recorded = RECORDED.lock().unwrap();
        recorded.retain(|(known, _)| *known != event.addr());
        recorded.push((event.addr(), Instant::now()));
        drop(recorded);
        let real = ascend_emulator::table().aclrtRecordEvent.unwrap();
        // SAFETY: the caller's arguments are passed on.
        unsafe { real(event, stream) }
    }
    unsafe extern "C" fn query(event: *mut c_void, to: *mut aclrtEventRecordedStatus) -> c_int {
        let recorded = RECORDED.lock().unwrap();
        let known = recorded.iter().find(|(known, _)| *known == event.addr());
        if known.is_some_and(|(_, when)| when.elapsed() < LATE) {
            HELD_BACK.fetch_add(1, SeqCst);
            // SAFETY: the caller's argument is valid for writes.
            unsafe { *to = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY };
            return 0;
        }
        drop(recorded);
        let real = ascend_emulator::table().aclrtQueryEventStatus.unwrap();
        // SAFETY: the caller's arguments are passed on.
        unsafe { real(event, to) }
    }
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = None;
    table.aclrtRecordEvent = Some(record);
    table.aclrtQueryEventStatus = Some(query);
    let runtime = own(2, table);
    let outcomes = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let mut x = rank.device().zeros::<f32>(8 + rank.index() as usize, &stream)?;
        // The ranks disagree about the count.
        Ok::<_, Error>(comm.all_reduce_in_place(&mut x, crate::dtype::Sum, &stream)?.wait())
    });
    for outcome in outcomes.unwrap() {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains('8') && text.contains('9'), "{text}");
    }
    assert_ne!(HELD_BACK.load(SeqCst), 0);
}

/// The next stream of a slot may belong to another device.
#[test]
fn what_was_on_an_earlier_stream_of_a_slot_is_waited_for_by_nobody() {
    on_both(2, |runtime| {
        let [first, second] = [0, 1].map(|index| runtime.device(index).unwrap());
        let waits = first.stream().unwrap();
        let mut others = Vec::new();
        // Many attempts, because other tests take slots too.
        for _ in 0..1000 {
            let stream = first.stream().unwrap();
            let work = stream.host_fn(|| ()).unwrap();
            let event = stream.record().unwrap();
            work.wait().unwrap();
            drop(stream);
            first.reap();
            let other = second.stream().unwrap();
            let is_same = std::ptr::eq(other.slot(), work.slot());
            others.push(other);
            if is_same {
                // The slot now belongs to a stream of the other device, which is busy.
                let gate = Gate::on(&others[others.len() - 1]);
                waits.wait_for(&work).unwrap();
                waits.wait_event(&event).unwrap();
                event.wait().unwrap();
                work.wait().unwrap();
                gate.open();
                return;
            }
        }
        panic!("no slot was used again");
    });
}
