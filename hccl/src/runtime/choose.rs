//! Chooses the backend of a runtime. Apart from tests, only this file uses the emulator's crate.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "emulator")]
use std::time::Duration;

use ascend_sys::{Api, LoadError};
#[cfg(feature = "emulator")]
use typed_builder::TypedBuilder;

use super::Runtime;
#[cfg(feature = "emulator")]
use super::faults::Fault;
#[cfg(feature = "emulator")]
use super::shared::DEADLINE;
use super::shared::{Backend, Shared};
use crate::api::Table;
#[cfg(feature = "emulator")]
use crate::error::product::Product;
use crate::error::{Error, Result};

/// The default number of emulated devices.
#[cfg(feature = "emulator")]
const DEVICES: usize = 8;

impl Runtime {
    /// Makes a runtime of CANN if its libraries load and find a device. Makes a runtime of the
    /// emulator if there are no libraries, and no environment variable says where they should be.
    /// The emulator has 8 devices, or one for each rank of this machine if a launcher has started
    /// more than 8. A `tracing` event at level `INFO` reports the choice and the reason. Blocks
    /// while libraries are read.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if CANN is installed but cannot be used, for example because it finds
    /// no device, and if `ASCEND_HOME_PATH` or `ASCEND_TOOLKIT_HOME` names a directory without
    /// CANN. Without the feature `emulator`, also if CANN is not installed. The text says what to
    /// do.
    pub fn auto() -> Result<Runtime> {
        auto()
    }

    /// Makes a runtime of `devices` new emulated devices (1 to 4,096), which only this runtime
    /// uses. They are freed when the last handle is dropped. Returns [`Error::Invalid`] for another
    /// number of devices.
    ///
    /// ```
    /// let runtime = hccl::Runtime::emulator(2)?;
    /// assert_eq!(runtime.device_count(), 2);
    /// # Ok::<(), hccl::Error>(())
    /// ```
    #[cfg(feature = "emulator")]
    pub fn emulator(devices: usize) -> Result<Runtime> {
        EmulatorOptions::builder().devices(devices).build()
    }

    /// Returns a builder of emulated devices with options. Its `build` makes the runtime.
    ///
    /// | option | type | default | |
    /// | --- | --- | --- | --- |
    /// | `devices` | `usize` | 8 | number of devices, 1 to 4,096 |
    /// | `product` | [`Product`] | `A3` | the product that the devices emulate |
    /// | `memory` | `u64` | what the product has, or less if the process has too few addresses left | memory of each device in bytes, 0 for the default; a page is allocated when it is first written |
    /// | `connect_timeout` | `Duration` | 120 s | how long ranks wait for one another when they connect, 1 ms to 49 days; less counts as 1 ms |
    /// | `exec_timeout` | `Duration` | 1836 s | how long an operation may take on the device, 1 ms to 49 days; less counts as 1 ms, but a `HCCL_EXEC_TIMEOUT` of 0 means no limit |
    /// | `checked` | `bool` | `false` | whether checked mode looks for races ([`findings`](Self::findings)) |
    /// | `kernel_seed` | `u64` | 0 | if not 0, the seed of the order in which the units of a core, the cores of a kernel and its server run |
    /// | `kernel_late` | [`Late`](crate::kernel::Late) | none | the units of a core, or the server, that run as late as the rules allow; the [witness](crate::kernel::Witness) of an error names them |
    /// | `deadline` | `Duration` | 5 min | time limit of waits for operations ([`deadline`](Self::deadline)) |
    /// | `fault` | [`Fault`] | none | a fault of one device; can be given several times |
    ///
    /// The faults are [`Fault::delay`], [`Fault::stop`], [`Fault::leave`], [`Fault::wrong_count`],
    /// [`Fault::out_of_memory`] and [`Fault::link_timeout`]. [`Fault::at`] sets the operation or
    /// allocation that a fault affects.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a number or a time out of range. [`Error::NoSuchDevice`] for a fault
    /// of a device that does not exist.
    ///
    /// ```
    /// use hccl::{Product, Runtime};
    /// let runtime = Runtime::emulator_builder().devices(2).product(Product::A2).build()?;
    /// assert_eq!(runtime.product(), Some(Product::A2));
    /// # Ok::<(), hccl::Error>(())
    /// ```
    #[cfg(feature = "emulator")]
    pub fn emulator_builder() -> EmulatorOptionsBuilder {
        EmulatorOptions::builder()
    }

