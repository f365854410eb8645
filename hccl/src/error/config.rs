//! The mistakes in the settings of a communicator.

/// A setting that CANN would refuse, ignore or misread.
///
/// ```
/// use std::time::Duration;
///
/// use hccl::Error;
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let root = RootInfo::new(&device)?;
/// let config = CommConfig::builder().exec_timeout(Duration::from_millis(1500)).build();
/// let builder = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
/// if let Err(Error::Refused { cause, .. }) = builder.config(config).build().wait()
///     && let Error::Config(error) = *cause
/// {
///     eprintln!("{} must not be {}: {}", error.setting, error.value, error.rule);
///     assert_eq!(error.setting, "exec_timeout");
/// }
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("communicator setting `{setting}` is {value}, but {rule}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The name of the setting in [`CommConfig`](crate::comm::CommConfig).
    pub setting: &'static str,
    /// The value that was given.
    pub value: String,
    /// The rule of CANN for the value, as text.
    pub rule: &'static str,
}
