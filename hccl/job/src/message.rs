//! The bytes that go between a store and its clients.
//!
//! Both sides begin with [`PREAMBLE`]; a side that reads something else hangs up. Then frames
//! follow: a length of four bytes, little-endian, at most [`MAX_FRAME`], and a message. A client
//! sends one request at a time and waits for its answer, except that [`Request::Bye`] has none.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{MAX_KEY, MAX_VALUE};

/// The first bytes of a connection, in both directions. The number is that of the protocol.
pub(crate) const PREAMBLE: &[u8; 16] = b"hccl-job store 1";

/// The longest frame.
const MAX_FRAME: usize = MAX_KEY + MAX_VALUE + 64;

/// The longest text that one side tells the other.
pub(crate) const MAX_TEXT: usize = 4096;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first message of a connection.
    Hello { secret: String, rank: u32, world_size: u32, process: u32 },
    /// Stores a value. It goes after `reads` reads; 0: it stays.
    Set { key: String, value: Vec<u8>, reads: u32 },
    /// Reads a value, and waits until it is there. `from`: the rank that will store it.
    Get { key: String, from: Option<u32>, wait_ms: u64 },
    /// Adds to a counter, which begins at 0, and returns the sum.
    Add { key: String, by: i64 },
    /// Waits for the next generation.
    Join { wait_ms: u64 },
    /// Asks how many processes wait to be in the next generation.
    Waiting,
    /// Says that this rank fails; `follows`: because another rank did.
    Fails { text: String, follows: bool },
    /// This rank is done.
    Bye,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    /// The rank, or the request, is not taken. The connection ends.
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
    /// The awaited value or generation did not come in time; these ranks have not come.
    Late {
        missing: Vec<u32>,
    },
    /// The awaited value or generation cannot come any more.
    Gone {
        rank: u32,
        why: String,
    },
    /// The store would hold more than it may: this number of bytes.
    Full {
        bytes: u64,
    },
}

pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(invalid)?;
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= MAX_FRAME);
    let length = length.ok_or_else(|| invalid("the message is too long"))?;
    // One write, so that a small message is one packet.
    let mut frame = Vec::with_capacity(4 + bytes.len());
    frame.extend(length.to_le_bytes());
    frame.extend(bytes);
    to.write_all(&frame)
}

/// Reads one message. `None` when the other side has hung up between two messages.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read(&mut length)? {
        0 => return Ok(None),
        some => from.read_exact(&mut length[some..])?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(invalid(format!("a message of {length} bytes")));
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
        "it speaks another version of the protocol"
    } else {
        "it is no store of hccl"
    }))
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Tames a text that another process wrote: cuts it, and removes control characters but line feeds.
pub(crate) fn tamed(text: &str) -> String {
    let keep = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    text.chars().take(MAX_TEXT).map(keep).collect()
}
