//! Properties of awaiting: what a waker may do, and what happens when nothing comes.

use super::*;

fn poll_with(work: &mut Work, waker: &Waker) -> Poll<Result<()>> {
    std::pin::Pin::new(work).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_waker_that_panics_does_not_stop_the_others() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, by dropping what a waker panicked with");
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any(Bomb);
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
        // Also what is registered later.
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
fn a_failure_never_turns_into_success() {
    const MANY: usize = 100;
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.zeros::<u8>(4, &stream).unwrap();
        let gate = Gate::on(&stream);
        let before = x.fill_zero(&stream).unwrap();
        let works: Vec<Work> =
            (0..MANY).map(|_| stream.host_fn(|| panic!("on purpose")).unwrap()).collect();
        let after = x.fill_zero(&stream).unwrap();
        gate.open();
        stream.synchronize().unwrap_err();
        for work in &works {
            assert!(work.wait().is_err() && work.wait().is_err());
        }
        before.wait().unwrap();
        after.wait().unwrap();
        let gone = works[0].wait().unwrap_err();
        assert!(matches!(gone, Error::Forgotten { last: Some(_) }), "{gone}");
        assert!(works[MANY - 1].wait().unwrap_err().to_string().contains("on purpose"));
    });
}

/// A backend that has counted more failures than it remembers: all that may be meant count as failed, and nothing else.
#[test]
fn a_failure_that_the_backend_forgot_is_a_failure() {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::SeqCst};

    static FAILED: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());
    unsafe extern "C" fn progress(
        stream: *mut c_void,
        out: *mut *const ascend_sys::AscendExtProgress,
    ) -> c_int {
        let real = ascend_emulator::table().ascendExtStreamProgress.unwrap();
        // SAFETY: the caller's arguments are passed on; what comes back is the line of a stream.
        unsafe {
            let code = real(stream, out);
            FAILED.store((&raw const (**out).failed).cast_mut(), SeqCst);
            code
        }
    }
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = Some(progress);
    let runtime = EmulatorOptions::small(1).start_with(table).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut x = device.zeros::<u8>(4, &stream).unwrap();
    let seen = x.fill_zero(&stream).unwrap();
    seen.wait().unwrap();
    let works: Vec<Work> = (0..3).map(|_| x.fill_zero(&stream).unwrap()).collect();
    eventually("all of it", || works.iter().all(Work::is_done));
    // SAFETY: the line lives as long as the process and is used through atomics.
    unsafe { AtomicU64::from_ptr(FAILED.load(SeqCst)) }.fetch_add(2, SeqCst);
    for work in &works {
        assert!(matches!(work.wait(), Err(Error::Forgotten { last: None })));
    }
    seen.wait().unwrap();
    assert!(matches!(stream.synchronize(), Err(Error::Forgotten { .. })));
    stream.synchronize().unwrap();
    x.fill_zero(&stream).unwrap().wait().unwrap();
    assert!(works[0].wait().is_err());
}

#[test]
fn what_cannot_be_asked_how_it_ended_is_not_called_well() {
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = None;
    table.aclrtSynchronizeEventWithTimeout = None;
    let runtime = EmulatorOptions::small(1).start_with(table).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let error = block_on(stream.host_fn(|| ()).unwrap()).unwrap_err();
    assert!(matches!(error, Error::MissingSymbol { .. }), "{error}");
}