    /// Makes a runtime of the installed CANN. [`ascend_sys::Api::load`] lists the places that are
    /// searched for CANN. Blocks while libraries are read.
    ///
    /// The libraries are trusted like the program itself: loading them runs their start-up code,
    /// and `hccl` relies on their functions to do what CANN documents. Environment variables say
    /// where the libraries are, so anyone who can set these variables can run code in this process.
    /// The same is true of [`auto`](Self::auto).
    ///
    /// # Errors
    /// [`Error::NoBackend`], whose text lists the places that were tried, or says that CANN finds
    /// no device. Also the errors of [`from_api`](Self::from_api).
    pub fn cann() -> Result<Runtime> {
        cann(ascend_sys::Api::load())
    }

    /// Makes a runtime that uses the CANN libraries in `directory`. Blocks while it loads them.
    ///
    /// The libraries in this directory are trusted as in [`cann`](Self::cann), so name only a
    /// directory whose files you would run.
    ///
    /// # Errors
    /// The same as those of [`cann`](Self::cann).
    pub fn load_from(directory: impl AsRef<Path>) -> Result<Runtime> {
        cann(ascend_sys::Api::load_from(directory))
    }

    /// Makes a runtime of any table of functions that has CANN's ABI. The runtime uses all devices
    /// of the table. Blocks while they are counted.
    ///
    /// This function is safe, because an [`Api`] already contains a promise: its functions do what
    /// CANN documents. A program that makes an `Api` from its own table gives this promise in an
    /// `unsafe` block. The safe functions of `hccl` rely on it.
    ///
    /// # Errors
    /// The errors of `aclInit` and `aclrtGetDeviceCount`.
    pub fn from_api(api: ascend_sys::Api) -> Result<Runtime> {
        let table = Table::of_api(&api);
        table.init()?;
        let count = table.device_count()?;
        let shared = Shared::new(table, Backend::Cann, None, None, 0, count as usize);
        Ok(Runtime { shared: Arc::new(shared) })
    }
}

/// The settings of emulated devices. The `build` of [`Runtime::emulator_builder`] makes the
/// settings, and then the devices.
///
/// ```
/// use hccl::{Product, Runtime};
///
/// // A program never names `EmulatorOptions`: `build` makes the options and uses them at once.
/// let runtime = Runtime::emulator_builder().devices(4).product(Product::A2).checked(true).build()?;
/// assert_eq!(runtime.device_count(), 4);
/// # Ok::<(), hccl::Error>(())
/// ```
#[cfg(feature = "emulator")]
#[derive(Clone, Debug, TypedBuilder)]
#[builder(
    doc,
    builder_type(
        doc = "A builder of emulated devices. Each method sets one option, and `build` makes the runtime. Returned by [`Runtime::emulator_builder`].\n\n\
            ```\n\
            use std::time::Duration;\n\
            \n\
            use hccl::Runtime;\n\
            \n\
            let runtime = Runtime::emulator_builder().devices(2).deadline(Duration::from_secs(9)).build()?;\n\
            assert_eq!(runtime.deadline(), Duration::from_secs(9));\n\
            # Ok::<(), hccl::Error>(())\n\
            ```"
    ),
    build_method(into = Result<Runtime>)
)]
pub struct EmulatorOptions {
    /// The number of devices: 1 to 4,096, 8 by default.
    #[builder(default = DEVICES)]
    devices: usize,
    /// The product that the devices emulate, an A3 by default.
    #[builder(default = Product::A3)]
    product: Product,
    /// The memory of each device in bytes. The default is the memory that the product has, or less
    /// if the process has too few addresses left. A page is allocated when it is first written.
    #[builder(default, setter(strip_option))]
    memory: Option<u64>,
    /// The time that ranks wait for one another when they connect: at most 49 days. The default is
    /// CANN's 120 s.
    #[builder(default, setter(strip_option))]
    connect_timeout: Option<Duration>,
    /// The time that an operation may take on the device: at most 49 days. The default is CANN's
    /// 1836 s.
    #[builder(default, setter(strip_option))]
    exec_timeout: Option<Duration>,
    /// Whether checked mode looks for races, which are accesses to memory that nothing orders: see
    /// [`Runtime::findings`]. Checked mode makes all operations slower. The default is `false`.
    #[builder(default)]
    checked: bool,
    /// The seed that determines the order in which the units of a core, the cores of a kernel and
    /// its server run. Each device has its own order. By default, they run in the order of the
    /// kernel. A test launches a kernel under several seeds: among eight consecutive seeds, each
    /// unit is once delayed as long as possible. With a seed, memory that was never written
    /// contains NaNs.
    #[builder(default)]
    kernel_seed: u64,
    /// The units of a core, or the server, that do their work in kernels as late as the rules
    /// allow. By default, no unit is late. The [witness](crate::kernel::Witness) of an error names
    /// the units that must be late for the error to occur.
    #[builder(default, setter(strip_option))]
    kernel_late: Option<crate::kernel::Late>,
    /// The time limit of waits for operations, 5 minutes by default ([`Runtime::deadline`]).
    #[builder(default, setter(strip_option))]
    deadline: Option<Duration>,
    #[builder(via_mutators, mutators(
        /// Adds a fault. Can be called several times.
        pub fn fault(&mut self, fault: Fault) {
            self.faults.push(fault);
        }
    ))]
    faults: Vec<Fault>,
}

