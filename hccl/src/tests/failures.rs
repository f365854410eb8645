//! Failures: each is reported to the task that awaits it, or once to a later call, and it never
//! turns into success.

use super::*;

#[test]
fn a_failure_that_nobody_awaits_comes_back_from_the_stream() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let panics = || stream.host_fn(|| panic!("on purpose")).unwrap();
        // Awaited: the wait returns the failure, and no later call does.
        let error = panics().wait().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        stream.synchronize().unwrap();
        // Dropped: the next synchronise or the next operation returns the failure.
        drop(panics());
        assert!(matches!(stream.synchronize(), Err(Error::HostFunctionPanicked { .. })));
        stream.synchronize().unwrap();
        let work = panics();
        eventually("the panic", || work.is_done());
        drop(work);
        let refused = device.zeros::<u8>(1, &stream).unwrap_err();
        assert!(matches!(refused, Error::HostFunctionPanicked { .. }), "{refused}");
        let _zeros = device.zeros::<u8>(1, &stream).unwrap();
        // Alive: the next operation is not refused, and the `Work` returns the failure.
        let work = panics();
        let _zeros = device.zeros::<u8>(1, &stream).unwrap();
        assert!(work.wait().is_err() && work.wait().is_err());
        stream.synchronize().unwrap();
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

/// The backend has counted more failures than it remembers. Exactly the operations that may have
/// failed count as failed.
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
        // SAFETY: the caller's arguments are passed on. The returned pointer is that of the line of
        // a stream.
        unsafe {
            let code = real(stream, out);
            FAILED.store((&raw const (**out).failed).cast_mut(), SeqCst);
            code
        }
    }
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = Some(progress);
    let runtime = own(1, table);
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

/// Without the optional entries, the result code of a synchronisation shows a failure. A wait may
/// synchronise the stream or an event.
#[test]
fn a_failure_is_known_from_synchronising() {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    const AICORE_EXCEPTION: c_int = 507_015;
    static ARMED: AtomicBool = AtomicBool::new(false);
    fn once(code: c_int) -> c_int {
        if code == 0 && ARMED.swap(false, SeqCst) { AICORE_EXCEPTION } else { code }
    }
    unsafe extern "C" fn stream(stream: *mut c_void, limit: i32) -> c_int {
        let real = ascend_emulator::table().aclrtSynchronizeStreamWithTimeout.unwrap();
        // SAFETY: the caller's arguments are passed on.
        once(unsafe { real(stream, limit) })
    }
    unsafe extern "C" fn event(event: *mut c_void, limit: i32) -> c_int {
        let real = ascend_emulator::table().aclrtSynchronizeEventWithTimeout.unwrap();
        // SAFETY: the caller's arguments are passed on.
        once(unsafe { real(event, limit) })
    }
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = None;
    table.aclrtSynchronizeStreamWithTimeout = Some(stream);
    table.aclrtSynchronizeEventWithTimeout = Some(event);
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&[1_u8; 8], &stream).unwrap();
    let mut y = device.zeros::<u8>(8, &stream).unwrap();
    stream.synchronize().unwrap();
    let is_it = |error: &Error| {
        assert!(matches!(error, Error::Failed { .. }), "{error}");
        assert!(error.to_string().contains("ACL_ERROR_RT_AICORE_EXCEPTION (507015)"), "{error}");
    };
    // The first operation is waited for as the last one, the second is awaited by a task, and the
    // third is dropped.
    ARMED.store(true, SeqCst);
    is_it(&y.copy_from(&x, &stream).unwrap().wait().unwrap_err());
    ARMED.store(true, SeqCst);
    is_it(&block_on(y.copy_from(&x, &stream).unwrap()).unwrap_err());
    ARMED.store(true, SeqCst);
    drop(y.copy_from(&x, &stream).unwrap());
    is_it(&stream.synchronize().unwrap_err());
    stream.synchronize().unwrap();
    assert_eq!(y.to_vec(&stream).wait().unwrap(), [1; 8]);
}

#[test]
fn what_cannot_be_asked_how_it_ended_is_not_called_well() {
    let mut table = ascend_emulator::table();
    table.ascendExtStreamProgress = None;
    table.aclrtSynchronizeEventWithTimeout = None;
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let error = block_on(stream.host_fn(|| ()).unwrap()).unwrap_err();
    assert!(matches!(error, Error::MissingSymbol { .. }), "{error}");
}

