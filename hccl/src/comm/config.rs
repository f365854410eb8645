//! The settings of a communicator: `HcclCommConfig`, version 11, with every field checked before
//! CANN sees it.
//!
//! CANN accepts some mistakes silently (an execution timeout out of range is ignored or rounded, an
//! over-long name is cut), so the checks here are stricter than its own. A setting that is not
//! given keeps the value of the environment variable, or else CANN's default.

use std::ffi::c_char;
use std::time::Duration;

use ascend_sys::HcclCommConfig;
use typed_builder::TypedBuilder;

use crate::error::config::ConfigError;
use crate::error::product::Product;

/// Settings for one communicator, all optional.
///
/// All ranks of a communicator must be given the same settings, except for `world_rank`. A setting
/// that is not given keeps the value of the environment variable, or else CANN's default.
///
/// | setting | type | range | default | |
/// | --- | --- | --- | --- | --- |
/// | `buffer_mib` | `u32`, MiB | at least 1 | 200 | one staging buffer; HCCL reserves twice this much device memory |
/// | `deterministic` | [`Deterministic`] | `Strict` on the A2 only | CANN's | whether the same inputs give the same bits |
/// | `name` | text | 1 to 127 bytes | made by CANN | name of the communicator, unique on its device |
/// | `note` | text | 1 to 127 bytes | none | a note that HCCL writes to its logs |
/// | `expansion` | [`Expansion`] | by product | CANN's | where operations are unfolded into device tasks |
/// | `rdma_traffic_class` | `u32` | multiple of 4, at most 252 | 132 | traffic class of RDMA packets |
/// | `rdma_service_level` | `u32` | 0 to 7 | 4 | service level of RDMA packets |
/// | `world_rank` | `u32` | | none | rank of this process in the whole job, for reports |
/// | `job_id` | `u64` | | none | number of the job, for reports |
/// | `graph_zero_copy` | `bool` | | CANN's | whether captured graphs may use buffers in place of the staging buffer |
/// | `exec_timeout` | `Duration`, whole seconds | 1 s to 2,147,483,647 s; on the 950 multiples of 68 s to 17,340 s | 1836 s | how long an operation may wait on the device for its peers |
/// | `algorithm` | text | 1 to 1599 bytes | CANN's choice | algorithms by level, in the syntax of `HCCL_ALGO` |
/// | `retry` | [`Retry`] | A3 | none | whether and how a failed operation is issued again |
/// | `shared_buffer` | text | 1 to 127 bytes | none | communicators of a device that name the same one share a staging buffer |
/// | `quality_of_service` | `u32` | 0 to 7 | CANN's | priority of the packets |
/// | `symmetric_window_gib` | `u64`, GiB | at least 1 | 16 | address space for symmetric windows on each rank |
/// | `channel_queue_depth` | `u32`, entries | at least 1 | CANN's | depth of the send queue of a channel |
///
/// ```
/// use hccl::comm::{CommConfig, Deterministic};
///
/// let config = CommConfig::builder()
///     .name("tensor-parallel")
///     .buffer_mib(64)
///     .deterministic(Deterministic::On)
///     .build();
/// # let _ = config;
/// ```
#[derive(Clone, Debug, Default, PartialEq, TypedBuilder)]
#[builder(
    doc,
    builder_type(
        doc = "Settings of a [`CommConfig`]: each method sets one, all are optional. From [`CommConfig::builder`].\n\n\
            ```\n\
            use hccl::comm::CommConfig;\n\
            \n\
            let config = CommConfig::builder().name(\"gradients\").buffer_mib(64).build();\n\
            ```"
    ),
    field_defaults(default, setter(strip_option))
)]
pub struct CommConfig {
    /// The size of one staging buffer of the communicator, in MiB, at least 1; CANN's default
    /// is 200. HCCL reserves twice this much device memory.
    buffer_mib: Option<u32>,
    /// Whether the same inputs give the same bits on every run.
    deterministic: Option<Deterministic>,
    /// The name of the communicator, 1 to 127 bytes, no NUL. A device cannot have two communicators
    /// of one name.
    #[builder(setter(into))]
    name: Option<String>,
    /// A note of the user that HCCL writes to its logs, 1 to 127 bytes, no NUL.
    #[builder(setter(into))]
    note: Option<String>,
    /// The place where operations are unfolded into device tasks.
    expansion: Option<Expansion>,
    /// The traffic class of RDMA packets: a multiple of 4, at most 252; CANN's default is 132.
    rdma_traffic_class: Option<u32>,
    /// The service level of RDMA packets: 0 to 7; CANN's default is 4.
    rdma_service_level: Option<u32>,
    /// The rank of this process in the whole job, for reports only.
    world_rank: Option<u32>,
    /// The number of the job, for reports only.
    job_id: Option<u64>,
    /// Whether captured graphs may use buffers in place of the staging buffer.
    graph_zero_copy: Option<bool>,
    /// The time that an operation may wait on the device for its peers: whole seconds, at least 1,
    /// at most 2,147,483,647; on the Ascend 950 a multiple of 68, at most 17,340. CANN's default is
    /// 1836 s.
    exec_timeout: Option<Duration>,
    /// The algorithms by level, in the syntax of the environment variable `HCCL_ALGO`, 1 to 1599
    /// bytes.
    #[builder(setter(into))]
    algorithm: Option<String>,
    /// Whether and how a failed operation is issued again (A3).
    retry: Option<Retry>,
    /// The name of a staging buffer that communicators of a device share if they name the same one;
    /// their operations must then be issued on one stream. 1 to 127 bytes, no NUL.
    #[builder(setter(into))]
    shared_buffer: Option<String>,
    /// The priority of the packets: 0 to 7.
    quality_of_service: Option<u32>,
    /// The address space reserved for symmetric windows on each rank, in GiB, at least 1; CANN's
    /// default is 16.
    symmetric_window_gib: Option<u64>,
    /// The depth of the send queue of a channel, in entries, at least 1.
    channel_queue_depth: Option<u32>,
}

