//! Tests of the safe interface. On the emulator each test runs twice: with the optional entries and
//! without them. With `HCCL_TEST_RUNTIME=cann` each test runs once, on libraries that are loaded
//! under CANN's names.
//!
//! A [`Gate`] keeps a stream busy, so that work is really in flight when objects are dropped.

mod awaiting;
mod dynamic;
mod edges;
mod failures;
mod handles;
mod host;
mod in_flight;
mod memory;
mod order;
mod protocols;
mod recorded;
mod registered;
mod replays;
mod waiting;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use ascend_sys::Library;

use crate::error::Error;
use crate::runtime::EmulatorOptions;
use crate::*;

const SOON: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(20);

/// The optional entries that the tests need on every table: they create and destroy a block of
/// devices, and set and clear its faults.
const KEPT: [&[u8]; 4] = [
    b"ascendExtBlockCreate",
    b"ascendExtBlockDestroy",
    b"ascendExtFaultSet",
    b"ascendExtFaultClear",
];

/// Returns whether this run uses the runtime of loaded libraries.
pub(crate) fn is_loaded() -> bool {
    std::env::var_os("HCCL_TEST_RUNTIME").is_some_and(|runtime| runtime == "cann")
}

/// Returns the runtime of this run, with at least `devices` devices: small devices of the emulator,
/// or the devices of loaded libraries.
pub(crate) fn runtime_with(devices: usize) -> Runtime {
    if !is_loaded() {
        return own(devices, ascend_emulator::table());
    }
    let runtime = Runtime::cann().unwrap();
    assert!(runtime.device_count() >= devices, "{runtime:?}");
    runtime
}

/// Returns a runtime with small emulated devices of the test's own and a function table that may be
/// changed. A test with this runtime does not run over loaded libraries, and it has a row in
/// `docs/src/design/loaded-suite.md`.
pub(crate) fn own(devices: usize, table: ascend_sys::Functions) -> Runtime {
    is_not_loaded();
    EmulatorOptions::small(devices).start_with(table).unwrap()
}

/// Returns a runtime with emulated devices of the test's own in checked mode.
pub(crate) fn own_checked(devices: usize) -> Runtime {
    is_not_loaded();
    let checked = Runtime::emulator_builder().devices(devices).memory(16 << 20).checked(true);
    checked.build().unwrap()
}

fn is_not_loaded() {
    assert!(
        !is_loaded(),
        "a test that needs emulated devices of its own belongs into the table of the tests that do \
         not run over loaded libraries"
    );
}

/// Runs a test twice on emulated devices: with all optional entries, and with no optional entry
/// except [`KEPT`]. Over loaded libraries, runs the test once.
fn on_both(devices: usize, test: impl Fn(&Runtime)) {
    if is_loaded() {
        let runtime = runtime_with(devices);
        runtime.set_deadline(LONG);
        return test(&runtime);
    }
    for optional in [true, false] {
        let table = ascend_emulator::table().retain(|symbol| {
            let name = symbol.name.to_bytes();
            optional || symbol.library != Library::Extension || KEPT.contains(&name)
        });
        let runtime = own(devices, table);
        runtime.set_deadline(LONG);
        println!("optional entries: {optional}");
        test(&runtime);
    }
}

/// A gate in a stream. It keeps the stream busy until it is opened or dropped.
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