#[cfg(feature = "emulator")]
impl From<EmulatorOptions> for Result<Runtime> {
    fn from(options: EmulatorOptions) -> Self {
        options.start_with(ascend_emulator::table())
    }
}

#[cfg(feature = "emulator")]
impl EmulatorOptions {
    /// Returns the default options for `devices` devices, but with 64 MiB of memory each.
    #[cfg(all(test, not(loom), not(miri)))]
    pub(crate) fn small(devices: usize) -> Self {
        EmulatorOptions {
            devices,
            product: Product::A3,
            memory: Some(64 << 20),
            connect_timeout: None,
            exec_timeout: None,
            checked: false,
            kernel_seed: 0,
            kernel_late: None,
            deadline: None,
            faults: Vec::new(),
        }
    }

    /// Makes the devices through `functions`. This table needs the entries for emulated devices,
    /// but other optional entries may be missing.
    pub(crate) fn start_with(self, functions: ascend_sys::Functions) -> Result<Runtime> {
        let invalid =
            |problem: String| Error::Invalid { operation: "emulator", problem: problem.into() };
        if !(1..=4096).contains(&self.devices) {
            return Err(invalid(format!(
                "{} devices; 1 to 4096 are possible, so give a number in this range",
                self.devices
            )));
        }
        let milliseconds = |limit: Option<Duration>, what: &str| match limit {
            None => Ok(0),
            // At least 1, because the emulator uses its default for 0.
            Some(limit) => u32::try_from(limit.as_millis())
                .map(|limit| limit.max(1))
                .map_err(|_| invalid(format!("{what} of {limit:?}: give at most 49 days"))),
        };
        use ascend_sys::AscendExtCheck as Check;
        let config = ascend_sys::AscendExtBlockConfig {
            size: size_of::<ascend_sys::AscendExtBlockConfig>() as u32,
            deviceCount: self.devices as u32,
            product: self.product.code(),
            connectTimeoutMs: milliseconds(self.connect_timeout, "a connect timeout")?,
            execTimeoutMs: milliseconds(self.exec_timeout, "an execution timeout")?,
            check: if self.checked {
                Check::ASCEND_EXT_CHECK_RACES
            } else {
                Check::ASCEND_EXT_CHECK_NOTHING
            }
            .0,
            memoryBytes: self.memory.unwrap_or(0),
            kernelSeed: self.kernel_seed,
            kernelLate: self.kernel_late.map_or([0; 32], crate::kernel::Late::letters),
        };
        let table = Table::of_emulator(functions);
        table.init()?;
        let (block, first) = table.create_block(&config)?;
        let product = Some(self.product);
        let shared = Shared::new(
            table,
            Backend::Emulator,
            product,
            Some((block, self.checked)),
            first,
            self.devices,
        );
        let runtime = Runtime { shared: Arc::new(shared) };
        runtime.set_deadline(self.deadline.unwrap_or(DEADLINE));
        if let Some(limit) = self.exec_timeout {
            runtime.set_exec_seconds(limit.as_secs_f64().ceil() as u32);
        }
        self.faults.iter().try_for_each(|fault| fault.start(&runtime))?;
        Ok(runtime)
    }
}

