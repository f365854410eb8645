//! The facts that a child process reports. Each fact is a line of words, separated by tabs.
//!
//! Libraries may print to standard output while they are examined. So a child redirects standard
//! output and keeps the pipe to its parent for itself.

use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, PoisonError};

/// One fact: its kind, and the words that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact(Vec<String>);

impl Fact {
    pub(crate) fn kind(&self) -> &str {
        self.word(0)
    }

    /// Returns a word of the fact, or an empty text if there is none. Word 0 is the kind.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }

    pub(crate) fn words(&self) -> &[String] {
        self.0.get(1..).unwrap_or_default()
    }

    /// Reads a fact from a line.
    pub(crate) fn parse(line: &str) -> Fact {
        Fact(line.split('\t').map(unescape).collect())
    }
}

fn unescape(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut characters = word.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(other) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    text
}

fn escape(word: &str) -> String {
    let escapes = [("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")];
    escapes.iter().fold(word.to_owned(), |word, (from, to)| word.replace(from, to))
}

/// The sender of facts to the parent process.
pub(crate) struct Teller(Mutex<File>);

impl Teller {
    /// Uses the pipe at standard output for facts. Text that is printed to standard output from now
    /// on goes to standard error.
    pub(crate) fn of_standard_output() -> std::io::Result<Teller> {
        // SAFETY: the numbers are those of the standard streams, and the calls take numbers only.
        let (own, moved) = unsafe {
            let own = libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3);
            (own, if own < 0 { -1 } else { libc::dup2(2, 1) })
        };
        if own < 0 || moved < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made above, and nothing else owns it.
        Ok(Teller(Mutex::new(unsafe { File::from_raw_fd(own) })))
    }

    /// Sends a fact to the parent at once. Ends this process if the parent is gone.
    pub(crate) fn tell(&self, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|word| escape(word)).collect();
        let line = words.join("\t") + "\n";
        // Without the parent, further facts have no reader.
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()).is_err()
        {
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_whatever_is_in_them() {
        for word in ["", "a b", "a\tb\nc", "\\n", "\\\\t", "ends with \\", "\r"] {
            let line = ["kind", word, "x"].map(escape).join("\t");
            assert!(!line.contains('\n'));
            let fact = Fact::parse(&line);
            assert_eq!((fact.kind(), fact.word(1), fact.word(2)), ("kind", word, "x"));
        }
        assert_eq!(Fact::parse("").word(7), "");
        assert_eq!(Fact::parse("a\\"), Fact(vec!["a".into()]));
    }
}
