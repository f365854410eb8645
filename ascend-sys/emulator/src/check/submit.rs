//! The hook of checked mode for [the submission of tasks](crate::submit). It puts a note before the
//! task, and a second one after a host function that the stream waits for.

use super::Checker;
use super::blocks::engine;
use super::engine::Apart;
use super::issuer::known_to_issuer;
use super::note::{Begin, CheckNote, NoteKind, operation};
use crate::capture;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::Effects;
use std::sync::Arc;

/// Puts a note into a stream.
pub(super) fn put(
    engine: Arc<Checker>,
    stream: &'static Stream,
    what: NoteKind,
) -> Result<(), Failure> {
    let known = known_to_issuer(&engine);
    capture::submit(stream, Box::new(CheckNote { engine, known, what })).map(drop)
}

/// Puts a note about the next task into the stream. Returns true if the task is a host function
/// that returns to the stream.
#[cold]
pub(crate) fn announce(
    stream: &'static Stream,
    call: &str,
    member: Option<String>,
    effects: Effects,
) -> Result<bool, Failure> {
    let Some(engine) = engine(stream.device_id()) else { return Ok(false) };
    let mut host_returns = false;
    let what = match effects {
        Effects::None => return Ok(false),
        Effects::Touches(what, touches) => {
            let operation = operation(stream, what, member, call, touches);
            NoteKind::Begin(Begin { operation, apart: Apart::All, owns: None, arrives: Vec::new() })
        }
        Effects::Sets(signal, name) => {
            let what = format!("record of {name}");
            let operation = operation(stream, what, None, call, Vec::new());
            NoteKind::Set { signal, name, operation }
        }
        Effects::Tells => NoteKind::Tell,
        Effects::WritesWord(address) => NoteKind::Word(address),
        Effects::Issues => NoteKind::Point,
        Effects::RunsOnHost { returns } => {
            host_returns = returns;
            NoteKind::ToHost
        }
    };
    put(engine, stream, what)?;
    Ok(host_returns)
}

/// Puts a note into the stream that the previous task, a host function, is over.
#[cold]
pub(crate) fn returns_to_stream(stream: &'static Stream) -> Result<(), Failure> {
    engine(stream.device_id()).map_or(Ok(()), |engine| put(engine, stream, NoteKind::FromHost))
}
