//! The settings of a communicator: `HcclCommConfig`, version 11, with every field checked before
//! CANN sees it.
//!
//! CANN accepts some mistakes silently. For example, it ignores or rounds an execution timeout that
//! is out of range, and it cuts a name that is too long. So the checks here are stricter. A setting
//! that is not given keeps the value of the environment variable, or else CANN's default.

mod raw;

use std::time::Duration;

use typed_builder::TypedBuilder;

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
/// | `shared_buffer` | text | 1 to 127 bytes | none | name of a staging buffer, which communicators of a device share if they give the same name |
/// | `quality_of_service` | `u32` | 0 to 7 | CANN's | priority of the packets |
/// | `symmetric_window_gib` | `u64`, GiB | 1 to 2^34 | 16 | address space for symmetric windows on each rank |
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
        doc = "A builder of a [`CommConfig`]. Each method sets one setting, and all are optional. Returned by [`CommConfig::builder`].\n\n\
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
    /// The degree to which the same inputs give the same bits on every run.
    deterministic: Option<Deterministic>,
    /// The name of the communicator, 1 to 127 bytes, no NUL. A device cannot have two communicators
    /// with the same name.
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
    /// The time that an operation may wait on the device for its peers: whole seconds, 1 to
    /// 2,147,483,647. On the Ascend 950 it is a multiple of 68 s, at most 17,340 s. CANN's default
    /// is 1836 s.
    exec_timeout: Option<Duration>,
    /// The algorithms by level, in the syntax of the environment variable `HCCL_ALGO`, 1 to 1599
    /// bytes.
    #[builder(setter(into))]
    algorithm: Option<String>,
    /// The settings for issuing a failed operation again (A3).
    retry: Option<Retry>,
    /// The name of a staging buffer: 1 to 127 bytes, no NUL. Communicators of a device that give
    /// the same name share the buffer, and must issue their operations on one stream.
    #[builder(setter(into))]
    shared_buffer: Option<String>,
    /// The priority of the packets: 0 to 7.
    quality_of_service: Option<u32>,
    /// The address space reserved for symmetric windows on each rank, in GiB, 1 to 2^34; CANN's
    /// default is 16.
    symmetric_window_gib: Option<u64>,
    /// The depth of the send queue of a channel, in entries, at least 1.
    channel_queue_depth: Option<u32>,
}

/// The degree to which the same inputs give the same bits on every run.
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
    /// The same as [`On`](Self::On), and elements are also added in the order of the ranks. Only
    /// the A2 has it.
    Strict,
}

/// The place where operations are unfolded into device tasks.
///
/// ```
/// use hccl::comm::{CommConfig, Expansion};
///
/// // Vector cores start small operations with the least delay. If they have no algorithm for an
/// // operation, HCCL unfolds it elsewhere.
/// let config = CommConfig::builder().expansion(Expansion::Aiv).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expansion {
    /// The host unfolds the operations.
    Host,
    /// The AI CPU of the device unfolds the operations.
    AiCpu,
    /// Vector cores of the device unfold the operations for which they have an algorithm. The other
    /// operations are unfolded elsewhere.
    Aiv,
    /// Only vector cores unfold operations. CANN rejects an operation for which they have no
    /// algorithm.
    AivOnly,
    /// The communication unit unfolds the operations, and uses its own memory (Ascend 950).
    CcuMemory,
    /// The communication unit unfolds the operations, and acts as a scheduler (Ascend 950).
    CcuScheduler,
}

/// The settings for issuing a failed operation again (A3).
///
/// | setting | type | default | |
/// | --- | --- | --- | --- |
/// | `between_servers` | `bool` | `false` | whether operations between servers are issued again |
/// | `between_superpods` | `bool` | `false` | the same between super-pods |
/// | `attempts` | `u32` | 1 | the number of attempts, 1 to 10 |
/// | `hold` | `Duration` | 5 s | the time to wait before the first attempt: whole milliseconds, at most 60 s |
/// | `interval` | `Duration` | 1 s | the time to wait between attempts: whole milliseconds, at most 60 s |
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
        doc = "A builder of a [`Retry`]. Each method sets one setting, and all are optional. Returned by [`Retry::builder`].\n\n\
            ```\n\
            use hccl::comm::Retry;\n\
            \n\
            let retry = Retry::builder().between_servers(true).attempts(2).build();\n\
            ```"
    )
)]
pub struct Retry {
    /// Whether operations between servers are issued again, `false` by default.
    #[builder(default)]
    between_servers: bool,
    /// Whether operations between super-pods are issued again, `false` by default.
    #[builder(default)]
    between_superpods: bool,
    /// The number of attempts: 1 to 10, 1 by default.
    #[builder(default = 1)]
    attempts: u32,
    /// The time to wait before the first attempt: whole milliseconds, at most 60 s, 5 s by default.
    #[builder(default = Duration::from_secs(5))]
    hold: Duration,
    /// The time to wait between attempts: whole milliseconds, at most 60 s, 1 s by default.
    #[builder(default = Duration::from_secs(1))]
    interval: Duration,
}

impl CommConfig {
    /// Returns the name that the user gave.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of seconds that an operation may wait for its peers, or `None` if the
    /// user gave no limit.
    pub(crate) fn exec_seconds(&self) -> Option<u32> {
        self.exec_timeout.map(|limit| u32::try_from(limit.as_secs()).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    /// The builders are generated, so only the tables show the type, the range and the default of a
    /// setting.
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
                // A row has at least a type, a default and a meaning, with unit and range where
                // there are any.
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
}