/// Whether the same inputs give the same bits on every run.
///
/// ```
/// use hccl::comm::{CommConfig, Deterministic};
///
/// // The same bits from run to run, at the price of some speed.
/// let config = CommConfig::builder().deterministic(Deterministic::On).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deterministic {
    /// HCCL may choose any order of additions.
    Off,
    /// The same program gives the same bits.
    On,
    /// As [`On`](Self::On), and elements are added in the order of the ranks. A2 only.
    Strict,
}

/// The place where operations are unfolded into device tasks.
///
/// ```
/// use hccl::comm::{CommConfig, Expansion};
///
/// // Vector cores start small operations soonest; where they have no algorithm, HCCL takes another.
/// let config = CommConfig::builder().expansion(Expansion::Aiv).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expansion {
    /// On the host.
    Host,
    /// On the AI CPU of the device.
    AiCpu,
    /// In vector cores of the device, where an algorithm exists; else elsewhere.
    Aiv,
    /// In vector cores only: an operation without such an algorithm is refused.
    AivOnly,
    /// In the communication unit, through its own memory (950).
    CcuMemory,
    /// In the communication unit, as a scheduler (950).
    CcuScheduler,
}

/// The settings for issuing a failed operation again (A3).
///
/// | setting | type | default | |
/// | --- | --- | --- | --- |
/// | `between_servers` | `bool` | `false` | whether operations between servers are issued again |
/// | `between_superpods` | `bool` | `false` | the same between super-pods |
/// | `attempts` | `u32` | 1 | how many times, 1 to 10 |
/// | `hold` | `Duration` | 5 s | how long to wait before the first attempt: whole milliseconds, at most 60 s |
/// | `interval` | `Duration` | 1 s | how long to wait between attempts: whole milliseconds, at most 60 s |
///
/// ```
/// use std::time::Duration;
///
/// use hccl::comm::{CommConfig, Retry};
///
/// let retry =
///     Retry::builder().between_servers(true).attempts(3).interval(Duration::from_secs(2)).build();
/// let config = CommConfig::builder().retry(retry).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, TypedBuilder)]
#[builder(
    doc,
    builder_type(
        doc = "Settings of a [`Retry`]: each method sets one, all are optional. From [`Retry::builder`].\n\n\
            ```\n\
            use hccl::comm::Retry;\n\
            \n\
            let retry = Retry::builder().between_servers(true).attempts(2).build();\n\
            ```"
    )
)]
pub struct Retry {
    /// Whether operations between servers are issued again; `false` unless told.
    #[builder(default)]
    between_servers: bool,
    /// Whether operations between super-pods are issued again; `false` unless told.
    #[builder(default)]
    between_superpods: bool,
    /// The number of attempts: 1 to 10; once unless told.
    #[builder(default = 1)]
    attempts: u32,
    /// The time to wait before the first attempt: whole milliseconds, at most 60 s; 5 s unless
    /// told.
    #[builder(default = Duration::from_secs(5))]
    hold: Duration,
    /// The time to wait between attempts: whole milliseconds, at most 60 s; 1 s unless told.
    #[builder(default = Duration::from_secs(1))]
    interval: Duration,
}

