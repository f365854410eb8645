//! The keys of exports as text. A process passes a key to another process, which imports the object
//! by the key.

use serde::{Deserialize, Serialize};

use crate::message::{Failure, fail};
use crate::processes::peer::Home;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;

/// The number of characters of a key. With a NUL, they are the 65 bytes that CANN requires.
pub(crate) const KEY: usize = 64;
/// The version of the text, which is its fourth character.
const VERSION: char = '1';
/// The number of bits of an export's number.
const NUMBER_BITS: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExportKind {
    Memory,
    Event,
    Notify,
    /// Memory that is registered on an endpoint.
    Registered,
    /// Physical memory, independent of the addresses at which it is mapped.
    Physical,
}

impl ExportKind {
    const ALL: [Self; 5] =
        [Self::Memory, Self::Event, Self::Notify, Self::Registered, Self::Physical];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Event => "an event",
            Self::Notify => "a notify",
            Self::Registered => "registered memory",
            Self::Physical => "physical memory",
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Memory => 'm',
            Self::Event => 'e',
            Self::Notify => 'n',
            Self::Registered => 'r',
            Self::Physical => 'p',
        }
    }
}

/// The key of an export; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportKey {
    pub(crate) kind: ExportKind,
    /// The process that has exported the object.
    pub(crate) home: Home,
    /// The number of the export in that process. It is random, so other processes cannot guess it.
    pub(crate) number: u64,
}

impl ExportKey {
    pub(crate) fn new(kind: ExportKind, home: Home, random: u64) -> Self {
        Self { kind, home, number: random >> (u64::BITS - NUMBER_BITS) }
    }

    pub(crate) fn text(&self) -> String {
        let Self { kind, home: Home { process, name, secret }, number } = *self;
        let letter = kind.letter();
        let said = format!("ae{letter}{VERSION}{process:08x}{name:016x}{secret:016x}{number:012x}");
        let sum = check(said.as_bytes());
        format!("{said}{sum:08x}")
    }

    /// Parses the key of an object of this kind from a text; the error says what is wrong with the
    /// text.
    pub(crate) fn of(text: &[u8], wanted: ExportKind) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "this is not a key of {wanted}: {what}; pass a key of {wanted}, as it was exported",
                wanted = wanted.name()
            )
        };
        let Ok(text) = std::str::from_utf8(text) else { return wrong("it is not text") };
        let mut head = text.chars();
        if [head.next(), head.next()] != [Some('a'), Some('e')] {
            return wrong("keys of this emulator begin with \"ae\"");
        }
        let (letter, version) = (head.next(), head.next());
        if version != Some(VERSION) {
            return wrong(
                "another version of the emulator has made it, but all processes need the same \
                 version",
            );
        }
        let (Some(said), Some(sum)) = (text.get(..KEY - 8), text.get(KEY - 8..)) else {
            return wrong(&format!("a key has {} characters, this text has {}", KEY, text.len()));
        };
        if u32::from_str_radix(sum, 16).ok() != Some(check(said.as_bytes())) || text.len() != KEY {
            return wrong("it was damaged on its way");
        }
        let word = |from: usize, to: usize| u64::from_str_radix(text.get(from..to)?, 16).ok();
        let kind = ExportKind::ALL.into_iter().find(|kind| Some(kind.letter()) == letter);
        let words = (word(4, 12), word(12, 28), word(28, 44), word(44, 56));
        let (Some(kind), (Some(process), Some(name), Some(secret), Some(number))) = (kind, words)
        else {
            return wrong("it was damaged on its way");
        };
        if kind != wanted {
            return wrong(&format!("it is a key of {}", kind.name()));
        }
        let home = Home { process: process as u32, name, secret };
        Ok(Self { kind, home, number })
    }
}

fn check(said: &[u8]) -> u32 {
    said.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_was_made_and_any_other_text_is_refused() {
        let home = Home { process: 4711, name: 0xfedc_ba98_7654_3210, secret: 3 };
        let key = ExportKey::new(ExportKind::Notify, home, u64::MAX - 5);
        let text = key.text();
        assert_eq!(text.len(), KEY);
        assert_eq!(ExportKey::of(text.as_bytes(), ExportKind::Notify), Ok(key));
        let refused =
            |text: &[u8]| ExportKey::of(text, ExportKind::Notify).unwrap_err().text.to_string();
        for at in 0..KEY {
            assert!(refused(&text.as_bytes()[..at]).contains("not a key of a notify"), "{at}");
            for other in [b'0', b'f', b'x', 0xff] {
                let mut damaged = text.clone().into_bytes();
                if damaged[at] != other {
                    damaged[at] = other;
                    assert!(refused(&damaged).contains("not a key of a notify"), "{at} {other}");
                }
            }
        }
        let longer = format!("{text}0");
        assert!(refused(longer.as_bytes()).contains("damaged"));
        assert!(refused(text.replacen("aen1", "aen2", 1).as_bytes()).contains("another version"));
        let memory = ExportKey::new(ExportKind::Memory, home, 1).text();
        assert!(refused(memory.as_bytes()).contains("it is a key of memory"));
    }
}
