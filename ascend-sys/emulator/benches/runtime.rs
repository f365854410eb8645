//! Measures the runtime's own part of an operation in nanoseconds, by raw calls through the table
//! on one thread.
//!
//! `cargo bench -p ascend-emulator --bench runtime`

use ascend_sys::*;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn main() {
    let table = ascend_emulator::table();
    macro_rules! call {
        ($name:ident($($argument:expr),* $(,)?)) => {{
            let function = black_box(table.$name.expect(stringify!($name)));
            // SAFETY: the arguments keep to the C contract.
            let code = unsafe { function($($argument),*) };
            assert_eq!(code, 0, stringify!($name));
        }};
    }
    call!(aclrtSetDevice(0));
    let (mut stream, mut event, mut a, mut b) = (null_mut(), null_mut(), null_mut(), null_mut());
    call!(aclrtCreateStream(&mut stream));
    call!(aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC));
    let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
    call!(aclrtMalloc(&mut a, 1 << 20, policy));
    call!(aclrtMalloc(&mut b, 1 << 20, policy));
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;

    report("aclrtMemcpyAsync, 8 bytes", || call!(aclrtMemcpyAsync(b, 8, a, 8, kind, stream)));
    report("aclrtSynchronizeStream, idle", || call!(aclrtSynchronizeStream(stream)));
    report("both", || {
        call!(aclrtMemcpyAsync(b, 8, a, 8, kind, stream));
        call!(aclrtSynchronizeStream(stream));
    });
    report("aclrtMemsetAsync, 8 bytes", || call!(aclrtMemsetAsync(b, 8, 1, 8, stream)));
    report("aclrtRecordEvent", || call!(aclrtRecordEvent(event, stream)));
    report("aclrtStreamWaitEvent, complete", || call!(aclrtStreamWaitEvent(stream, event)));
    let mut status = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
    report("aclrtQueryEventStatus", || call!(aclrtQueryEventStatus(event, &mut status)));
    report("aclrtSetDevice, set already", || call!(aclrtSetDevice(0)));
    report("aclrtMemcpyAsync, 4 KiB", || call!(aclrtMemcpyAsync(b, 4096, a, 4096, kind, stream)));
    report("aclrtMemcpyAsync, 1 MiB, and synchronise", || {
        call!(aclrtMemcpyAsync(b, 1 << 20, a, 1 << 20, kind, stream));
        call!(aclrtSynchronizeStream(stream));
    });

    // Twenty tasks are issued one by one, and as a graph.
    let copy_twenty = |stream| {
        for _ in 0..20 {
            call!(aclrtMemcpyAsync(b, 64, a, 64, kind, stream));
        }
    };
    let (mut captured, mut graph) = (null_mut(), null_mut());
    call!(aclrtCreateStream(&mut captured));
    call!(aclmdlRICaptureBegin(captured, aclmdlRICaptureMode(2)));
    copy_twenty(captured);
    call!(aclmdlRICaptureEnd(captured, &mut graph));
    report("20 x aclrtMemcpyAsync, 64 bytes", || copy_twenty(stream));
    report("the same as one aclmdlRIExecuteAsync", || call!(aclmdlRIExecuteAsync(graph, stream)));

    let mut progress = std::ptr::null();
    call!(ascendExtStreamProgress(stream, &mut progress));
    if progress.is_null() {
        // Devices in checked mode have no counters.
        return;
    }

    // No call waits for this work: the thread sleeps until both streams are complete.
    const BIG: usize = 128 << 20;
    let jobs = [(); 2].map(|()| {
        let (mut stream, mut from, mut to) = (null_mut(), null_mut(), null_mut());
        call!(aclrtCreateStream(&mut stream));
        call!(aclrtMalloc(&mut from, BIG, policy));
        call!(aclrtMalloc(&mut to, BIG, policy));
        (stream, from, to)
    });
    let mut best = f64::INFINITY;
    for _ in 0..50 {
        let start = Instant::now();
        for (stream, from, to) in jobs {
            call!(aclrtMemcpyAsync(to, BIG, from, BIG, kind, stream));
        }
        for (stream, ..) in jobs {
            let mut progress = std::ptr::null();
            call!(ascendExtStreamProgress(stream, &mut progress));
            // SAFETY: the counters live as long as the stream, and only atomic stores change them.
            let word = |counter: *const u64| unsafe {
                AtomicU64::from_ptr(counter.cast_mut()).load(Ordering::Acquire)
            };
            // SAFETY: as above.
            let (submitted, completed) =
                unsafe { (&raw const (*progress).submitted, &raw const (*progress).completed) };
            while word(completed) < word(submitted) {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    println!("{:<44} {best:>10.1} ns", "two copies of 128 MiB, nobody waits");
}

/// Prints the best of several rounds, because the machine may be busy with other work.
fn report(name: &str, mut operation: impl FnMut()) {
    const CALLS: u32 = 1000;
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..CALLS {
            operation();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    println!("{name:<44} {best:>10.1} ns");
}
