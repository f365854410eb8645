//! Prints the lines of the ranks, with the number of the rank in front.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::{Colour, Options};

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

/// The last error that a rank has printed: its last line, or all lines of the error that its
/// `main` has returned.
#[derive(Default)]
pub(crate) struct LastWords {
    text: String,
    /// Whether the next line belongs to the same error.
    is_open: bool,
}

impl LastWords {
    /// The largest number of bytes that are kept of an error.
    const MOST: usize = 4 << 10;

    fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        // Rust prints the error that `main` returns in this form.
        let begins = line.starts_with("Error: ");
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
            // A single write keeps the lines of several ranks apart. An error is ignored: if the
            // output of hcclrun is closed, the rank must still not block.
            let mut bytes = label.clone().into_bytes();
            bytes.extend_from_slice(&line);
            let _ = match output {
                Output::Standard => {
                    let mut out = io::stdout().lock();
                    out.write_all(&bytes).and_then(|()| out.flush())
                }
                Output::Error => io::stderr().lock().write_all(&bytes),
            };
        }
    })
}
