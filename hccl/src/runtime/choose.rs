//! The choice of a backend: the only place that knows the emulator.

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

/// How many devices the emulator has unless told.
#[cfg(feature = "emulator")]
const DEVICES: usize = 8;

impl Runtime {
    /// CANN when its libraries load and a device answers, the emulator when there are no libraries
    /// and nobody says where they would be: with 8 devices, or with one for each rank of this
    /// machine where a launcher has started more. A `tracing` event at level `INFO` tells which,
    /// and why.
    ///
    /// # Errors
    /// [`Error::NoBackend`] when CANN is installed and cannot be used, for example because no
    /// device answers, and when `ASCEND_HOME_PATH` or `ASCEND_TOOLKIT_HOME` leads nowhere; it names
    /// the ways out. Blocks while libraries are read.
    pub fn auto() -> Result<Runtime> {
        auto()
    }

    /// `devices` fresh emulated devices (1 to 4,096) that nothing else uses. They go when the last
    /// handle goes.
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

    /// Emulated devices with options: `build` makes the runtime.
    ///
    /// | option | type | default | |
    /// | --- | --- | --- | --- |
    /// | `devices` | `usize` | 8 | how many, 1 to 4,096 |
    /// | `product` | [`Product`] | `A3` | what they pretend to be |
    /// | `memory` | `u64` | what the product has, or less where the process has no addresses left for it | memory of each, in bytes, 0 for the default; pages are used when they are written |
    /// | `connect_timeout` | `Duration` | 120 s | how long ranks wait for one another when they connect, 1 ms to 49 days; less counts as 1 ms |
    /// | `exec_timeout` | `Duration` | 1836 s | how long an operation may take on the device, 1 ms to 49 days; less counts as 1 ms, where a `HCCL_EXEC_TIMEOUT` of 0 is no limit |
    /// | `checked` | `bool` | `false` | whether accesses that nothing orders are looked for ([`findings`](Self::findings)) |
    /// | `kernel_seed` | `u64` | 0 | not 0: chooses the order in which the units of a core, cores and servers of kernels go on |
    /// | `kernel_late` | [`Late`](crate::kernel::Late) | nobody | who does their work in kernels as late as the rules allow: of an error, its [witness](crate::kernel::Witness) says who |
    /// | `deadline` | `Duration` | 5 min | how long everything that waits waits ([`set_deadline`](Self::set_deadline)) |
    /// | `fault` | [`Fault`] | none | something that goes wrong on one device; can be given several times |
    ///
    /// Faults: [`Fault::delay`], [`Fault::stop`], [`Fault::leave`], [`Fault::wrong_count`],
    /// [`Fault::out_of_memory`] and [`Fault::link_timeout`], each from the operation or allocation
    /// that [`Fault::at`] says.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a number or a time out of range, [`Error::NoSuchDevice`] for a fault
    /// of a device that there is not.
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

    /// The installed CANN (see [`ascend_sys::Api::load`] for where it is looked for). Blocks while
    /// libraries are read.
    ///
    /// The libraries are trusted as the program itself is: loading them runs their start-up code,
    /// and their functions are taken to keep to CANN's documentation. Environment variables say
    /// where the libraries are, so anyone who sets those decides what runs in this process. The
    /// same holds for [`auto`](Self::auto).
    ///
    /// # Errors
    /// [`Error::NoBackend`] lists what was tried, or says that no device answers.
    pub fn cann() -> Result<Runtime> {
        cann(ascend_sys::Api::load())
    }

    /// The CANN in one directory. Blocks while libraries are read.
    ///
    /// The libraries there are trusted as in [`cann`](Self::cann): name only a directory whose
    /// files you would run.
    ///
    /// # Errors
    /// As for [`cann`](Self::cann).
    pub fn load_from(directory: impl AsRef<Path>) -> Result<Runtime> {
        cann(ascend_sys::Api::load_from(directory))
    }

