//! Prints the lines of the ranks, with the number of the rank in front.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle};

use crate::options::{Colour, Options};

/// The longest line that is printed in one piece, in bytes.
const LONGEST: u64 = 64 << 10;

/// Colours that are legible on dark and on light terminals.
const COLOURS: [u8; 6] = [36, 33, 35, 32, 34, 31];

/// One of the two outputs of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Standard,
    Error,
}

/// The labels at the beginning of lines.
#[derive(Clone)]
pub(crate) struct Labels {
    is_plain: bool,
    digits: usize,
    has_colour: [bool; 2],
}

impl Labels {
    pub(crate) fn new(options: &Options) -> Labels {
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let coloured = |is_terminal: bool| match options.color {
            Colour::Auto => is_terminal && allowed,
            Colour::Always => true,
            Colour::Never => false,
        };
        Labels {
            is_plain: options.no_label,
            digits: (options.ranks - 1).to_string().len(),
            has_colour: [
                coloured(io::stdout().is_terminal()),
                coloured(io::stderr().is_terminal()),
            ],
        }
    }

    /// Returns the label for the lines of a rank.
    pub(crate) fn of(&self, rank: u32, output: Output) -> String {
        if self.is_plain {
            return String::new();
        }
        let label = format!("[{rank:>width$}] ", width = self.digits);
        match self.has_colour[usize::from(output == Output::Error)] {
            false => label,
            true => {
                let colour = COLOURS[rank as usize % COLOURS.len()];
                format!("\x1b[{colour}m{label}\x1b[0m")
            }
        }
    }
}

/// The last error that a rank has printed: its last line, or all lines of a panic or of the error
/// that its `main` has returned.
#[derive(Default)]
pub(crate) struct LastWords {
    text: String,
    /// Whether the next line belongs to the same error.
    is_open: bool,
    /// Whether the next line may belong to a backtrace.
    in_backtrace: bool,
}

impl LastWords {
    /// The largest number of bytes that are kept of an error.
    const MOST: usize = 4 << 10;

    fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        // Rust prints these lines after the message of a panic.
        let is_frame = line.trim_start().starts_with("at ")
            || line.trim_start().split_once(": ").is_some_and(|(number, _)| is_number(number));
        self.in_backtrace = line == "stack backtrace:" || self.in_backtrace && is_frame;
        if self.in_backtrace
            || line.starts_with("note: run with `RUST_BACKTRACE")
            || line.starts_with("note: Some details are omitted, run with `RUST_BACKTRACE")
        {
            self.is_open = false;
            return;
        }
        // Rust prints the error that `main` returns, and a panic, in these forms.
        let panics = line.starts_with("thread '") && line.contains(" panicked at ");
        let begins = panics || line.starts_with("Error: ");
        if self.is_open && !begins {
            if self.text.len() + line.len() < Self::MOST {
                self.text.push('\n');
                self.text.push_str(line);
            }
            return;
        }
        self.is_open = begins;
        line.clone_into(&mut self.text);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The last error of a rank, shared with the thread that prints the lines of the rank.
pub(crate) type SharedWords = Arc<Mutex<LastWords>>;

/// Starts a thread that prints lines from `pipe` until its last writer is gone.
pub(crate) fn print_lines(
    pipe: impl Read + Send + 'static,
    label: String,
    output: Output,
    last: SharedWords,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("hcclrun-lines".into()).spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            line.clear();
            match pipe.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            let text = String::from_utf8_lossy(&line);
            if output == Output::Error {
                last.lock().unwrap_or_else(PoisonError::into_inner).hear(&text);
            }
            // A single write keeps the lines of several ranks apart. After an error, the loop goes
            // on: if the output of hcclrun is closed, the rank must still not block.
            let mut bytes = label.clone().into_bytes();
            bytes.extend_from_slice(&line);
            let written = match output {
                Output::Standard => {
                    let mut out = io::stdout().lock();
                    out.write_all(&bytes).and_then(|()| out.flush())
                }
                Output::Error => io::stderr().lock().write_all(&bytes),
            };
            if let Err(error) = written
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    let text = format!("hcclrun: output of the ranks is lost: {error}\n");
                    let _ = io::stderr().lock().write_all(text.as_bytes());
                });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn last_words(lines: &str, expected: &str) {
        let mut last = LastWords::default();
        lines.lines().for_each(|line| last.hear(line));
        assert_eq!(last.text(), expected);
    }

    #[test]
    fn the_last_words_are_the_last_line_or_the_whole_last_error() {
        last_words("one\n\ntwo\n", "two");
        last_words("Error: Rank\nUse another.\n", "Error: Rank\nUse another.");
        let panic = "thread 'main' (7) panicked at src/main.rs:3:5:\nboom\nagain";
        let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
        last_words(&format!("{panic}\n{note}\n"), panic);
        let frames = "stack backtrace:\n   0: begin\n             at ./src/main.rs:3:5\n  12: main\n\
                      note: Some details are omitted, run with `RUST_BACKTRACE=full` for more.";
        last_words(&format!("{panic}\n{frames}\n"), panic);
        last_words(&format!("{panic}\n{frames}\n3: three\n"), "3: three");
        last_words(&format!("{panic}\n{frames}\nlater"), "later");
    }
}