type ConfigResult<T> = Result<T, ConfigError>;

fn refuse<T>(setting: &'static str, value: impl ToString, rule: &'static str) -> ConfigResult<T> {
    Err(ConfigError { setting, value: value.to_string(), rule })
}

impl CommConfig {
    /// Sets a name if the user gave none, unless it is longer than CANN takes: then CANN makes one.
    pub(super) fn name_if_none(&mut self, name: impl FnOnce() -> String) {
        if self.name.is_none() {
            self.name = Some(name()).filter(|name| name.len() < initial().hcclCommName.len());
        }
    }

    /// Returns the name that the user gave.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the seconds that an operation may wait for its peers, if that is set.
    pub(crate) fn exec_seconds(&self) -> Option<u32> {
        self.exec_timeout.map(|limit| u32::try_from(limit.as_secs()).unwrap_or(u32::MAX))
    }

    /// Returns the settings as CANN's structure, with every field checked against the rules of the
    /// product, if it is known.
    pub(crate) fn to_raw(&self, product: Option<Product>) -> ConfigResult<HcclCommConfig> {
        let mut raw = initial();
        if let Some(mib) = self.buffer_mib {
            raw.hcclBufferSize =
                within("buffer_mib", mib, 1, u32::MAX - 1, "it must be at least 1")?;
        }
        if let Some(deterministic) = self.deterministic {
            if deterministic == Deterministic::Strict && product.is_some_and(|p| p != Product::A2) {
                return refuse("deterministic", "Strict", "only the A2 has it; use `On`");
            }
            raw.hcclDeterministic = match deterministic {
                Deterministic::Off => 0,
                Deterministic::On => 1,
                Deterministic::Strict => 2,
            };
        }
        text("name", self.name.as_deref(), &mut raw.hcclCommName)?;
        text("note", self.note.as_deref(), &mut raw.hcclUdi)?;
        text("shared_buffer", self.shared_buffer.as_deref(), &mut raw.hcclBufferName)?;
        text("algorithm", self.algorithm.as_deref(), &mut raw.hcclAlgo)?;
        if let Some(expansion) = self.expansion {
            raw.hcclOpExpansionMode = expansion.code(product)?;
        }
        if let Some(class) = self.rdma_traffic_class {
            if class > 252 || class % 4 != 0 {
                return refuse(
                    "rdma_traffic_class",
                    class,
                    "it must be a multiple of 4 and at most 252",
                );
            }
            raw.hcclRdmaTrafficClass = class;
        }
        const TO_7: &str = "it must be 0 to 7";
        if let Some(level) = self.rdma_service_level {
            raw.hcclRdmaServiceLevel = within("rdma_service_level", level, 0, 7, TO_7)?;
        }
        if let Some(level) = self.quality_of_service {
            raw.hcclQos = within("quality_of_service", level, 0, 7, TO_7)?;
        }
        raw.hcclWorldRankID = self.world_rank.unwrap_or(0);
        raw.hcclJobID = self.job_id.unwrap_or(0);
        raw.aclGraphZeroCopyEnable = self.graph_zero_copy.unwrap_or(false).into();
        if let Some(timeout) = self.exec_timeout {
            raw.hcclExecTimeOut = exec_timeout(timeout, product)?;
        }
        if let Some(retry) = self.retry {
            retry.write(&mut raw)?;
        }
        if let Some(gib) = self.symmetric_window_gib {
            raw.hcclSymWinMaxMemSizePerRank =
                within("symmetric_window_gib", gib, 1, 1 << 34, "it must be 1 to 2^34")?;
        }
        if let Some(depth) = self.channel_queue_depth {
            let rule = "it must be at least 1";
            raw.hcclChannelSqDepth = within("channel_queue_depth", depth, 1, u32::MAX - 1, rule)?;
        }
        Ok(raw)
    }
}

