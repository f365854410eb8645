//! The mistakes in the settings of a communicator.

/// A setting that CANN would refuse, ignore or misread.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("communicator setting `{setting}` is {value}, but {rule}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the setting in [`CommConfig`](crate::comm::CommConfig).
    pub setting: &'static str,
    /// The value that was given.
    pub value: String,
    /// The rule of CANN for the value.
    pub rule: &'static str,
}
