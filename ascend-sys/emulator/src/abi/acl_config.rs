//! The configuration file of `aclInit`. It is a JSON object; the emulator uses only `err_msg_mode`
//! and `defaultDevice`.

use std::ffi::CString;
use std::path::Path;

use ascend_sys::{
    ACL_ERROR_FILE_ATTR_INVALID, ACL_ERROR_INVALID_FILE, ACL_ERROR_INVALID_FILE_SIZE,
    ACL_ERROR_PARSE_FILE,
};
use serde_json::Value;

use super::files;
use crate::message::{self, Failure, fail};
use crate::{context, machine};

/// The largest size of a configuration file in bytes.
const MOST_BYTES: usize = 10 << 20;

/// The settings of a file that the emulator uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AclConfig {
    /// Whether error texts belong to the process instead of the thread.
    texts_of_process: bool,
    /// The device of a thread that has set none.
    default_device: Option<i32>,
}

impl AclConfig {
    /// Reads a file. Also returns its text, for the callbacks of `aclInit`.
    pub(super) fn read(path: &str) -> Result<(AclConfig, CString), Failure> {
        match files::read(Path::new(path), MOST_BYTES) {
            Ok(Some(bytes)) => {
                let config = AclConfig::of(&bytes, path)?;
                // Valid JSON contains no NUL.
                Ok((config, CString::new(bytes).unwrap_or_default()))
            }
            Ok(None) => {
                fail!(
                    ACL_ERROR_INVALID_FILE_SIZE,
                    "{path} has more than {MOST_BYTES} bytes; pass a smaller configuration file"
                )
            }
            Err(error) => {
                fail!(
                    ACL_ERROR_INVALID_FILE,
                    "cannot read the configuration {path}: {error}; pass the path of a readable \
                     file, or NULL"
                )
            }
        }
    }

    fn of(bytes: &[u8], path: &str) -> Result<AclConfig, Failure> {
        let object = match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => object,
            Ok(_) => {
                return fail!(
                    ACL_ERROR_PARSE_FILE,
                    "{path} is JSON, but not an object; write the settings as one object, for \
                     example {{}}"
                );
            }
            Err(error) => {
                return fail!(
                    ACL_ERROR_PARSE_FILE,
                    "{path} is not valid JSON: {error}; correct the file"
                );
            }
        };
        let mut config = AclConfig::default();
        if let Some(mode) = object.get("err_msg_mode") {
            config.texts_of_process = match number(mode) {
                Some(0) => false,
                Some(1) => true,
                _ => {
                    return fail!(
                        ACL_ERROR_FILE_ATTR_INVALID,
                        "{path}: err_msg_mode is {mode}; set 0 (thread) or 1 (process)"
                    );
                }
            };
        }
        if let Some(device) = object.get("defaultDevice") {
            let id = number(device.get("default_device").unwrap_or(device));
            match id.and_then(|id| i32::try_from(id).ok()) {
                Some(id) => config.default_device = Some(id),
                None => {
                    return fail!(
                        ACL_ERROR_FILE_ATTR_INVALID,
                        "{path}: defaultDevice is {device}; write for example \
                         {{\"default_device\": \"0\"}}"
                    );
                }
            }
        }
        Ok(config)
    }

    /// Applies the settings to the process. Returns an error without a change if the device does
    /// not exist.
    pub(super) fn apply(&self) -> Result<(), Failure> {
        if let Some(device) = self.default_device {
            machine::find_device(device)?;
        }
        context::set_default_device(self.default_device);
        message::keep_for_process(self.texts_of_process);
        Ok(())
    }
}

/// Reads a number, which may be written as a string.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AclConfig, i32> {
        AclConfig::of(text.as_bytes(), "acl.json").map_err(|failure| failure.acl_code())
    }

    #[test]
    fn the_settings_that_are_followed_are_read_and_the_others_are_left() {
        let none = AclConfig::default();
        assert_eq!(read("{}"), Ok(AclConfig::default()));
        assert_eq!(read(r#"{"dump": {"dump_list": []}, "profiler": {}}"#), Ok(none));
        for mode in [r#""1""#, "1"] {
            let config = read(&format!(r#"{{"err_msg_mode": {mode}}}"#)).unwrap();
            assert!(config.texts_of_process);
        }
        assert!(!read(r#"{"err_msg_mode": "0"}"#).unwrap().texts_of_process);
        for device in [r#"{"default_device": "3"}"#, r#"{"default_device": 3}"#, "3"] {
            let config = read(&format!(r#"{{"defaultDevice": {device}}}"#)).unwrap();
            assert_eq!(config.default_device, Some(3));
        }
    }

    #[test]
    fn a_configuration_that_is_wrong_is_refused() {
        for text in ["", "[]", "{", "err_msg_mode = 1"] {
            assert_eq!(read(text), Err(ACL_ERROR_PARSE_FILE), "{text}");
        }
        for text in [
            r#"{"err_msg_mode": "2"}"#,
            r#"{"err_msg_mode": null}"#,
            r#"{"defaultDevice": {"default_device": "one"}}"#,
            r#"{"defaultDevice": {}}"#,
            r#"{"defaultDevice": 99999999999}"#,
        ] {
            assert_eq!(read(text), Err(ACL_ERROR_FILE_ATTR_INVALID), "{text}");
        }
    }
}
