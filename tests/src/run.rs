//! The runtime of this run, for tests that any runtime suits.
//!
//! `HCCL_TEST_RUNTIME` chooses it. If the variable is unset, it is the emulator in this process,
//! and each test has its own devices. If it is `cann`, it is [`Runtime::cann`]: the libraries at
//! `ASCEND_HOME_PATH` or on the loader's path, with all their devices, which all tests share. The
//! test program `loaded` runs the suite in this way, over the emulator's libraries with CANN's
//! names.

use std::sync::OnceLock;
use std::time::Duration;

use ascend_sys::{Api, Library};
use hccl::runtime::EmulatorOptionsBuilder;
use hccl::{Product, Runtime};

/// The variable that chooses the runtime of a run.
pub const RUNTIME: &str = "HCCL_TEST_RUNTIME";

/// Returns whether the runtime of this run is that of loaded libraries.
///
/// # Panics
///
/// If the variable is neither unset nor `cann`.
pub fn is_loaded() -> bool {
    static LOADED: OnceLock<bool> = OnceLock::new();
    *LOADED.get_or_init(|| match std::env::var(RUNTIME).as_deref() {
        Err(_) => false,
        Ok("cann") => true,
        Ok(other) => panic!("{RUNTIME}={other}: `cann` is expected, or nothing"),
    })
}

/// Returns the runtime of this run, with at least this number of devices.
///
/// # Panics
///
/// If the runtime does not start, or has fewer devices.
pub fn runtime_with(devices: usize) -> Runtime {
    Devices::new(devices).runtime()
}

/// The devices that a test needs. Emulated devices are made with these properties. The devices of
/// loaded libraries have their own properties.
pub struct Devices {
    count: usize,
    memory: Option<u64>,
    product: Option<Product>,
}

impl Devices {
    /// Requests `count` devices or more.
    pub fn new(count: usize) -> Devices {
        Devices { count, memory: None, product: None }
    }

    /// Sets the memory of each emulated device, in bytes.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Devices {
        Devices { memory: Some(bytes), ..self }
    }

    /// Sets the product that the devices must have: one of [`products`].
    #[must_use]
    pub fn product(self, product: Product) -> Devices {
        Devices { product: Some(product), ..self }
    }

    /// Returns the runtime with the devices.
    ///
    /// # Panics
    ///
    /// If the runtime does not start, has too few devices, or has another product.
    pub fn runtime(self) -> Runtime {
        let Devices { count, memory, product } = self;
        if is_loaded() {
            let runtime = loaded();
            assert!(runtime.device_count() >= count, "{count} devices are needed: {runtime:?}");
            assert!(product.is_none() || product == runtime.product(), "{product:?} is needed");
            return runtime;
        }
        let builder = Runtime::emulator_builder().devices(count);
        let builder = builder.product(product.unwrap_or(Product::A3));
        let runtime = match memory {
            Some(memory) => builder.memory(memory).build(),
            None => builder.build(),
        };
        runtime.expect("the emulator starts")
    }
}

/// Returns the products that the [`Devices`] of this run can have.
///
/// # Panics
///
/// If the libraries do not load.
pub fn products() -> Vec<Product> {
    if is_loaded() {
        return vec![loaded().product().expect("a product that is known")];
    }
    vec![Product::A2, Product::A3, Product::Ascend950]
}

/// Returns options for emulated devices of one test, for a test that is about such an option. The
/// test needs a row in the table of `docs/src/design/loaded-suite.md`.
///
/// # Panics
///
/// Over loaded libraries, because then the test lacks its row.
pub fn own_devices() -> EmulatorOptionsBuilder {
    assert!(
        !is_loaded(),
        "a test that needs emulated devices of its own belongs into the table of the tests that do not run over loaded \
         libraries"
    );
    Runtime::emulator_builder()
}

fn loaded() -> Runtime {
    Runtime::cann().expect("the libraries load, and a device answers")
}

/// Returns a runtime on a table that has only CANN's own functions, as on an Ascend machine. It has
/// the emulator's default devices, eight of them. Over loaded libraries it is the runtime of this
/// run.
///
/// # Panics
///
/// If the runtime does not start.
pub fn without_extensions() -> Runtime {
    if is_loaded() {
        return loaded();
    }
    let table = ascend_emulator::table().retain(|symbol| symbol.library != Library::Extension);
    // SAFETY: the remaining functions of the emulator's table do what CANN documents.
    let api = unsafe { Api::from_table(table) };
    Runtime::from_api(api).expect("the emulator starts")
}

/// Runs a test on both kinds of backend: with the optional entries of the table, and without. Over
/// loaded libraries there is one kind. Each wait has a limit of a minute.
///
/// # Panics
///
/// If a runtime does not start, or if the test panics.
pub fn both_backends(test: impl Fn(&Runtime)) {
    both_with(Devices::new(2), Duration::from_secs(60), test);
}

/// Runs a test like [`both_backends`], with these devices and this limit for waits. The backend
/// without the optional entries has the emulator's default devices.
///
/// # Panics
///
/// If a runtime does not start, or if the test panics.
pub fn both_with(devices: Devices, deadline: Duration, test: impl Fn(&Runtime)) {
    let mut runtimes = vec![devices.runtime()];
    if !is_loaded() {
        runtimes.push(without_extensions());
    }
    for runtime in runtimes {
        runtime.set_deadline(deadline);
        test(&runtime);
    }
}