fn auto() -> Result<Runtime> {
    let loaded = Api::load();
    if let Some(reason) = loaded.as_ref().ok().and_then(misled) {
        return Err(Error::NoBackend { reason: reason.into() });
    }
    match loaded {
        Err(error) if error.is_absent() && error.names_a_place() => {
            Err(Error::NoBackend { reason: error.to_string().into() })
        }
        Err(error) if error.is_absent() => without_cann(&error),
        loaded => cann(loaded).inspect(tell).map_err(|error| Error::NoBackend {
            reason: format!(
                "CANN is installed, but cannot be used: {error}. If it found no device, make one \
                 visible to this process (npu-smi info, ASCEND_RT_VISIBLE_DEVICES, the permissions \
                 of /dev/davinci*). To use the emulator instead, call Runtime::emulator(n)"
            )
            .into(),
        }),
    }
}

/// Returns an error text if CANN was found elsewhere than in the directory that an environment
/// variable names.
fn misled(api: &Api) -> Option<String> {
    let found = Path::new(api.sources().first()?);
    let set =
        |name: &'static str| Some((name, std::env::var_os(name).filter(|home| !home.is_empty())?));
    let (name, home) = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"].into_iter().find_map(set)?;
    let is_there = found.starts_with(&home);
    (!is_there).then(|| {
        format!(
            "{name} is {}, but CANN is not there; it was found as {}. Correct the variable, or unset it",
            Path::new(&home).display(),
            found.display()
        )
    })
}

/// Logs the backend that [`auto`] has chosen, and the reason.
fn tell(runtime: &Runtime) {
    let devices = runtime.device_count();
    match runtime.backend() {
        Backend::Cann => {
            let sources = runtime.table().sources().join(", ");
            tracing::info!(devices, "backend: CANN, since its libraries were found: {sources}");
        }
        Backend::Emulator => tracing::info!(
            devices,
            "backend: the emulator, since CANN is not installed (its libraries are not on the loader's path, and neither \
             ASCEND_HOME_PATH nor ASCEND_TOOLKIT_HOME is set)"
        ),
    }
}

#[cfg(feature = "emulator")]
fn without_cann(_: &LoadError) -> Result<Runtime> {
    let launched = hccl_job::JobEnv::from_env().ok().flatten();
    let ranks = launched.map_or(0, |env| env.local_world_size as usize);
    EmulatorOptions::builder().devices(ranks.max(DEVICES)).build().inspect(tell)
}

#[cfg(not(feature = "emulator"))]
fn without_cann(error: &LoadError) -> Result<Runtime> {
    let reason = format!(
        "{error}. Either install CANN and source its set_env.sh, or build hccl with the feature `emulator`"
    );
    Err(Error::NoBackend { reason: reason.into() })
}

fn cann(loaded: Result<Api, LoadError>) -> Result<Runtime> {
    let api = loaded.map_err(|error| Error::NoBackend { reason: error.to_string().into() })?;
    let runtime = Runtime::from_api(api)?;
    if runtime.device_count() == 0 {
        return Err(Error::NoBackend {
            reason: "CANN is installed and finds no device: see the output of npu-smi info".into(),
        });
    }
    // CANN reads this variable too.
    let limit = std::env::var("HCCL_EXEC_TIMEOUT").ok().and_then(|text| text.trim().parse().ok());
    if let Some(seconds) = limit {
        runtime.set_exec_seconds(seconds);
    }
    Ok(runtime)
}
