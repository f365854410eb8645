//! Properties of the safe interface, on the emulator: with the optional entries, and again without them.
//!
//! A [`Gate`] keeps a stream busy, so that work is really in flight when things are dropped.

mod awaiting;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::runtime::EmulatorOptions;
use crate::*;

const SOON: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(20);

/// Runs a test on a runtime that counts and on one that does not.
fn on_both(devices: usize, test: impl Fn(&Runtime)) {
    for optional in [true, false] {
        let mut table = ascend_emulator::table();
        if !optional {
            table.ascendExtStreamProgress = None;
            table.ascendExtStreamFailure = None;
            table.ascendExtAwaitActivity = None;
        }
        let options = EmulatorOptions::small(devices);
        let runtime = options.start_with(table).unwrap();
        runtime.set_deadline(LONG);
        println!("optional entries: {optional}");
        test(&runtime);
    }
}

/// Keeps a stream busy until it is opened or dropped.
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn on(stream: &Stream) -> Gate {
        let gate = Gate(Arc::default());
        let inner = gate.0.clone();
        stream
            .host_fn(move || {
                let mut open = inner.0.lock().unwrap();
                while !*open {
                    open = inner.1.wait(open).unwrap();
                }
            })
            .unwrap();
        gate
    }

    fn open(self) {}

    fn open_later(self) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            std::thread::sleep(SOON);
            drop(self);
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(start.elapsed() < LONG, "nobody woke the task");
        std::thread::park_timeout(LONG);
    }
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn data_goes_there_and_back() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1.0_f32, 2.0, 3.0], &stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(block_on(x.to_vec(&stream)).unwrap(), [1.0, 2.0, 3.0]);
        let zeros = device.zeros::<u16>(5, &stream).unwrap();
        assert_eq!(zeros.to_vec(&stream).wait().unwrap(), [0; 5]);
        let mut host = runtime.host_buffer::<f32>(3).unwrap();
        x.copy_to(&mut host, &stream).unwrap();
        assert_eq!(host.as_slice().unwrap(), [1.0, 2.0, 3.0]);
        host.as_mut_slice().unwrap()[1] = 7.0;
        let mut y = device.upload(&[0.0_f32; 3], &stream).unwrap();
        y.copy_from_host(&host, &stream).unwrap();
        assert_eq!(y.slice(1..).unwrap().to_vec(&stream).wait().unwrap(), [7.0, 3.0]);
    });
}

#[test]
fn drop_in_flight() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let n = 1 << 20;
        let mut kept = device.zeros::<u8>(n, &stream).unwrap();
        stream.synchronize().unwrap();
        let free = device.memory_info().unwrap().free;

        let gate = Gate::on(&stream);
        let dropped = device.upload(&vec![7_u8; n], &stream).unwrap();
        drop(kept.copy_from(&dropped, &stream).unwrap());
        drop(dropped);
        // Its memory is not given to anybody while the copy is to come.
        for _ in 0..4 {
            drop(device.upload(&vec![9_u8; n], &other).unwrap());
            other.synchronize().unwrap();
        }
        assert!(device.memory_info().unwrap().free <= free - n, "freed in flight");
        gate.open();
        assert!(kept.to_vec(&stream).wait().unwrap().iter().all(|&byte| byte == 7));
        eventually("the memory comes back", || device.memory_info().unwrap().free == free);
    });
}

#[test]
fn dropping_everything_in_flight_gives_the_devices_back() {
    on_both(1, |runtime| {
        let watch = {
            let options = EmulatorOptions::small(1);
            let runtime = options.start_with(*runtime.table().functions()).unwrap();
            let device = runtime.device(0).unwrap();
            let stream = device.stream().unwrap();
            let gate = Gate::on(&stream);
            let x = device.upload(&[1, 2, 3], &stream).unwrap();
            let download = x.to_vec(&stream);
            let watch = runtime.downgrade();
            drop((runtime, x, device, download, stream));
            assert!(watch.upgrade().is_some(), "gone in flight");
            gate.open();
            watch
        };
        eventually("the runtime goes", || watch.upgrade().is_none());
    });
}

