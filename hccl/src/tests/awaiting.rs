//! Tests of waiting for operations and awaiting them: the events that wake a task, the code that a
//! waker may run, and deadlines.

use super::*;

fn poll_with(work: &mut Work, waker: &Waker) -> Poll<Result<()>> {
    std::pin::Pin::new(work).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_waker_that_panics_does_not_stop_the_others() {
    struct WakerPayload;
    impl Drop for WakerPayload {
        fn drop(&mut self) {
            panic!("on purpose, by dropping what a waker panicked with");
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any(WakerPayload);
        }
    }
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[1_u8; 4], &stream).unwrap();
        let gate = Gate::on(&stream);
        let mut bad = x.upload(&[2; 4], &stream).unwrap();
        let download = x.to_vec(&stream);
        assert!(poll_with(&mut bad, &Waker::from(Arc::new(Panics))).is_pending());
        let opener = gate.open_later();
        assert_eq!(block_on(download).unwrap(), [2; 4]);
        opener.join().unwrap();
        // A task that is registered later is woken too.
        let gate = Gate::on(&stream);
        let download = x.to_vec(&stream);
        let opener = gate.open_later();
        assert_eq!(block_on(download).unwrap(), [2; 4]);
        opener.join().unwrap();
        bad.wait().unwrap();
    });
}

#[test]
fn a_waker_that_is_replaced_may_own_a_work() {
    struct Task {
        _work: Mutex<Work>,
    }
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    on_both(1, |runtime| {
        let (done, is_done) = std::sync::mpsc::channel();
        let device = runtime.device(0).unwrap();
        let thread = std::thread::spawn(move || {
            let stream = device.stream().unwrap();
            let mut x = device.zeros::<u8>(4, &stream).unwrap();
            let _gate = Gate::on(&stream);
            let mut outer = x.fill_zero(&stream).unwrap();
            let mut inner = x.fill_zero(&stream).unwrap();
            assert!(poll_with(&mut inner, Waker::noop()).is_pending());
            // The reactor holds the only handle of the task, which owns a registered work.
            let task = Waker::from(Arc::new(Task { _work: Mutex::new(inner) }));
            assert!(poll_with(&mut outer, &task).is_pending());
            drop(task);
            assert!(poll_with(&mut outer, Waker::noop()).is_pending());
            done.send(()).unwrap();
        });
        is_done.recv_timeout(LONG).expect("replacing a waker does not end");
        thread.join().unwrap();
    });
}

#[test]
fn every_task_is_woken_when_its_operation_is_complete() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        std::thread::scope(|scope| {
            for value in 0..4_i32 {
                let device = &device;
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    let x = device.upload(&[value; 32], &stream).unwrap();
                    for _ in 0..50 {
                        let opener = Gate::on(&stream);
                        let download = x.to_vec(&stream);
                        std::thread::spawn(move || opener.open());
                        assert_eq!(block_on(download).unwrap(), [value; 32]);
                    }
                });
            }
        });
    });
}

#[test]
fn work_completes_with_its_own_operation_not_with_a_later_one() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.zeros::<u8>(64, &stream).unwrap();
        let work = x.fill_zero(&stream).unwrap();
        let gate = Gate::on(&stream);
        work.wait_timeout(LONG / 2).unwrap();
        let event = stream.record().unwrap();
        assert!(!event.is_done());
        gate.open();
        event.wait().unwrap();
    });
}

#[test]
fn work_is_known_complete_behind_a_long_queue() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[3_u8; 64], &stream).unwrap();
        let first = Gate::on(&stream);
        let (waited, awaited) = (x.to_vec(&stream), x.to_vec(&stream));
        let second = Gate::on(&stream);
        // More operations than the timeline keeps one by one.
        for _ in 0..100 {
            x.fill_zero(&stream).unwrap();
        }
        first.open();
        assert_eq!(waited.wait_timeout(LONG / 2).unwrap(), [3; 64]);
        assert_eq!(block_on(awaited).unwrap(), [3; 64]);
        second.open();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [0; 64]);
    });
}

