//! The error of a setting, and texts of settings as CANN's bytes.

use std::borrow::Cow;

use super::TilingError;

pub(super) type TilingResult<T = ()> = Result<T, TilingError>;

/// Returns the error of a setting.
pub(super) fn refuse<T>(
    setting: &'static str,
    value: impl ToString,
    rule: impl Into<Cow<'static, str>>,
) -> TilingResult<T> {
    let value = value.to_string().into();
    Err(TilingError::Setting { setting, value, rule: rule.into() })
}

/// Checks a text and returns it as CANN's 128 bytes, padded with NULs. The text must leave room for
/// one NUL, because CANN's class copies nothing of a longer text. `least` is the minimum length in
/// bytes.
pub(super) fn text(setting: &'static str, value: &str, least: usize) -> TilingResult<[u8; 128]> {
    let mut bytes = [0; 128];
    if value.len() < least || value.len() >= bytes.len() || value.contains('\0') {
        let rule = if least == 0 {
            "it must have at most 127 bytes and no NUL; use another text"
        } else {
            "it must have 1 to 127 bytes and no NUL; use another text"
        };
        return refuse(setting, format!("{value:?} ({} bytes)", value.len()), rule);
    }
    bytes[..value.len()].copy_from_slice(value.as_bytes());
    Ok(bytes)
}