#[test]
fn forget_in_flight() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1_i64, 2, 3, 4], &stream).unwrap();
        let mut host = runtime.host_buffer::<i64>(4).unwrap();
        let gate = Gate::on(&stream);
        std::mem::forget(x.copy_to(&mut host, &stream).unwrap());
        std::mem::forget(x.to_vec(&stream));
        std::mem::forget(x);
        let opener = gate.open_later();
        // Not before the copy.
        assert_eq!(host.as_slice().unwrap(), [1, 2, 3, 4]);
        opener.join().unwrap();
        // The host waits for readers too, before it writes.
        let mut y = device.zeros::<i64>(4, &stream).unwrap();
        let opener = Gate::on(&stream).open_later();
        std::mem::forget(y.copy_from_host(&host, &stream).unwrap());
        host.as_mut_slice().unwrap().fill(9);
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [1, 2, 3, 4]);
        opener.join().unwrap();
    });
}

#[test]
fn panic_between_issue_and_wait() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let n = 1 << 16;
        stream.synchronize().unwrap();
        let free = device.memory_info().unwrap().free;
        let gate = Gate::on(&stream);
        let mut sink = device.zeros::<u8>(n, &stream).unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let source = device.upload(&vec![5_u8; n], &stream).unwrap();
            let _work = sink.copy_from(&source, &stream).unwrap();
            panic!("between issue and wait");
        }));
        assert!(panic.is_err());
        gate.open();
        assert!(sink.to_vec(&stream).wait().unwrap().iter().all(|&byte| byte == 5));
        drop(sink);
        eventually("the memory comes back", || device.memory_info().unwrap().free == free);
    });
}

#[test]
fn cancel_a_download() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let x = device.upload(&[1_u32; 64], &stream).unwrap();
        let y = device.upload(&[2_u32; 64], &other).unwrap();
        stream.synchronize().unwrap();
        let gate = Gate::on(&stream);
        {
            let mut download = pin!(x.to_vec(&stream));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(download.as_mut().poll(&mut cx).is_pending());
        }
        // The block of the cancelled download is not handed out while the device is to write to it.
        let second = y.to_vec(&other).wait_timeout(LONG / 2);
        assert_eq!(second.unwrap(), [2_u32; 64]);
        gate.open();
        stream.synchronize().unwrap();
        assert_eq!(block_on(x.to_vec(&stream)).unwrap(), [1_u32; 64]);
    });
}

#[test]
fn buffer_of_another_device_is_refused() {
    on_both(2, |runtime| {
        let (first, second) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let (stream, other) = (first.stream().unwrap(), second.stream().unwrap());
        let gate = Gate::on(&stream);
        let x = first.upload(&[1_i32, 2], &stream).unwrap();
        let mut y = second.zeros::<i32>(2, &other).unwrap();
        let refused = y.copy_from(&x, &other).unwrap_err();
        assert!(
            matches!(refused, Error::WrongDevice { expected: 1, found: 0, what: "source", .. }),
            "{refused}"
        );
        let foreign = Runtime::emulator(1).unwrap().device(0).unwrap();
        let z = foreign.upload(&[1_i32, 2], &foreign.stream().unwrap()).unwrap();
        let refused = y.copy_from(&z, &other).unwrap_err();
        assert!(matches!(refused, Error::WrongRuntime { what: "source", .. }), "{refused}");
        // Nothing moved, and both streams still work.
        assert_eq!(y.to_vec(&other).wait().unwrap(), [0, 0]);
        gate.open();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1, 2]);
    });
}

#[test]
fn nothing_goes_there_and_back() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload::<f32>(&[], &stream).unwrap();
        let zeros = device.zeros::<f32>(0, &stream).unwrap();
        x.copy_from(&zeros, &stream).unwrap().wait().unwrap();
        assert!(x.is_empty() && x.to_vec(&stream).wait().unwrap().is_empty());
        let y = device.upload(&[1_u8, 2, 3], &stream).unwrap();
        assert!(y.slice(1..1).unwrap().to_vec(&stream).wait().unwrap().is_empty());
        let mut host = runtime.host_buffer::<f32>(0).unwrap();
        x.copy_to(&mut host, &stream).unwrap().wait().unwrap();
        assert!(host.as_slice().unwrap().is_empty());
    });
}