    /// Any table of functions that has CANN's ABI. All of its devices are used. Blocks while they
    /// are counted.
    ///
    /// Safe, because an [`Api`] is a promise already: that its functions do what CANN documents. A
    /// program that made it from its own table gave that promise in an `unsafe` block; all that is
    /// safe here rests on it.
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

/// The settings of emulated devices. Made by [`Runtime::emulator_builder`], whose `build` takes the
/// devices.
///
/// ```
/// use hccl::{Product, Runtime};
///
/// // A program never names the type: it stands between `emulator_builder` and `build`.
/// let runtime = Runtime::emulator_builder().devices(4).product(Product::A2).checked(true).build()?;
/// assert_eq!(runtime.device_count(), 4);
/// # Ok::<(), hccl::Error>(())
/// ```
#[cfg(feature = "emulator")]
#[derive(Clone, Debug, TypedBuilder)]
#[builder(
    doc,
    builder_type(
        doc = "Options of emulated devices: each method sets one, `build` makes the runtime. From [`Runtime::emulator_builder`].\n\n\
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
    /// How many devices: 1 to 4,096; 8 unless told.
    #[builder(default = DEVICES)]
    devices: usize,
    /// The product that they emulate; an A3 unless told.
    #[builder(default = Product::A3)]
    product: Product,
    /// Memory of each in bytes; what the product has unless told. Pages are used when they are
    /// written.
    #[builder(default, setter(strip_option))]
    memory: Option<u64>,
    /// How long ranks wait for one another when they connect: at most 49 days; CANN's 120 s unless
    /// told.
    #[builder(default, setter(strip_option))]
    connect_timeout: Option<Duration>,
    /// How long an operation may take on the device: at most 49 days; CANN's 1836 s unless told.
    #[builder(default, setter(strip_option))]
    exec_timeout: Option<Duration>,
    /// Whether accesses to memory that nothing orders are looked for: see [`Runtime::findings`].
    /// Makes everything slower; `false` unless told.
    #[builder(default)]
    checked: bool,
    /// Chooses the order in which the units of a core, the cores of a kernel and its server go on,
    /// anew for each device; in the order of the kernel unless told. A test launches a kernel under
    /// several seeds: eight in a row delay every unit to the utmost once. Memory that nobody has
    /// written holds not-a-numbers then.
    #[builder(default)]
    kernel_seed: u64,
    /// The units of a core, or the server, that do their work in kernels as late as the rules
    /// allow; nobody unless told. The [witness](crate::kernel::Witness) of an error says which must
    /// be late for the error to show.
    #[builder(default, setter(strip_option))]
    kernel_late: Option<crate::kernel::Late>,
    /// How long everything that waits waits: 5 minutes unless told ([`Runtime::set_deadline`]).
    #[builder(default, setter(strip_option))]
    deadline: Option<Duration>,
    #[builder(via_mutators, mutators(
        /// Adds something that goes wrong. Can be called several times.
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
    /// A number of devices like those of the default.
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

    /// Takes the devices, with a table of which other optional entries may be missing.
    pub(crate) fn start_with(self, functions: ascend_sys::Functions) -> Result<Runtime> {
        let invalid =
            |problem: String| Error::Invalid { operation: "emulator", problem: problem.into() };
        if !(1..=4096).contains(&self.devices) {
            return Err(invalid(format!("{} devices; 1 to 4096 are possible", self.devices)));
        }
        let milliseconds = |limit: Option<Duration>, what: &str| match limit {
            None => Ok(0),
            // Zero is the default there.
            Some(limit) => u32::try_from(limit.as_millis())
                .map(|limit| limit.max(1))
                .map_err(|_| invalid(format!("{what} of {limit:?}; at most 49 days are possible"))),
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
                "CANN is installed, but: {error}. Either make a device visible to this process (npu-smi info, \
                 ASCEND_RT_VISIBLE_DEVICES, the permissions of /dev/davinci*), or ask for the emulator with \
                 Runtime::emulator(n)"
            )
            .into(),
        }),
    }
}

/// The warning when CANN was found elsewhere than where a variable says.
fn misled(api: &Api) -> Option<String> {
    let found = Path::new(api.sources().first()?);
    let set =
        |name: &'static str| Some((name, std::env::var_os(name).filter(|home| !home.is_empty())?));
    let (name, home) = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"].into_iter().find_map(set)?;
    let is_there = found.starts_with(&home);
    (!is_there).then(|| {
        format!(
            "{name} is {}, where CANN is not; it was found as {}. Correct the variable, or unset it",
            Path::new(&home).display(),
            found.display()
        )
    })
}

/// Says what [`auto`] has chosen.
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
        return Err(Error::NoBackend { reason: "CANN is installed and finds no device".into() });
    }
    // CANN reads it too.
    let limit = std::env::var("HCCL_EXEC_TIMEOUT").ok().and_then(|text| text.trim().parse().ok());
    if let Some(seconds) = limit {
        runtime.set_exec_seconds(seconds);
    }
    Ok(runtime)
}
