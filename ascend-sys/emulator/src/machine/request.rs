//! Requests for blocks of devices, and the environment variables that describe them. Errors name
//! the variable that is wrong.

use crate::faults::asked;
use crate::message::Failure;
use crate::profile::{self, BUFFER_MEGABYTES, Product};
use ascend_program::check::Late;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Ids below this belong to the default block.
pub(super) const DEFAULT_IDS: u32 = 64;

/// The properties of a block that is requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRequest {
    pub(crate) count: u32,
    pub(crate) product: Product,
    pub(crate) connect_timeout: Duration,
    pub(crate) exec_timeout: Duration,
    pub(crate) buffer_megabytes: u32,
    /// The `hcclOpExpansionMode` of communicators that do not set it.
    pub(crate) expansion: u32,
    /// The memory of each device, in bytes. 0 means that of the product, or less if the addresses
    /// do not suffice.
    pub(crate) memory: u64,
    /// Whether the devices are watched for races.
    pub(crate) checked: bool,
    /// The seed of the order of units, cores and servers of kernels; 0 means the order of the
    /// program.
    pub(crate) kernel_seed: u64,
    /// The unit or server that is as late as possible in kernels.
    pub(crate) kernel_late: Option<Late>,
}

/// Returns the faults on the devices that C programs see.
pub(super) fn faults_from_environment(
    variable: impl Fn(&str) -> Option<String>,
    devices: u32,
) -> Result<Vec<asked::WantedFault>, String> {
    const NAME: &str = "ASCEND_EMULATOR_FAULTS";
    let text = variable(NAME).unwrap_or_default();
    asked::parse(&text, devices).map_err(|why| format!("{NAME}: {why}"))
}

/// Returns a variable of the environment. Bytes that are not UTF-8 become the replacement
/// character. No setting accepts that character, so the value is an error like any other wrong
/// value.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The variable with the seed of kernels. It also applies to blocks that set no seed, so that any
/// test can be run under seeds.
const KERNEL_SEED: &str = "ASCEND_EMULATOR_KERNEL_SEED";

/// Returns the seed of kernels for blocks that set none.
pub(crate) fn kernel_seed_from_environment() -> Result<u64, Failure> {
    number(KERNEL_SEED, variable(KERNEL_SEED), 0..=u64::MAX, 0)
        .map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text))
}

/// The variable that names the late participant of kernels, for blocks that set none.
const KERNEL_LATE: &str = "ASCEND_EMULATOR_KERNEL_LATE";

/// Returns the late participant in kernels of blocks that set none.
pub(crate) fn kernel_late_from_environment() -> Result<Option<Late>, Failure> {
    late(KERNEL_LATE, variable(KERNEL_LATE))
        .map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text))
}

/// Parses the late participant from `text`, the value of the variable `name`. Returns `None` if the
/// variable is not set.
pub(crate) fn late(name: &str, text: Option<String>) -> Result<Option<Late>, String> {
    let late = text.map(|text| text.trim().parse()).transpose();
    late.map_err(|why: String| format!("{name}={why}"))
}

/// Returns the number that a variable has, or `unset` if the variable is not set.
fn number(
    name: &str,
    text: Option<String>,
    possible: RangeInclusive<u64>,
    unset: u64,
) -> Result<u64, String> {
    let Some(text) = text else { return Ok(unset) };
    match text.trim().parse() {
        Ok(value) if possible.contains(&value) => Ok(value),
        _ => {
            let (least, most) = (possible.start(), possible.end());
            Err(format!("{name}={text}: a whole number from {least} to {most} is expected"))
        }
    }
}

