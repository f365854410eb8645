//! What a block should be like, and what environment variables say of that. The errors name the variable that is wrong.

use crate::faults::asked;
use crate::message::Failure;
use crate::profile::{self, BUFFER_MEGABYTES, Product};
use ascend_program::check::Late;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Ids below this belong to the default block.
pub(super) const DEFAULT_IDS: u32 = 64;

/// What a block should be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRequest {
    pub(crate) count: u32,
    pub(crate) product: Product,
    pub(crate) connect_timeout: Duration,
    pub(crate) exec_timeout: Duration,
    pub(crate) buffer_megabytes: u32,
    /// Of each device, in bytes; 0 for what the product has.
    pub(crate) memory: u64,
    /// Whether it is watched for races.
    pub(crate) checked: bool,
    /// What chooses the order of units, cores and servers of kernels; 0: it is that of the program.
    pub(crate) kernel_seed: u64,
    /// Who is late in kernels, to the utmost.
    pub(crate) kernel_late: Option<Late>,
}

/// What goes wrong on devices that C programs see.
pub(super) fn faults_from_environment(
    variable: impl Fn(&str) -> Option<String>,
    devices: u32,
) -> Result<Vec<asked::WantedFault>, String> {
    const NAME: &str = "ASCEND_EMULATOR_FAULTS";
    let text = variable(NAME).unwrap_or_default();
    asked::parse(&text, devices).map_err(|why| format!("{NAME}: {why}"))
}

/// The seed of kernels, also for blocks that name none: so any test can be run under seeds.
const KERNEL_SEED: &str = "ASCEND_EMULATOR_KERNEL_SEED";

/// What chooses the order of kernels where a block does not say.
pub(crate) fn kernel_seed_from_environment() -> Result<u64, Failure> {
    number(KERNEL_SEED, std::env::var(KERNEL_SEED).ok(), 0..=u64::MAX, 0)
        .map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text))
}

/// Who is late in kernels, also for blocks that name nobody.
const KERNEL_LATE: &str = "ASCEND_EMULATOR_KERNEL_LATE";

/// Who is late where a block does not say.
pub(crate) fn kernel_late_from_environment() -> Result<Option<Late>, Failure> {
    late(KERNEL_LATE, std::env::var(KERNEL_LATE).ok())
        .map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text))
}

/// Who is late, by the text that `name` has, if it has one.
pub(crate) fn late(name: &str, text: Option<String>) -> Result<Option<Late>, String> {
    let late = text.map(|text| text.trim().parse()).transpose();
    late.map_err(|why: String| format!("{name}={why}"))
}

/// The number that a variable has, if it is set.
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

/// What the devices are like that C programs see.
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
        connect_timeout: Duration::from_secs(number(
            "HCCL_CONNECT_TIMEOUT",
            1,
            7200,
            profile::CONNECT_TIMEOUT.as_secs(),
        )?),
        exec_timeout: Duration::from_secs(number(
            "HCCL_EXEC_TIMEOUT",
            0,
            2_147_483_647,
            profile::EXEC_TIMEOUT.as_secs(),
        )?),
        buffer_megabytes: number("HCCL_BUFFSIZE", 1, 1 << 20, BUFFER_MEGABYTES.into())? as u32,
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
        // Zero is CANN's word for never.
        assert_eq!(with("HCCL_EXEC_TIMEOUT", "0").map(|r| r.exec_timeout), Ok(Duration::ZERO));
        assert!(with("HCCL_EXEC_TIMEOUT", "-1").unwrap_err().contains("HCCL_EXEC_TIMEOUT=-1"));
        let server = with("ASCEND_EMULATOR_KERNEL_LATE", "server").map(|r| r.kernel_late);
        assert_eq!(server, Ok(Some(Late::Server)));
        let late = with("ASCEND_EMULATOR_KERNEL_LATE", "line 3").unwrap_err();
        assert!(
            late.contains("ASCEND_EMULATOR_KERNEL_LATE=\"line 3\": a core and a line"),
            "{late}"
        );
        assert!(with("ASCEND_EMULATOR_CHECK", "race").is_ok_and(|r| r.checked));
        assert!(with("ASCEND_EMULATOR_CHECK", "on").unwrap_err().contains("`race` is expected"));
        assert_eq!(with("HCCL_BUFFSIZE", "7").map(|r| r.buffer_megabytes), Ok(7));
        assert!(with("HCCL_BUFFSIZE", "0").unwrap_err().contains("HCCL_BUFFSIZE=0"));
        assert!(with("HCCL_CONNECT_TIMEOUT", "0").unwrap_err().contains("HCCL_CONNECT_TIMEOUT=0"));
        let faults = faults_from_environment(|_| Some("stop 8".into()), 8).unwrap_err();
        assert!(faults.contains("ASCEND_EMULATOR_FAULTS: \"stop 8\": there are 8"), "{faults}");
    }
}
