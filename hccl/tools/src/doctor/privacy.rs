//! Removes private text from a report: the names of the machine and of users, their directories,
//! the secret of the job, and addresses.

use std::ffi::CStr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Words that are replaced, each with its replacement, the longest first.
#[derive(Clone, Debug)]
pub(crate) struct Secrets(Vec<(String, &'static str)>);

impl Secrets {
    /// Returns the secrets of this machine and its user.
    pub(crate) fn here() -> Secrets {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let host = host_name();
        let first = host.split('.').next().unwrap_or_default().to_owned();
        let mut secrets = vec![
            (variable("HOME"), "<home>"),
            (user_home(), "<home>"),
            (host, "<host>"),
            (first, "<host>"),
            (variable("HOSTNAME"), "<host>"),
            (variable("USER"), "<user>"),
            (variable("LOGNAME"), "<user>"),
            (user_name(), "<user>"),
            (variable("HCCL_JOB_SECRET"), "<secret>"),
        ];
        if let Ok(directory) = std::env::current_dir() {
            secrets.push((directory.to_string_lossy().into_owned(), "<here>"));
        }
        Secrets::of(secrets)
    }

    fn of(mut secrets: Vec<(String, &'static str)>) -> Secrets {
        // The path / and single letters are not private, and "root" and "localhost" are everywhere.
        secrets.retain(|(word, _)| word.len() > 1 && word != "root" && word != "localhost");
        secrets.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Secrets(secrets)
    }

    /// Returns the text without the secrets, the names of other users in paths, and addresses.
    pub(crate) fn remove(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, instead) in &self.0 {
            text = replace_word(&text, word, instead);
        }
        without_addresses(&without_homes(&text))
    }
}

/// Replaces a word wherever it is not a part of a longer word.
fn replace_word(text: &str, word: &str, instead: &str) -> String {
    let is_part = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, behind) = (&rest[..at], &rest[at + word.len()..]);
        result.push_str(before);
        let whole = !is_part(result.chars().next_back()) && !is_part(behind.chars().next());
        result.push_str(if whole { instead } else { word });
        rest = behind;
    }
    result + rest
}

/// Replaces the names of other users in paths.
fn without_homes(text: &str) -> String {
    const HOMES: &str = "/home/";
    let mut pieces = text.split(HOMES);
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let ends =
            |character: char| character == '/' || character == ':' || character.is_whitespace();
        let rest = piece.find(ends).unwrap_or(piece.len());
        result.push_str(HOMES);
        result.push_str(if rest == 0 { "" } else { "<user>" });
        result.push_str(&piece[rest..]);
    }
    result
}

/// Replaces addresses of the Internet protocol.
fn without_addresses(text: &str) -> String {
    let belongs = |character: char| character.is_ascii_hexdigit() || matches!(character, '.' | ':');
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(belongs) {
        result.push_str(&rest[..at]);
        let length = rest[at..].find(|character| !belongs(character)).unwrap_or(rest.len() - at);
        let word = &rest[at..at + length];
        let bare = word.trim_end_matches(['.', ':']);
        // The address may have a port after it.
        let host = bare.split(':').next().unwrap_or_default();
        let is_address = bare.parse::<Ipv6Addr>().is_ok() || host.parse::<Ipv4Addr>().is_ok();
        // `::` also occurs in paths of functions.
        let is_address = is_address && bare.chars().any(|it| it.is_ascii_digit());
        result.push_str(if is_address { "<address>" } else { word });
        rest = &rest[at + length..];
    }
    result + rest
}

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the length is that of the array, less its last byte, which stays zero.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let text = CStr::from_bytes_until_nul(&name).ok().filter(|_| code == 0);
    text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns a field of the system's entry for the user of this process.
fn of_user(field: impl Fn(&libc::passwd) -> *mut libc::c_char) -> String {
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    let mut texts = vec![0; 16 << 10];
    // SAFETY: all pointers are to live locals, and the length is that of the block.
    let code = unsafe {
        libc::getpwuid_r(
            libc::geteuid(),
            entry.as_mut_ptr(),
            texts.as_mut_ptr(),
            texts.len(),
            &mut found,
        )
    };
    if code != 0 || found.is_null() {
        return String::new();
    }
    // SAFETY: the entry was found, so it is initialised.
    let text = field(unsafe { entry.assume_init_ref() });
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the text belongs to the entry, is inside `texts`, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn user_name() -> String {
    of_user(|entry| entry.pw_name)
}

fn user_home() -> String {
    of_user(|entry| entry.pw_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_where_they_are_words() {
        let secrets = Secrets::of(vec![
            ("ada".into(), "<user>"),
            ("/home/ada".into(), "<home>"),
            ("node7.lab.example".into(), "<host>"),
            ("node7".into(), "<host>"),
            ("/".into(), "<home>"),
        ]);
        for (text, expected) in [
            ("/home/ada/cann/lib64", "<home>/cann/lib64"),
            ("of ada, adapted on node7", "of <user>, adapted on <host>"),
            ("node7.lab.example: node77", "<host>: node77"),
            ("/opt/cann", "/opt/cann"),
            ("/home/bob/x:/home/eve", "/home/<user>/x:/home/<user>"),
        ] {
            assert_eq!(secrets.remove(text), expected);
        }
    }

    #[test]
    fn addresses_are_replaced_and_numbers_and_versions_are_not() {
        for (text, expected) in [
            ("peer 10.1.2.3:60001 is gone", "peer <address> is gone"),
            ("at 10.1.2.3.", "at <address>"),
            ("fe80::1 and ::1", "<address> and <address>"),
            (
                "9.2.0 at 12:30:44, Runtime::cann(), 0.5 ms",
                "9.2.0 at 12:30:44, Runtime::cann(), 0.5 ms",
            ),
        ] {
            assert_eq!(without_addresses(text), expected);
        }
    }

    #[test]
    fn this_user_and_this_machine_have_names() {
        assert!(!host_name().is_empty());
        let secrets = Secrets::here();
        let text = secrets.remove(&format!("on {} ", host_name()));
        assert!(host_name() == "localhost" || !text.contains(&host_name()), "{text}");
    }
}