/// The struct as the inline function `HcclCommConfigInit` of CANN's header writes it.
fn initial() -> HcclCommConfig {
    // The head has no field names in the header: size, magic word, version, reserved.
    let mut head = [0; ascend_sys::HCCL_COMM_CONFIG_INFO_BYTES as usize];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in head[at..at + bytes.len()].iter_mut().zip(bytes) {
            *to = *from as c_char;
        }
    };
    put(0, &size_of::<HcclCommConfig>().to_ne_bytes());
    put(8, &ascend_sys::HCCL_COMM_CONFIG_MAGIC_WORD.to_ne_bytes());
    put(12, &ascend_sys::HCCL_COMM_CONFIG_VERSION.to_ne_bytes());
    HcclCommConfig {
        reserved: head,
        hcclBufferSize: ascend_sys::HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET,
        hcclDeterministic: ascend_sys::HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET,
        hcclCommName: [0; 128],
        hcclUdi: [0; 128],
        hcclOpExpansionMode: 0,
        hcclRdmaTrafficClass: ascend_sys::HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET,
        hcclRdmaServiceLevel: ascend_sys::HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET,
        hcclWorldRankID: 0,
        hcclJobID: 0,
        aclGraphZeroCopyEnable: 0,
        hcclExecTimeOut: ascend_sys::HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET,
        hcclAlgo: [0; 1600],
        hcclRetryEnable: [0; 50],
        hcclRetryParams: [0; 128],
        hcclBufferName: [0; 128],
        hcclQos: ascend_sys::HCCL_COMM_QOS_CONFIG_NOT_SET,
        hcclSymWinMaxMemSizePerRank: 16,
        hcclChannelSqDepth: ascend_sys::HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET,
    }
}

fn within<T: PartialOrd + ToString>(
    setting: &'static str,
    value: T,
    least: T,
    most: T,
    rule: &'static str,
) -> ConfigResult<T> {
    if value < least || value > most { refuse(setting, value, rule) } else { Ok(value) }
}

/// Copies a text with its terminating NUL, or refuses it: CANN would cut it.
fn text(setting: &'static str, value: Option<&str>, into: &mut [c_char]) -> ConfigResult<()> {
    let Some(value) = value else { return Ok(()) };
    if value.is_empty() || value.len() >= into.len() || value.contains('\0') {
        let rule = if into.len() == 1600 {
            "it must have 1 to 1599 bytes and no NUL"
        } else {
            "it must have 1 to 127 bytes and no NUL"
        };
        return refuse(setting, format!("{value:?} ({} bytes)", value.len()), rule);
    }
    for (to, from) in into.iter_mut().zip(value.bytes()) {
        *to = from as c_char;
    }
    Ok(())
}

/// Returns the time in seconds. CANN takes 0 as well, for ever, which is a wait without a deadline.
fn exec_timeout(timeout: Duration, product: Option<Product>) -> ConfigResult<i32> {
    // The Ascend 950 counts in steps of 68 seconds: CANN would round down, or ignore a time that is
    // too long.
    let (most, step, rule) = match product {
        Some(Product::Ascend950) => {
            (17_340, 68, "it must be a multiple of 68 s, 68 to 17340, on the Ascend 950")
        }
        _ => (i32::MAX, 1, "it must be whole seconds, 1 to 2147483647"),
    };
    match i32::try_from(timeout.as_secs()) {
        Ok(seconds @ 1..)
            if timeout.subsec_nanos() == 0 && seconds <= most && seconds % step == 0 =>
        {
            Ok(seconds)
        }
        _ => refuse("exec_timeout", format!("{timeout:?}"), rule),
    }
}

impl Expansion {
    fn code(self, product: Option<Product>) -> ConfigResult<u32> {
        let only_950 = matches!(self, Expansion::CcuMemory | Expansion::CcuScheduler);
        if only_950 && product.is_some_and(|p| p != Product::Ascend950) {
            let rule = "only the Ascend 950 has a communication unit; use `AiCpu` or `Aiv`";
            return refuse("expansion", format!("{self:?}"), rule);
        }
        Ok(match self {
            Expansion::Host => 1,
            Expansion::AiCpu => 2,
            Expansion::Aiv => 3,
            Expansion::AivOnly => 4,
            Expansion::CcuMemory => 5,
            Expansion::CcuScheduler => 6,
        })
    }
}

