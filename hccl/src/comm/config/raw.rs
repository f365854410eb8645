//! The conversion of the settings to CANN's structure, which checks every field.

use std::ffi::c_char;
use std::time::Duration;

use ascend_sys::HcclCommConfig;

use super::{CommConfig, Deterministic, Expansion, Retry};
use crate::error::config::ConfigError;
use crate::error::product::Product;

type ConfigResult<T> = Result<T, ConfigError>;

fn refuse<T>(setting: &'static str, value: impl ToString, rule: &'static str) -> ConfigResult<T> {
    Err(ConfigError { setting, value: value.to_string(), rule })
}

impl CommConfig {
    /// Sets a name if the user gave none. A name that is longer than CANN accepts is not set, so
    /// that CANN makes one.
    pub(in crate::comm) fn name_if_none(&mut self, name: impl FnOnce() -> String) {
        if self.name.is_none() {
            self.name = Some(name()).filter(|name| name.len() < initial().hcclCommName.len());
        }
    }

    /// Returns the settings as CANN's structure, with every field checked. If the product is known,
    /// the rules of the product apply.
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

/// Returns the structure with the values that the inline function `HcclCommConfigInit` of CANN's
/// header writes.
fn initial() -> HcclCommConfig {
    // CANN's header does not name the fields of the head: size, magic word, version, reserved.
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

/// Copies a text into a zeroed field, so that a NUL follows it. Rejects a text that is empty,
/// contains a NUL, or does not fit, which CANN would cut without an error.
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

/// Returns the time in seconds if it is in the range of the product. CANN also accepts 0, which
/// means no limit. 0 is rejected here, because the wait would have no deadline.
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