#[test]
fn a_missing_function_is_an_error_with_its_name() {
    let mut table = ascend_emulator::table();
    table.aclrtMemsetAsync = None;
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let free = device.memory_info().unwrap().free;
    let error = device.zeros::<u8>(1 << 20, &stream).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the backend has no `aclrtMemsetAsync` [fill_zero #1]\n  \
         aclrtMemsetAsync: in libacl_rt.so or libascendcl.so since CANN 8.5.0\n  \
         looked in the emulator\n\
         Install a release of CANN that has it."
    );
    // The refused operation uses nothing any more.
    eventually("the memory comes back", || device.memory_info().unwrap().free == free);
    stream.synchronize().unwrap();
}

/// The other rank waits here for work that the backend does not end when a rank is lost.
#[test]
fn a_wait_ends_when_another_rank_has_failed() {
    on_both(2, |runtime| {
        let failed = runtime.run_ranks(2, |rank| -> Result<()> {
            let stream = rank.device().stream()?;
            if rank.index() == 1 {
                return rank.device().alloc::<u64>(usize::MAX).map(drop);
            }
            let _gate = Gate::on(&stream);
            let ended = stream.host_fn(|| ())?.wait().unwrap_err();
            assert!(!ended.is_timeout() && ended.to_string().contains("rank 1"), "{ended}");
            Err(ended)
        });
        let text = failed.unwrap_err().to_string();
        assert!(text.contains("rank 1"), "{text}");
    });
}

#[test]
fn an_error_that_nobody_asked_for_is_a_warning_when_its_stream_goes() {
    on_both(1, |runtime| {
        let stream = runtime.device(0).unwrap().stream().unwrap();
        let done = stream.host_fn(|| panic!("on purpose, and nobody asks")).unwrap();
        eventually("the closure", || done.is_done());
        drop(done);
        let warnings = waiting::Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || drop(stream));
        let warnings = warnings.0.lock().unwrap();
        assert!(warnings.iter().any(|said| said.contains("nobody asks")), "{warnings:?}");
    });
}

/// Makes several streams one after the other, so that slots are used again.
#[test]
fn a_work_outlives_its_stream_and_says_how_it_ended() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let streams = (0..4).map(|round| {
            let stream = device.stream().unwrap();
            let well = stream.host_fn(|| ()).unwrap();
            let failed = stream.host_fn(move || panic!("round {round}")).unwrap();
            let seen = stream.host_fn(|| ()).unwrap();
            seen.wait().unwrap();
            // The stream counts only its own operations, even if its slot was used before.
            assert!(format!("{stream:?}").contains("3 operations"), "{stream:?}");
            (stream, well, failed, seen)
        });
        let works: Vec<_> = streams.map(|(_, well, failed, seen)| [well, failed, seen]).collect();
        let stream = device.stream().unwrap();
        for (round, [well, failed, seen]) in works.into_iter().enumerate() {
            assert!(well.is_done() && failed.is_done() && seen.is_done());
            seen.wait().unwrap();
            block_on(well).unwrap();
            for _ in 0..2 {
                let error = failed.wait().unwrap_err().to_string();
                assert!(error.contains(&format!("round {round}")), "{error}");
            }
            // To wait for a complete operation does nothing, even if another stream has its slot.
            stream.wait_for(&failed).unwrap();
        }
        stream.synchronize().unwrap();
        let mut x = device.zeros::<u8>(4, &stream).unwrap();
        x.fill_zero(&stream).unwrap().wait().unwrap();
    });
}

/// If a backend does not report which operation has failed, each operation that was not known to be
/// complete may have failed.
#[test]
fn a_failure_of_a_stream_is_one_of_all_its_unfinished_operations() {
    on_both(2, |runtime| {
        let run = runtime.run_ranks(2, |rank| -> Result<()> {
            let (device, stream) = (rank.device(), rank.device().stream()?);
            let mut comm = rank.communicator()?;
            comm.connect().wait()?;
            let mut x = device.zeros::<i32>(10 + rank.index() as usize, &stream)?;
            let mut y = device.zeros::<u8>(1, &stream)?;
            stream.synchronize()?;
            // The ranks disagree about the count.
            let differs = comm.all_reduce_in_place(&mut x, crate::dtype::Sum, &stream)?;
            let last = y.fill_zero(&stream)?;
            drop(stream.synchronize());
            assert!(differs.wait().is_err());
            drop(last.wait());
            Ok(())
        });
        run.unwrap();
    });
}