#[test]
fn sizes_are_checked_before_anything_moves() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[1_u8, 2, 3], &stream).unwrap();
        assert!(matches!(device.alloc::<f64>(usize::MAX).unwrap_err(), Error::TooLarge { .. }));
        assert!(matches!(x.slice(2..4).unwrap_err(), Error::OutOfRange { length: 3, .. }));
        assert!(matches!(x.slice(..=usize::MAX).unwrap_err(), Error::OutOfRange { .. }));
        assert!(x.split_at_mut(4).is_err() && x.split_at_mut(3).is_ok());
        let wrong = x.upload(&[1, 2], &stream).unwrap_err();
        assert!(matches!(wrong, Error::WrongLength { expected: 3, found: 2, .. }), "{wrong}");
        let wrong = x.to_array((2, 2), &stream).wait().unwrap_err();
        assert!(matches!(wrong, Error::WrongLength { expected: 3, found: 4, .. }), "{wrong}");
        // SAFETY: the pointer is that of a live buffer, used by this stream only.
        let alias = unsafe { DeviceBuffer::<u8>::from_raw(&device, x.as_ptr(), 3) }.unwrap();
        let wrong = x.copy_from(&alias, &stream).unwrap_err();
        assert!(matches!(wrong, Error::Overlap { bytes: 3, .. }), "{wrong}");
        assert!(matches!(runtime.device(1).unwrap_err(), Error::NoSuchDevice { count: 1, .. }));
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_buffer_changes_hands_between_streams() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let mut x = device.upload(&[0_i32; 100], &streams[0]).unwrap();
        for round in 1..5 {
            let (writer, reader) = (&streams[round % 2], &streams[(round + 1) % 2]);
            let value = round as i32;
            // Nothing is in flight, so the writer becomes the stream that uses the buffer over and over.
            streams.iter().for_each(|stream| stream.synchronize().unwrap());
            x.upload(&[-1; 100], writer).unwrap();
            let gate = Gate::on(writer);
            x.upload(&[-2; 100], writer).unwrap();
            x.upload(&[value; 100], writer).unwrap();
            let download = x.to_vec(reader);
            assert!(!download.is_done());
            x.upload(&[-3; 100], writer).unwrap();
            let opener = gate.open_later();
            assert_eq!(download.wait().unwrap(), [value; 100]);
            opener.join().unwrap();
        }
    });
}

#[test]
fn an_operation_waits_for_conflicting_work_of_another_stream() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (writer, reader) = (device.stream().unwrap(), device.stream().unwrap());
        let mut x = device.upload(&[1_i32; 100], &writer).unwrap();
        let gate = Gate::on(&writer);
        x.upload(&[2; 100], &writer).unwrap();
        let download = x.to_vec(&reader);
        assert!(!download.is_done());
        // Nor does a later write overtake the read.
        x.upload(&[3; 100], &writer).unwrap();
        let opener = gate.open_later();
        assert_eq!(download.wait().unwrap(), [2; 100]);
        assert_eq!(x.to_vec(&reader).wait().unwrap(), [3; 100]);
        opener.join().unwrap();
    });
}

#[test]
fn disjoint_slices_do_not_wait_for_one_another() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (busy, free) = (device.stream().unwrap(), device.stream().unwrap());
        let mut x = device.zeros::<i32>(8, &free).unwrap();
        free.synchronize().unwrap();
        let gate = Gate::on(&busy);
        let (mut left, mut right) = x.split_at_mut(4).unwrap();
        let slow = left.upload(&[1; 4], &busy).unwrap();
        let quick = right.upload(&[2; 4], &free).unwrap();
        quick.wait_timeout(LONG / 2).unwrap();
        assert!(!slow.is_done());
        gate.open();
        slow.wait().unwrap();
        assert_eq!(x.to_vec(&free).wait().unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    });
}

