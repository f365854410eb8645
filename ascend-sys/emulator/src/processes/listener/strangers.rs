//! Processes that have connected and not introduced themselves yet. The listener accepts them,
//! reads their introductions, and welcomes or refuses them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{
    AGAIN, Greeting, KnownPeer, Listener, PATIENCE, as_bytes, end_of, guarded, takes_lines,
};
use crate::processes::line::{Frame, Line, Outlet, credentials, halves, own_user};
use crate::processes::peer::{Hello, Peer};

/// A process that has not introduced itself.
pub(super) struct Stranger {
    process: i32,
    pub(super) line: Line,
    outlet: Outlet,
    since: Instant,
}

/// The largest number of strangers at a time.
const STRANGERS: usize = 256;
/// The number of reports of refused processes before the last report.
const NOTES: u32 = 64;
/// The number of descriptors that come with the first frame of a process.
const FILES: usize = 2;

impl Listener {
    pub(super) fn let_in(&mut self) {
        loop {
            let stream = match self.socket.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.full_until = Some(Instant::now() + AGAIN);
                    return warn(&format!("cannot accept a process that connects: {e}"));
                }
            };
            let Ok((process, user)) = credentials(&stream) else { continue };
            if user != own_user() {
                note(process, "it belongs to another user; run both as one user");
            } else if self.strangers.len() >= STRANGERS {
                note(process, "too many processes connect at once; start fewer at a time");
            } else {
                match halves(stream) {
                    Ok((line, outlet)) => {
                        let since = Instant::now();
                        self.strangers.push(Stranger { process, line, outlet, since });
                    }
                    Err(e) => note(process, &e.to_string()),
                }
            }
        }
    }

    /// Reads the introductions of the processes that have connected.
    pub(super) fn meet_strangers(&mut self) {
        for mut stranger in std::mem::take(&mut self.strangers) {
            let mut frames = Vec::new();
            let received = stranger.line.receive(&mut frames);
            if frames.is_empty() {
                match received {
                    Ok(()) if stranger.since.elapsed() < PATIENCE => self.strangers.push(stranger),
                    Ok(()) => note(stranger.process, "it has connected and sent no introduction"),
                    // The process has closed the connection again.
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
                    Err(e) => note(stranger.process, &e.to_string()),
                }
                continue;
            }
            let process = stranger.process;
            if let Err(why) = self.welcome(stranger, frames) {
                note(process, &why);
            }
        }
    }

    fn welcome(&mut self, stranger: Stranger, frames: Vec<Frame>) -> Result<(), String> {
        let Stranger { process, mut line, mut outlet, .. } = stranger;
        let Some(first) = frames.into_iter().next() else { return Ok(()) };
        let mut refuse = |why: String| {
            let answer = format!("process {} refuses this one: {why}", std::process::id());
            let _ = outlet.send(&as_bytes(&Greeting::Refused(answer)), Vec::new());
            Err(why)
        };
        let Ok(hello) = serde_json::from_slice::<Hello>(&first.bytes) else {
            return refuse(
                "its first message is not from an emulator; run the same version in both".into(),
            );
        };
        if hello.secret != self.own.home.secret {
            return refuse(
                "it does not know the secret of the root info or key; copy all bytes of these"
                    .into(),
            );
        }
        if hello.layout != self.own.hears.layout {
            return refuse(format!(
                "it has version {} of the emulator, and this process has {}, with another layout \
                 of the shared memory; run the same version in both",
                hello.version,
                env!("CARGO_PKG_VERSION")
            ));
        }
        if first.files.len() != FILES {
            return refuse("it has sent a wrong number of descriptors".into());
        }
        let failed = |e: io::Error| e.to_string();
        let (own, files) = self.own.hello(hello.home.secret).map_err(failed)?;
        outlet.send(&as_bytes(&Greeting::Welcome(own)), files).map_err(failed)?;
        let peer = Peer::new(&hello, process, first.files, outlet).map_err(failed)?;
        line.trust();
        let peer = self.own.known_as(peer)?;
        let mut known = KnownPeer { line, peer, end: end_of(process) };
        // Handles the frames that the process sent meanwhile.
        if known.listen(false, self.own.hears) {
            self.known.push(known);
        }
        guarded(self.own.hears.rung);
        Ok(())
    }
}

/// Reports that a process was refused.
fn note(process: i32, why: &str) {
    warn(&format!("process {process} wanted to connect to this one, and was refused: {why}"));
}

/// Prints a report on standard error, if no more than [`NOTES`] reports came before it. If standard
/// error is full or closed, drops the report.
fn warn(what: &str) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    let said = SAID.fetch_add(1, Ordering::Relaxed);
    if said > NOTES {
        return;
    }
    let more = if said == NOTES { "; further reports of this kind are dropped" } else { "" };
    if takes_lines() {
        let what: String = what.chars().take(400).collect();
        let text = format!("ascend-emulator: {what}{more}\n");
        let _ = io::stderr().write_all(text.as_bytes());
    }
}