impl Retry {
    fn write(self, raw: &mut HcclCommConfig) -> ConfigResult<()> {
        let attempts = within("retry.attempts", self.attempts, 1, 10, "it must be 1 to 10")?;
        let milliseconds = |setting, duration: Duration| {
            let whole = duration.subsec_nanos().is_multiple_of(1_000_000);
            if !whole || duration > Duration::from_secs(60) {
                let rule = "it must be whole milliseconds, at most 60 s";
                return refuse(setting, format!("{duration:?}"), rule);
            }
            Ok(duration.as_millis())
        };
        let hold = milliseconds("retry.hold", self.hold)?;
        let interval = milliseconds("retry.interval", self.interval)?;
        let levels = format!(
            "L1:{}, L2:{}",
            u8::from(self.between_servers),
            u8::from(self.between_superpods)
        );
        text("retry", Some(&levels), &mut raw.hcclRetryEnable)?;
        let parameters = format!("MaxCnt:{attempts}, HoldTime:{hold}, IntervalTime:{interval}");
        text("retry", Some(&parameters), &mut raw.hcclRetryParams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[c_char]) -> String {
        text.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
    }

    fn refused(config: CommConfig, product: Option<Product>) -> &'static str {
        config.to_raw(product).expect_err("must be refused").setting
    }

    #[test]
    fn nothing_given_is_what_the_header_initialises() {
        let raw = CommConfig::default().to_raw(Some(Product::A3)).unwrap();
        let head: Vec<u8> = raw.reserved.iter().map(|&c| c as u8).collect();
        assert_eq!(head[..8], 2248u64.to_ne_bytes());
        assert_eq!(head[8..12], 0xf0f0_f0f0u32.to_ne_bytes());
        assert_eq!(head[12..16], 11u32.to_ne_bytes());
        assert_eq!(head[16..], [0; 8]);
        assert_eq!(raw.hcclBufferSize, u32::MAX);
        assert_eq!(raw.hcclDeterministic, u32::MAX);
        assert_eq!(raw.hcclExecTimeOut, -1);
        assert_eq!(raw.hcclSymWinMaxMemSizePerRank, 16);
    }

    /// The builders are generated, so the tables are the only place where a user sees what a
    /// setting takes.
    #[test]
    fn every_setting_is_in_a_table_of_the_documentation() {
        let files = [
            ("CommConfig", include_str!("config.rs")),
            ("Retry", include_str!("config.rs")),
            ("Plan<'a>", include_str!("build.rs")),
            ("EmulatorOptions", include_str!("../runtime/choose.rs")),
        ];
        for (name, source) in files {
            let (_, body) = source.split_once(&format!("pub struct {name} {{")).unwrap();
            let (body, _) = body.split_once("\n}").unwrap();
            let fields = body
                .lines()
                .map(str::trim)
                .filter(|line| !line.starts_with(['/', '#', '}', ')']) && line.ends_with(','));
            let names = fields.filter_map(|line| Some(line.split_once(": ")?.0));
            let names: Vec<&str> =
                names.map(|name| name.strip_suffix("faults").map_or(name, |_| "fault")).collect();
            assert!(names.len() >= 5, "{name}: {names:?}");
            for field in names {
                // Type, default and meaning, with unit and range where there are any.
                let mut rows = source.lines().map(str::trim);
                let row = rows.find(|row| row.starts_with(&format!("/// | `{field}` |")));
                let cells = row.map_or(0, |row| {
                    row.split(" | ")
                        .skip(1)
                        .filter(|cell| !cell.trim_end_matches(" |").is_empty())
                        .count()
                });
                assert!(cells >= 3, "{name}, `{field}`: {row:?}");
            }
        }
    }