#[test]
fn a_failure_that_nobody_awaits_comes_back_from_the_stream() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let panics = || stream.host_fn(|| panic!("on purpose")).unwrap();
        // Awaited: told there, and not again.
        let error = panics().wait().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        stream.synchronize().unwrap();
        // Dropped: the next synchronise tells, or the next operation.
        drop(panics());
        assert!(matches!(stream.synchronize(), Err(Error::HostFunctionPanicked { .. })));
        stream.synchronize().unwrap();
        let work = panics();
        eventually("the panic", || work.is_done());
        drop(work);
        let refused = device.zeros::<u8>(1, &stream).unwrap_err();
        assert!(matches!(refused, Error::HostFunctionPanicked { .. }), "{refused}");
        let _zeros = device.zeros::<u8>(1, &stream).unwrap();
        // Alive: the next operation is not refused, the work tells.
        let work = panics();
        let _zeros = device.zeros::<u8>(1, &stream).unwrap();
        assert!(work.wait().is_err() && work.wait().is_err());
        stream.synchronize().unwrap();
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
            assert!(start.elapsed() < limit + Duration::from_secs(2));
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

#[test]
fn out_of_memory_waits_for_what_was_dropped() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let most = 40 << 20;
        let gate = Gate::on(&stream);
        let big = device.zeros::<u8>(most, &stream).unwrap();
        assert!(matches!(
            device.alloc::<u8>(1 << 40).unwrap_err(),
            Error::OutOfMemory { requested, total, .. } if requested == 1 << 40 && total == 64 << 20
        ));
        drop(big);
        let opener = gate.open_later();
        device.alloc::<u8>(most).unwrap();
        opener.join().unwrap();
    });
}

#[test]
fn tasks_are_woken() {
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
        // More than the timeline remembers one by one.
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
fn a_stream_waits_for_work_and_events() {
    on_both(2, |runtime| {
        let device = runtime.device(0).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = order.clone();
            move || order.lock().unwrap().push(what)
        };
        let gate = Gate::on(&first);
        let work = first.host_fn(note("first")).unwrap();
        second.wait_for(&work).unwrap();
        second.host_fn(note("second")).unwrap();
        first.wait_event(&second.record().unwrap()).unwrap();
        first.host_fn(note("third")).unwrap();
        let elsewhere = runtime.device(1).unwrap().stream().unwrap();
        assert!(matches!(elsewhere.wait_for(&work).unwrap_err(), Error::WrongDevice { .. }));
        gate.open();
        first.synchronize().unwrap();
        assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
        let start = first.record_timed().unwrap();
        first.host_fn(|| std::thread::sleep(SOON)).unwrap();
        let end = first.record_timed().unwrap();
        assert!(start.elapsed_until(&end).unwrap() >= SOON / 2);
    });
}

#[test]
fn the_threads_own_context_is_left_alone() {
    on_both(2, |runtime| {
        let (first, second) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let bound = first.bind().unwrap();
        let stream = second.stream().unwrap();
        let x = second.upload(&[1_u8, 2], &stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1, 2]);
        let current = runtime.table().current_context().unwrap().unwrap();
        assert!(first.state().is_context(current));
        drop(bound);
    });
}

#[test]
fn a_missing_function_is_an_error_with_its_name() {
    let mut table = ascend_emulator::table();
    table.aclrtMemsetAsync = None;
    let runtime = EmulatorOptions::small(1).start_with(table).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let error = device.zeros::<u8>(1, &stream).unwrap_err();
    assert_eq!(error.to_string(), "the backend has no `aclrtMemsetAsync` in fill_zero #1");
    stream.synchronize().unwrap();
}

/// Without the optional entries a failure is known from the code of a synchronise, whichever the wait uses.
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
    let runtime = EmulatorOptions::small(1).start_with(table).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&[1_u8; 8], &stream).unwrap();
    let mut y = device.zeros::<u8>(8, &stream).unwrap();
    stream.synchronize().unwrap();
    let is_it = |error: &Error| {
        assert!(matches!(error, Error::Failed { .. }), "{error}");
        assert!(error.to_string().contains("ACL_ERROR_RT_AICORE_EXCEPTION (507015)"), "{error}");
    };
    // Waited for as the last operation, awaited by a task, and not awaited by anybody.
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
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Runtime>();
    check::<Device>();
    check::<Stream>();
    check::<Event>();
    check::<DeviceBuffer<f32>>();
    check::<HostBuffer<f32>>();
    check::<Work>();
    check::<Download<f32>>();
    check::<Error>();
}