/// Returns the request for the block of devices that C programs see.
pub(super) fn request_from_environment(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<BlockRequest, String> {
    let number = |name: &str, least: u64, most: u64, unset: u64| {
        number(name, variable(name), least..=most, unset)
    };
    let product = match variable("ASCEND_EMULATOR_PRODUCT") {
        None => Product::A3,
        Some(name) => Product::from_name(&name)
            .ok_or_else(|| format!("ASCEND_EMULATOR_PRODUCT={name}: A2, A3 or 950 is expected"))?,
    };
    Ok(BlockRequest {
        count: number("ASCEND_EMULATOR_DEVICES", 1, u64::from(DEFAULT_IDS), 8)? as u32,
        product,
        connect_timeout: profile::CONNECT_TIMEOUT,
        exec_timeout: profile::EXEC_TIMEOUT,
        buffer_megabytes: BUFFER_MEGABYTES,
        expansion: 0,
        memory: number("ASCEND_EMULATOR_MEMORY", 1 << 20, 1 << 40, 0)?,
        kernel_seed: number(KERNEL_SEED, 0, u64::MAX, 0)?,
        kernel_late: late(KERNEL_LATE, variable(KERNEL_LATE))?,
        checked: match variable("ASCEND_EMULATOR_CHECK").as_deref() {
            None | Some("") => false,
            Some("race") => true,
            Some(other) => {
                return Err(format!(
                    "ASCEND_EMULATOR_CHECK={other}: `race` is expected, or nothing"
                ));
            }
        },
    })
}

impl BlockRequest {
    /// Applies the variables of HCCL to the devices that C programs see. If a variable is wrong,
    /// changes nothing and returns an error that names it.
    pub(super) fn read_hccl_variables(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        let number = |name: &str, least: u64, most: u64, unset: u64| {
            number(name, variable(name), least..=most, unset)
        };
        let connect = number("HCCL_CONNECT_TIMEOUT", 1, 7200, self.connect_timeout.as_secs())?;
        let exec = number("HCCL_EXEC_TIMEOUT", 0, 2_147_483_647, self.exec_timeout.as_secs())?;
        let megabytes = number("HCCL_BUFFSIZE", 1, 1 << 20, self.buffer_megabytes.into())?;
        let expansion = match variable("HCCL_OP_EXPANSION_MODE") {
            Some(mode) => expansion_by_name(self.product, &mode)?,
            None => 0,
        };
        self.connect_timeout = Duration::from_secs(connect);
        self.exec_timeout = Duration::from_secs(exec);
        self.buffer_megabytes = megabytes as u32;
        self.expansion = expansion;
        Ok(())
    }
}

/// Returns the `hcclOpExpansionMode` for a value of `HCCL_OP_EXPANSION_MODE`. A2 and A3 treat any
/// other word as if the variable were not set; Ascend 950 refuses it.
fn expansion_by_name(product: Product, name: &str) -> Result<u32, String> {
    const HOST: u32 = 1;
    const AI_CPU: u32 = 2;
    const AIV: u32 = 3;
    const CCU_MS: u32 = 5;
    const CCU_SCHED: u32 = 6;
    let known: &[(&str, u32)] = match product {
        Product::A2 => &[("HOST", HOST), ("HOST_TS", HOST), ("AI_CPU", AI_CPU), ("AIV", AIV)],
        Product::A3 => &[("AI_CPU", AI_CPU), ("AICPU_CacheDisable", AI_CPU), ("AIV", AIV)],
        // CANN has one number for the AI CPU and one for its task scheduler. No answer of CANN
        // depends on the difference.
        Product::Ascend950 => &[
            ("AI_CPU", AI_CPU),
            ("AICPU_TS", AI_CPU),
            ("AICPU_CacheDisable", AI_CPU),
            ("AIV", AIV),
            ("CCU_MS", CCU_MS),
            ("CCU_SCHED", CCU_SCHED),
        ],
    };
    match known.iter().find(|(word, _)| *word == name) {
        Some((_, mode)) => Ok(*mode),
        None if product != Product::Ascend950 => Ok(0),
        None => {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            Err(format!("HCCL_OP_EXPANSION_MODE={name}: {} is expected", words.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_are_named_when_they_are_wrong() {
        let with = |name: &'static str, value: &'static str| {
            request_from_environment(move |asked| (asked == name).then(|| value.to_string()))
        };
        assert_eq!(with("", "").map(|r| (r.count, r.product)), Ok((8, Product::A3)));
        assert_eq!(with("ASCEND_EMULATOR_DEVICES", "3").map(|r| r.count), Ok(3));
        assert!(
            with("ASCEND_EMULATOR_DEVICES", "65")
                .unwrap_err()
                .contains("ASCEND_EMULATOR_DEVICES=65")
        );
        assert!(with("ASCEND_EMULATOR_PRODUCT", "H100").unwrap_err().contains("A2, A3 or 950"));
        let server = with("ASCEND_EMULATOR_KERNEL_LATE", "server").map(|r| r.kernel_late);
        assert_eq!(server, Ok(Some(Late::Server)));
        let late = with("ASCEND_EMULATOR_KERNEL_LATE", "line 3").unwrap_err();
        assert!(
            late.contains("ASCEND_EMULATOR_KERNEL_LATE=\"line 3\" is not a core and a line"),
            "{late}"
        );
        assert!(with("ASCEND_EMULATOR_CHECK", "race").is_ok_and(|r| r.checked));
        assert!(with("ASCEND_EMULATOR_CHECK", "on").unwrap_err().contains("`race` is expected"));
        let faults = faults_from_environment(|_| Some("stop 8".into()), 8).unwrap_err();
        assert!(
            faults.contains("ASCEND_EMULATOR_FAULTS: \"stop 8\": write a device below 8"),
            "{faults}"
        );
    }

    #[test]
    fn variables_of_hccl_are_named_when_they_are_wrong_and_then_change_nothing() {
        let with = |product: &str, name: &'static str, value: &str| {
            let (product, value) = (product.to_owned(), value.to_owned());
            let variable = move |asked: &str| match asked {
                "ASCEND_EMULATOR_PRODUCT" => Some(product.clone()),
                asked => (asked == name).then(|| value.clone()),
            };
            let mut request = request_from_environment(&variable).unwrap();
            let read = request.read_hccl_variables(&variable);
            (request, read)
        };
        // In CANN, zero means never.
        assert_eq!(with("A3", "HCCL_EXEC_TIMEOUT", "0").0.exec_timeout, Duration::ZERO);
        assert_eq!(with("A3", "HCCL_BUFFSIZE", "7").0.buffer_megabytes, 7);
        for (name, value) in [
            ("HCCL_EXEC_TIMEOUT", "-1"),
            ("HCCL_BUFFSIZE", "0"),
            ("HCCL_CONNECT_TIMEOUT", "0"),
            ("HCCL_CONNECT_TIMEOUT", "soon"),
        ] {
            let (request, read) = with("A3", name, value);
            let text = read.unwrap_err();
            assert!(text.starts_with(&format!("{name}={value}: ")), "{text}");
            let unset = (profile::CONNECT_TIMEOUT, profile::EXEC_TIMEOUT, BUFFER_MEGABYTES);
            let left = (request.connect_timeout, request.exec_timeout, request.buffer_megabytes);
            assert_eq!(left, unset);
        }
        let expansion = |product, mode| {
            let (request, read) = with(product, "HCCL_OP_EXPANSION_MODE", mode);
            assert_eq!(read, Ok(()));
            request.expansion
        };
        for (mode, on_a2, on_a3, on_950) in [
            ("AI_CPU", 2, 2, 2),
            ("AICPU_CacheDisable", 0, 2, 2),
            ("AICPU_TS", 0, 0, 2),
            ("AIV", 3, 3, 3),
            ("CCU_MS", 0, 0, 5),
            ("CCU_SCHED", 0, 0, 6),
        ] {
            let found = ["A2", "A3", "950"].map(|product| expansion(product, mode));
            assert_eq!(found, [on_a2, on_a3, on_950], "{mode}");
        }
        assert_eq!((expansion("A2", "HOST"), expansion("A2", "HOST_TS")), (1, 1));
        assert_eq!(expansion("A3", "HOST"), 0);
        for junk in ["junk", "", "aiv", "HOST"] {
            let text = with("950", "HCCL_OP_EXPANSION_MODE", junk).1.unwrap_err();
            assert!(text.contains(&format!("HCCL_OP_EXPANSION_MODE={junk}: AI_CPU, ")), "{text}");
            assert_eq!(with("A3", "HCCL_OP_EXPANSION_MODE", junk).1, Ok(()));
            assert_eq!(with("A2", "HCCL_OP_EXPANSION_MODE", junk).1, Ok(()));
        }
    }
}
