//! Reads and checks a field of a rank table: its value, and its place.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::Value;

/// A value in a table, with its path, such as `server_list[0].device[1].rank_id`.
pub(super) struct Field<'a> {
    value: &'a Value,
    path: String,
}

/// The length of the longest name of a network interface, in bytes.
const MOST_SCOPE: usize = 15;

/// Returns whether a text is an IPv6 address, with or without a scope. A scope is an interface or
/// its number, as in `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, scope) = text.split_once('%').unwrap_or((text, "any"));
    let is_scope = (1..=MOST_SCOPE).contains(&scope.len())
        && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"%/:".contains(&byte));
    is_scope && address.parse::<Ipv6Addr>().is_ok()
}

/// The largest number of characters of a value that an error repeats.
const SHOWN: usize = 80;

/// Returns the part of a text that an error repeats.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl<'a> Field<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Field { value, path: String::new() }
    }

    /// Makes an error about the field: its name, and what is wrong.
    pub(super) fn wrong(&self, what: impl AsRef<str>) -> WrongTable {
        let path = if self.path.is_empty() { "it" } else { &self.path };
        WrongTable { report: "EI0014", text: format!("{path} {}", what.as_ref()) }
    }

    /// Describes the value, for an error.
    pub(super) fn is(&self) -> String {
        match self.value {
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            value => shown(&value.to_string()),
        }
    }

    pub(super) fn must_be(&self, what: &str) -> WrongTable {
        self.wrong(format!("is {}, but must be {what}", self.is()))
    }

    /// Returns the field of a key that the table must have.
    pub(super) fn field(&self, name: &str) -> Result<Field<'a>, WrongTable> {
        self.optional(name)?.ok_or_else(|| self.missing(name, "; add it"))
    }

    pub(super) fn missing(&self, name: &str, why: &str) -> WrongTable {
        WrongTable { report: "EI0017", text: format!("{} is missing{why}", self.below(name)) }
    }

    fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn optional(&self, name: &str) -> Result<Option<Field<'a>>, WrongTable> {
        let Value::Object(map) = self.value else { return Err(self.must_be("an object")) };
        Ok(map.get(name).map(|value| Field { value, path: self.below(name) }))
    }

    /// Returns a list of 1 to `most` items.
    pub(super) fn list(&self, most: usize) -> Result<Vec<Field<'a>>, WrongTable> {
        let Value::Array(list) = self.value else { return Err(self.must_be("a list")) };
        match list.len() {
            0 => Err(self.wrong("is empty; list at least one entry")),
            count if count > most => {
                Err(self.wrong(format!("has {count} entries, but must have {most} at most")))
            }
            _ => {
                let item = |(at, value)| Field { value, path: format!("{}[{at}]", self.path) };
                Ok(list.iter().enumerate().map(item).collect())
            }
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, WrongTable> {
        self.value.as_str().ok_or_else(|| self.must_be("a text"))
    }

    /// Returns a text whose number of characters is in `range`.
    pub(super) fn name(&self, range: RangeInclusive<usize>) -> Result<&'a str, WrongTable> {
        let text = self.text()?;
        let count = text.chars().count();
        if range.contains(&count) {
            return Ok(text);
        }
        let (least, most) = range.into_inner();
        Err(self.wrong(format!("has {count} characters, but must have {least} to {most}")))
    }

    /// Returns the text, which must be one of these.
    pub(super) fn one_of(&self, texts: &[&'static str]) -> Result<&'static str, WrongTable> {
        let text = self.text()?;
        let found = texts.iter().find(|one| **one == text).copied();
        found.ok_or_else(|| {
            let (last, first) = texts.split_last().unwrap_or((&"", &[]));
            let all = if first.is_empty() {
                (*last).to_owned()
            } else {
                format!("{} or {last}", first.join(", "))
            };
            self.must_be(&all)
        })
    }

    /// Returns a number that is written as a text, as in versions 1.x.
    pub(super) fn number_in_text(&self, range: RangeInclusive<u64>) -> Result<u64, WrongTable> {
        let text = self.text()?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        self.in_range(number.ok_or_else(|| self.must_be("a number"))?, range)
    }

    /// Returns a number, as in version 2.0.
    pub(super) fn number(&self, range: RangeInclusive<u64>) -> Result<u64, WrongTable> {
        self.in_range(self.value.as_u64().ok_or_else(|| self.must_be("a number"))?, range)
    }

    fn in_range(&self, number: u64, range: RangeInclusive<u64>) -> Result<u64, WrongTable> {
        if range.contains(&number) {
            return Ok(number);
        }
        let (least, most) = range.into_inner();
        Err(self.wrong(format!("is {number}, but must be {least} to {most}")))
    }

    pub(super) fn ip(&self) -> Result<(), WrongTable> {
        let text = self.text()?;
        match text.parse::<Ipv4Addr>().is_ok() || is_ipv6(text) {
            true => Ok(()),
            false => Err(self.must_be("an IP address")),
        }
    }

    pub(super) fn ipv4(&self) -> Result<(), WrongTable> {
        match self.text()?.parse::<Ipv4Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err(self.must_be("an IPv4 address")),
        }
    }

    pub(super) fn ipv6(&self) -> Result<(), WrongTable> {
        if is_ipv6(self.text()?) { Ok(()) } else { Err(self.must_be("an IPv6 address")) }
    }

    /// Checks a die and a port, such as `0/1`.
    pub(super) fn die_and_port(&self) -> Result<(), WrongTable> {
        // `parse` also accepts a sign.
        let is_number = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u32>().is_ok()
        };
        let good = self.text()?.split_once('/').is_some_and(|(a, b)| is_number(a) && is_number(b));
        if good { Ok(()) } else { Err(self.must_be("a die and a port, as 0/1")) }
    }

    /// Makes the error for a number or name that another entry already has.
    pub(super) fn twice(&self) -> WrongTable {
        self.wrong(format!("is {}, as in another entry; give each its own", self.is()))
    }
}

/// An error in a table.
#[derive(Debug)]
pub(super) struct WrongTable {
    /// CANN's code for the error.
    pub(super) report: &'static str,
    pub(super) text: String,
}

impl WrongTable {
    pub(super) fn in_file(self, path: &Path) -> String {
        format!("{}: the rank table {}: {}", self.report, path.display(), self.text)
    }
}
