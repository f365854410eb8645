//! An order in which the result of a kernel is wrong, and the form in which a test requests it.

use std::ffi::c_char;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::core_name::CoreName;
use crate::declared::Core;

/// An order of units, cores and turns in which the result is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The order, in words.
    pub text: String,
    /// The part of the kernel that is late in this order. The emulator runs kernels in this order
    /// if `ASCEND_EMULATOR_KERNEL_LATE` requests it.
    pub late: Late,
}

/// The part of a kernel that works as late as the rules allow. Its text form is `aiv 3:40` or
/// `server`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The units of a core are late with the work that a line gives them.
    Line {
        /// The kind of the core.
        kind: Core,
        /// The index of the core among the cores of its kind.
        index: u32,
        /// The line, from 1.
        line: u32,
    },
    /// The server is late with every turn.
    Server,
}

impl Late {
    pub(super) fn line(core: CoreName, line: u32) -> Late {
        Late::Line { kind: core.kind, index: core.index, line }
    }

    /// Returns the text form as C characters, for `kernelLate` of `AscendExtBlockConfig`. The
    /// longest text has 25 letters, and a NUL follows it.
    pub fn letters(self) -> [c_char; 32] {
        let mut letters = [0; 32];
        let text = self.to_string();
        for (to, letter) in letters.iter_mut().zip(text.bytes()) {
            *to = c_char::from_ne_bytes([letter]);
        }
        letters
    }
}

impl Display for Late {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Late::Line { kind, index, line } => write!(f, "{}:{line}", CoreName { kind, index }),
            Late::Server => f.write_str("server"),
        }
    }
}

impl FromStr for Late {
    type Err = String;

    fn from_str(text: &str) -> Result<Late, String> {
        let line = || {
            let (core, line) = text.split_once(':')?;
            let (kind, index) = core.split_once(' ')?;
            let kind = match kind {
                "aic" => Core::Aic,
                "aiv" => Core::Aiv,
                _ => return None,
            };
            Some(Late::Line { kind, index: index.parse().ok()?, line: line.parse().ok()? })
        };
        match text {
            "server" => Ok(Late::Server),
            _ => line().ok_or_else(|| {
                format!("{text:?} is not a core and a line, such as `aiv 3:40`, or `server`")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read() {
        let late = |kind| Late::Line { kind, index: 3, line: 40 };
        for late in [late(Core::Aic), late(Core::Aiv), Late::Server] {
            assert_eq!(late.to_string().parse(), Ok(late));
        }
        let longest = Late::Line { kind: Core::Aiv, index: u32::MAX, line: u32::MAX };
        assert_eq!(longest.to_string().len(), 25);
        for text in ["", "aiv", "aiv 3", "aiv 3:", "aiv:40", "aix 3:40", "aiv -1:4", "aiv 3:40 "] {
            let why = text.parse::<Late>().expect_err(text);
            assert!(why.contains("aiv 3:40") && why.contains("server"), "{why}");
        }
    }
}