#[test]
fn a_wait_has_a_deadline_and_can_be_repeated() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut host = runtime.host_buffer::<u8>(4).unwrap();
        let x = device.upload(&[1_u8; 4], &stream).unwrap();
        let gate = Gate::on(&stream);
        let work = x.copy_to(&mut host, &stream).unwrap();
        for limit in [Duration::ZERO, Duration::from_micros(100), Duration::from_millis(20)] {
            let start = Instant::now();
            let error = work.wait_timeout(limit).unwrap_err();
            assert!(error.is_timeout() && error.to_string().contains("copy_to"), "{error}");
            assert!((limit..LONG / 2).contains(&start.elapsed()));
        }
        runtime.set_deadline(Duration::from_millis(10));
        assert!(host.as_slice().unwrap_err().is_timeout());
        assert!(stream.synchronize().unwrap_err().is_timeout());
        runtime.set_deadline(LONG);
        gate.open();
        work.wait().unwrap();
        assert_eq!(host.as_slice().unwrap(), [1; 4]);
    });
}

/// The backend has no progress lines. An event is complete, but the first waits for it time out.
#[test]
fn what_does_not_say_in_time_how_it_ended_is_asked_again() {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    static TIMEOUTS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn event(event: *mut c_void, limit: i32) -> c_int {
        if TIMEOUTS.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return ascend_sys::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
        }
        let real = ascend_emulator::table().aclrtSynchronizeEventWithTimeout.unwrap();
        // SAFETY: the caller's arguments are passed on.
        unsafe { real(event, limit) }
    }
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = None;
    table.aclrtSynchronizeEventWithTimeout = Some(event);
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut x = device.zeros::<u8>(4, &stream).unwrap();
    stream.synchronize().unwrap();
    let work = x.fill_zero(&stream).unwrap();
    TIMEOUTS.store(3, SeqCst);
    for _ in 0..3 {
        assert!(!work.is_done(), "complete before its outcome is known");
    }
    eventually("the end", || work.is_done());
    assert_eq!(TIMEOUTS.load(SeqCst), 0);
    work.wait().unwrap();
}

/// The operation completes while its waker is being registered, which is after the first check.
#[test]
fn what_completes_while_it_is_registered_is_seen_by_the_second_look() {
    use std::cell::RefCell;
    use std::task::{RawWaker, RawWakerVTable};
    thread_local!(static AT_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default());
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| {
            if let Some(at_clone) = AT_CLONE.take() {
                at_clone();
            }
            RawWaker::new(std::ptr::null(), &VTABLE)
        },
        |_| (),
        |_| (),
        |_| (),
    );
    on_both(1, |runtime| {
        let stream = runtime.device(0).unwrap().stream().unwrap();
        let gate = Gate::on(&stream);
        let mut work = stream.host_fn(|| ()).unwrap();
        let done = stream.record().unwrap();
        AT_CLONE.set(Some(Box::new(move || {
            drop(gate);
            eventually("the operation", || done.is_done());
        })));
        // SAFETY: the functions use no data, so they are safe with any.
        let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
        assert!(matches!(poll_with(&mut work, &waker), Poll::Ready(Ok(()))));
    });
}

#[test]
fn what_was_taken_from_a_pending_is_an_error_the_second_time() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let build = || crate::comm::Communicator::init_all(std::slice::from_ref(&device));
        let taken = |outcome: Result<Vec<crate::comm::Communicator>>| {
            let error = outcome.map(drop).unwrap_err().to_string();
            assert!(error.contains("already taken by an earlier await"), "{error}");
        };
        let mut pending = build();
        block_on(&mut pending).unwrap();
        assert!(pending.is_done());
        taken(block_on(&mut pending));
        taken(pending.wait());
        let mut pending = build();
        block_on(&mut pending).unwrap();
        taken(pending.wait_timeout(Duration::ZERO).unwrap());
    });
}