    #[test]
    fn every_setting_reaches_its_field() {
        let retry = Retry::builder().between_servers(true).attempts(3).build();
        let config = CommConfig::builder()
            .buffer_mib(64)
            .deterministic(Deterministic::Strict)
            .name("a")
            .note("b")
            .expansion(Expansion::Aiv)
            .rdma_traffic_class(252)
            .rdma_service_level(7)
            .world_rank(5)
            .job_id(6)
            .graph_zero_copy(true)
            .exec_timeout(Duration::from_secs(68))
            .algorithm("level0:NA;level1:ring")
            .retry(retry)
            .shared_buffer("c")
            .quality_of_service(1)
            .symmetric_window_gib(2)
            .channel_queue_depth(128)
            .build();
        let raw = config.to_raw(Some(Product::A2)).unwrap();
        assert_eq!((raw.hcclBufferSize, raw.hcclDeterministic), (64, 2));
        assert_eq!((read(&raw.hcclCommName), read(&raw.hcclUdi)), ("a".into(), "b".into()));
        assert_eq!((raw.hcclOpExpansionMode, raw.hcclRdmaTrafficClass), (3, 252));
        assert_eq!((raw.hcclRdmaServiceLevel, raw.hcclWorldRankID, raw.hcclJobID), (7, 5, 6));
        assert_eq!((raw.aclGraphZeroCopyEnable, raw.hcclExecTimeOut), (1, 68));
        assert_eq!(read(&raw.hcclAlgo), "level0:NA;level1:ring");
        assert_eq!(read(&raw.hcclRetryEnable), "L1:1, L2:0");
        assert_eq!(read(&raw.hcclRetryParams), "MaxCnt:3, HoldTime:5000, IntervalTime:1000");
        assert_eq!(read(&raw.hcclBufferName), "c");
        assert_eq!((raw.hcclQos, raw.hcclChannelSqDepth), (1, 128));
        assert_eq!(raw.hcclSymWinMaxMemSizePerRank, 2);
    }

    #[test]
    fn what_cann_would_refuse_or_misread_is_refused() {
        let b = CommConfig::builder;
        let a3 = Some(Product::A3);
        assert_eq!(refused(b().buffer_mib(0).build(), a3), "buffer_mib");
        assert_eq!(refused(b().buffer_mib(u32::MAX).build(), a3), "buffer_mib");
        assert_eq!(refused(b().deterministic(Deterministic::Strict).build(), a3), "deterministic");
        assert_eq!(refused(b().name("").build(), a3), "name");
        assert_eq!(refused(b().name("n".repeat(128)).build(), a3), "name");
        assert!(b().name("n".repeat(127)).build().to_raw(a3).is_ok());
        assert_eq!(refused(b().note("a\0b").build(), a3), "note");
        assert_eq!(refused(b().expansion(Expansion::CcuMemory).build(), a3), "expansion");
        assert_eq!(refused(b().rdma_traffic_class(130).build(), a3), "rdma_traffic_class");
        assert_eq!(refused(b().rdma_traffic_class(256).build(), a3), "rdma_traffic_class");
        assert_eq!(refused(b().rdma_service_level(8).build(), a3), "rdma_service_level");
        assert_eq!(refused(b().quality_of_service(8).build(), a3), "quality_of_service");
        for timeout in [Duration::ZERO, Duration::from_millis(1500), Duration::from_secs(1 << 31)] {
            assert_eq!(refused(b().exec_timeout(timeout).build(), a3), "exec_timeout");
        }
        for seconds in [1, 67, 100, 17_341, 17_408] {
            let config = b().exec_timeout(Duration::from_secs(seconds)).build();
            assert_eq!(refused(config.clone(), Some(Product::Ascend950)), "exec_timeout");
            for other in [Some(Product::A2), a3, None] {
                assert_eq!(config.to_raw(other).unwrap().hcclExecTimeOut, seconds as i32);
            }
        }
        for seconds in [68, 136, 17_340] {
            let config = b().exec_timeout(Duration::from_secs(seconds)).build();
            let raw = config.to_raw(Some(Product::Ascend950)).unwrap();
            assert_eq!(raw.hcclExecTimeOut, seconds as i32);
        }
        assert_eq!(refused(b().algorithm("a".repeat(1600)).build(), a3), "algorithm");
        let retry = Retry::builder().attempts(11).build();
        assert_eq!(refused(b().retry(retry).build(), a3), "retry.attempts");
        let retry = Retry::builder().hold(Duration::from_secs(61)).build();
        assert_eq!(refused(b().retry(retry).build(), a3), "retry.hold");
        let retry = Retry::builder().interval(Duration::from_micros(1)).build();
        assert_eq!(refused(b().retry(retry).build(), a3), "retry.interval");
        assert_eq!(refused(b().symmetric_window_gib(0).build(), a3), "symmetric_window_gib");
        assert_eq!(refused(b().channel_queue_depth(0).build(), a3), "channel_queue_depth");
    }

    #[test]
    fn the_message_says_what_to_do() {
        let config = CommConfig::builder().rdma_traffic_class(130).build();
        let message = config.to_raw(Some(Product::A3)).unwrap_err().to_string();
        assert_eq!(
            message,
            "communicator setting `rdma_traffic_class` is 130, but it must be a multiple of 4 and at most 252"
        );
    }
}
