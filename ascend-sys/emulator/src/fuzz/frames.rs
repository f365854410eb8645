//! The fuzz target for bytes and descriptors that arrive on a socket from another process.

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::processes::line::{
    Frame, LONGEST, LONGEST_OF_A_STRANGER, MOST_AT_ONCE, MOST_FILES, halves, send,
};

/// The largest number of descriptors that this target sends with one message.
const CARRIED: usize = 4;

/// Sends the bytes of a connection in pieces. Each piece follows a byte that gives its length and
/// the number of its descriptors. Checks that the received frames are those of a simple reader,
/// wherever the bytes are split, and that no descriptor is leaked.
pub fn frames(bytes: &[u8]) {
    let (mut witness, descriptor) = std::io::pipe().expect("a pipe");
    let descriptor: Arc<OwnedFd> = Arc::new(descriptor.into());
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let (mut line, _outlet) = halves(ours).expect("a line");
    let mut expected = Expected { is_stranger: true, ..Expected::default() };
    let mut rest = bytes;
    while let [head, after @ ..] = rest {
        let (length, files) = (usize::from(head & 0x3f), usize::from(head >> 6));
        let (piece, after) = after.split_at(length.min(after.len()));
        rest = after;
        // Descriptors are sent together with at least one byte.
        let files = if piece.is_empty() { 0 } else { files.min(CARRIED) };
        if !piece.is_empty() {
            let all = vec![Arc::clone(&descriptor); files];
            assert_eq!(send(&theirs, piece, &all).expect("there is room"), piece.len());
        }
        let mut found = Vec::new();
        let outcome = line.receive(&mut found);
        let mut wanted = expected.read(piece, files);
        same(&found, &wanted);
        assert_eq!(outcome.is_err(), expected.is_broken, "{outcome:?}");
        if expected.is_broken {
            break;
        }
        if expected.is_stranger && !found.is_empty() {
            line.trust();
            expected.is_stranger = false;
            found.clear();
            let outcome = line.receive(&mut found);
            wanted = expected.read(&[], 0);
            same(&found, &wanted);
            assert_eq!(outcome.is_err(), expected.is_broken, "{outcome:?}");
            if expected.is_broken {
                break;
            }
        }
    }
    drop((line, theirs, _outlet, descriptor));
    // If all descriptors are closed, no process can write to the pipe any more.
    let mut none = [0];
    nonblocking(witness.as_raw_fd());
    assert_eq!(witness.read(&mut none).ok(), Some(0), "a descriptor stays behind");
}

fn nonblocking(file: i32) {
    // SAFETY: sets a flag of a descriptor that this process owns.
    assert_eq!(unsafe { libc::fcntl(file, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
}

fn same(found: &[Frame], wanted: &[(Vec<u8>, usize)]) {
    let found: Vec<_> =
        found.iter().map(|frame| (frame.bytes.clone(), frame.files.len())).collect();
    assert_eq!(found, wanted);
}

/// A simple reader that follows the rules of [`Line`](crate::processes::line). It is the model with
/// which the real reader is compared.
#[derive(Default)]
struct Expected {
    bytes: VecDeque<u8>,
    files: usize,
    is_stranger: bool,
    is_broken: bool,
}

impl Expected {
    /// Returns the frames that are complete after these bytes: their bytes and their numbers of
    /// descriptors.
    fn read(&mut self, piece: &[u8], files: usize) -> Vec<(Vec<u8>, usize)> {
        self.bytes.extend(piece);
        self.files += files;
        if self.files > if self.is_stranger { MOST_FILES } else { MOST_AT_ONCE } {
            self.is_broken = true;
            return Vec::new();
        }
        let mut found = Vec::new();
        while self.bytes.len() >= 8 && (found.is_empty() || !self.is_stranger) {
            let word = |at: usize| {
                let bytes = std::array::from_fn(|byte| self.bytes[at + byte]);
                u32::from_le_bytes(bytes) as usize
            };
            let (length, files) = (word(0), word(4));
            let longest = if self.is_stranger { LONGEST_OF_A_STRANGER } else { LONGEST };
            if length > longest || files > MOST_FILES {
                self.is_broken = true;
                break;
            }
            if self.bytes.len() < 8 + length {
                break;
            }
            if self.files < files {
                self.is_broken = true;
                break;
            }
            self.bytes.drain(..8);
            found.push((self.bytes.drain(..length).collect(), files));
            self.files -= files;
        }
        found
    }
}
