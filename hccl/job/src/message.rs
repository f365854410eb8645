//! The bytes that go between a store and its clients.
//!
//! Both sides begin with [`PREAMBLE`]. A side that reads other bytes hangs up. Then frames follow.
//! A frame is a length of four bytes, little-endian and at most [`MAX_FRAME`], and a message of
//! that many bytes. A client sends one request at a time and waits for its answer, except that
//! [`Request::Bye`] has none.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{MAX_KEY, MAX_VALUE};

/// The first bytes of a connection, in both directions. The number at the end is the version of the
/// protocol.
pub(crate) const PREAMBLE: &[u8; 16] = b"hccl-job store 1";

/// The longest message of a frame, in bytes.
const MAX_FRAME: usize = MAX_KEY + MAX_VALUE + 64;

/// The limit of a text that one side sends to the other, in characters.
pub(crate) const MAX_TEXT: usize = 4096;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first message of a connection.
    Hello { secret: String, rank: u32, world_size: u32, process: u32 },
    /// Stores a value. The store drops the value after `reads` reads. If `reads` is 0, the store
    /// keeps the value.
    Set { key: String, value: Vec<u8>, reads: u32 },
    /// Waits until a value is stored, and reads it. `from` is the rank that will store the value,
    /// if the client names one.
    Get { key: String, from: Option<u32>, wait_ms: u64 },
    /// Adds to a counter, which begins at 0, and returns the sum.
    Add { key: String, by: i64 },
    /// Waits for the next generation.
    Join { wait_ms: u64 },
    /// Requests the number of processes that wait for the next generation and are not in the
    /// current generation.
    Waiting,
    /// Reports that this rank fails. `follows` means that it fails because another rank is gone.
    Fails { text: String, follows: bool },
    /// Reports that this rank is done. This request has no answer.
    Bye,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    /// The store refuses the rank or the request, and closes the connection.
    Refused {
        why: String,
    },
    Value(Vec<u8>),
    Sum(i64),
    /// A generation begins, with these ranks in this order.
    Formed {
        number: u32,
        members: Vec<u32>,
    },
    Waiting(u32),
    /// The awaited value or generation did not come in time. For a value, `missing` lists the ranks
    /// that have never connected. For a generation, it lists the ranks that have not come to the
    /// meeting.
    Late {
        missing: Vec<u32>,
    },
    /// The awaited value or generation cannot come any more, because of this rank.
    Gone {
        rank: u32,
        why: String,
    },
    /// The store is full: with this request it would hold this number of bytes.
    Full {
        bytes: u64,
    },
}

pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(invalid)?;
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= MAX_FRAME);
    let length = length.ok_or_else(|| invalid("the message is too long: send at most 64 KiB"))?;
    // One write, so that a small message is one packet.
    let mut frame = Vec::with_capacity(4 + bytes.len());
    frame.extend(length.to_le_bytes());
    frame.extend(bytes);
    to.write_all(&frame)
}

/// Reads one message. Returns `None` if the other side has hung up between two messages.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read(&mut length)? {
        0 => return Ok(None),
        some => from.read_exact(&mut length[some..])?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(invalid(format!(
            "a message of {length} bytes, which is above the limit of {MAX_FRAME}: use one version \
             of hccl"
        )));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(invalid)
}

pub(crate) fn expect_preamble(from: &mut impl Read) -> io::Result<()> {
    let mut found = [0; PREAMBLE.len()];
    from.read_exact(&mut found)?;
    if found == *PREAMBLE {
        return Ok(());
    }
    let same = found.iter().zip(PREAMBLE).take_while(|(found, own)| found == own).count();
    Err(invalid(if same >= b"hccl-job store ".len() {
        "the other side has another version of the protocol: use one version of hccl"
    } else {
        "the other side is not a store of hccl: check MASTER_ADDR and MASTER_PORT"
    }))
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Makes a text of another process safe to print: cuts it, and replaces control characters other
/// than line feeds by spaces.
pub(crate) fn tamed(text: &str) -> String {
    let keep = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    text.chars().take(MAX_TEXT).map(keep).collect()
}
