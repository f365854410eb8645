//! A rendezvous: the place where processes that have only a text in common find each other.
//!
//! Terms: a *rendezvous* is an abstract socket, named after the effective user and a hash of the
//! text. The process that has bound it is its *keeper*. A keeper keeps a rendezvous for one
//! *subject*, for example a gathering. The keeper's *answer* contains the keeper's address and the
//! number of the subject.
//!
//! Rules:
//! 1. A rendezvous has one keeper at a time, because the kernel lets only one process bind a name.
//! 2. The keeper writes its answer to each connection of its own user and ends the connection. It
//!    reads nothing and does not wait, so no process can delay it.
//! 3. The keeper ends the rendezvous before any process learns that the subject is over. So a
//!    process that comes again because of this does not get an old answer. The kernel ends a
//!    rendezvous when its keeper ends.
//! 4. If a connection is refused, or ends without an answer, the rendezvous was ending. The process
//!    asks again, or binds the name.
//! 5. A process accepts an answer only if the kernel reports that the keeper is of its own user.
//!
//! A process that is forked from the keeper, and does not call exec, has the socket too. Then the
//! name stays in use as long as that process runs, and connections get no answer.

use std::io::{self, ErrorKind, Read};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::line::{credentials, own_user, polled, send, wait_for};
use super::peer::Home;
use ascend_sync::lock_std as lock;

/// The size of the longest answer, in bytes.
const MOST_BYTES: usize = 1024;
/// The number of connections that are answered before the listener turns to other processes.
const AT_A_TIME: usize = 64;
/// The pause after which a process tries again when the queue of a rendezvous was full.
const FULL: Duration = Duration::from_millis(5);

/// The name of a rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendezvous(String);

/// The answer of a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeeperAnswer {
    /// The address of the keeper.
    pub(crate) home: Home,
    /// The number of the subject of the rendezvous.
    pub(crate) number: u64,
    /// The rank for which the rendezvous is kept.
    pub(crate) rank: u32,
}

/// The result of a question at a rendezvous.
#[derive(Debug)]
pub(crate) enum KeeperReply {
    Keeper(KeeperAnswer),
    /// There is no keeper, or the rendezvous was ending.
    Nobody,
    /// There will be no answer, for this reason.
    Unusable(String),
}

/// Returns the FNV-1a hash of a text, with 128 bits.
fn hash(text: &str) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(BASIS, |sum, byte| (sum ^ u128::from(byte)).wrapping_mul(PRIME))
}

impl Rendezvous {
    /// Returns the rendezvous for a text of a kind. Texts of different kinds have different
    /// rendezvous.
    pub(crate) fn of(kind: &str, text: &str) -> Self {
        Self(format!("ascend-emulator-{kind}-{}-{:032x}", own_user(), hash(text)))
    }

    /// Makes this process the keeper. Returns `None` if the rendezvous has a keeper.
    pub(crate) fn bind(&self) -> io::Result<Option<UnixListener>> {
        let address = SocketAddr::from_abstract_name(&self.0)?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => {
                socket.set_nonblocking(true)?;
                Ok(Some(socket))
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Asks the keeper, and waits for its answer, for at most `limit`.
    pub(crate) fn ask(&self, limit: Duration) -> KeeperReply {
        let until = Instant::now() + limit;
        let mut stream = loop {
            match self.connect() {
                Ok(stream) => break stream,
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => return KeeperReply::Nobody,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if Instant::now() >= until {
                        let seconds = limit.as_secs_f64();
                        return KeeperReply::Unusable(format!(
                            "the keeper of the rendezvous has accepted no connection for \
                             {seconds:.1} s; check that its process is not stopped"
                        ));
                    }
                    std::thread::sleep(FULL);
                }
                Err(e) => return KeeperReply::Unusable(e.to_string()),
            }
        };
        let keeper = match credentials(&stream) {
            Ok((keeper, user)) if user == own_user() => keeper,
            Ok((keeper, user)) => {
                return KeeperReply::Unusable(format!(
                    "process {keeper} of user {user} has taken the socket name of the rendezvous; \
                     end that process"
                ));
            }
            Err(e) => return KeeperReply::Unusable(e.to_string()),
        };
        let (mut said, mut buffer) = (Vec::new(), [0; MOST_BYTES]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) if said.len() + count <= MOST_BYTES => {
                    said.extend_from_slice(&buffer[..count]);
                }
                Ok(_) => return no_emulator(keeper),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        let seconds = limit.as_secs_f64();
                        return KeeperReply::Unusable(format!(
                            "process {keeper} keeps the rendezvous and has not answered within \
                             {seconds:.1} s: it is stopped, or it has ended and a process that it \
                             has forked runs on. Continue or end that process"
                        ));
                    }
                    wait_for(&mut [polled(stream.as_raw_fd(), libc::POLLIN)], left);
                }
                // Rule 4.
                Err(_) => return KeeperReply::Nobody,
            }
        }
        if said.is_empty() {
            return KeeperReply::Nobody;
        }
        serde_json::from_slice(&said).map_or_else(|_| no_emulator(keeper), KeeperReply::Keeper)
    }

    /// Connects to the keeper. Returns `WouldBlock` if the queue of the socket is full, because a
    /// blocking connection would wait without a limit.
    fn connect(&self) -> io::Result<UnixStream> {
        // SAFETY: zeros are a value of this structure.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // An abstract name begins with a NUL and has no other.
        let Some(room) = address.sun_path[1..].get_mut(..self.0.len()) else {
            return Err(io::Error::other("the name of the rendezvous is too long"));
        };
        for (place, byte) in room.iter_mut().zip(self.0.bytes()) {
            *place = byte as libc::c_char;
        }
        let length = offset_of!(libc::sockaddr_un, sun_path) + 1 + self.0.len();
        let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the descriptor is new, and nobody else has it.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_UNIX, flags, 0);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
        // SAFETY: the address has `length` bytes, which `room` has checked, and the call keeps none
        // of them.
        let result = unsafe {
            let address = (&raw const address).cast();
            libc::connect(socket.as_raw_fd(), address, length as libc::socklen_t)
        };
        if result == 0 { Ok(UnixStream::from(socket)) } else { Err(io::Error::last_os_error()) }
    }
}

fn no_emulator(keeper: i32) -> KeeperReply {
    KeeperReply::Unusable(format!(
        "process {keeper} keeps the rendezvous and does not answer as an emulator does; run the \
         same version in all processes"
    ))
}

/// The keeper's side of a rendezvous, for the thread that answers.
pub(super) struct Door {
    /// The socket; `None` if the rendezvous is over.
    socket: Mutex<Option<UnixListener>>,
    answer: Vec<u8>,
}

impl Door {
    pub(super) fn new(socket: UnixListener, answer: &KeeperAnswer) -> Self {
        // This fails only for a key that is not text, and an answer has none.
        let answer = serde_json::to_vec(answer).unwrap_or_default();
        Self { socket: Mutex::new(Some(socket)), answer }
    }

    /// Returns the descriptor to listen to; `None` if the rendezvous is over.
    pub(super) fn descriptor(&self) -> Option<i32> {
        lock(&self.socket).as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Answers the processes that have connected (rule 2). Returns an error if no connection can be
    /// accepted now.
    pub(super) fn serve(&self) -> io::Result<()> {
        // The lock is held during the answers, so that none is sent after the end (rule 3).
        let socket = lock(&self.socket);
        let Some(socket) = &*socket else { return Ok(()) };
        for _ in 0..AT_A_TIME {
            match socket.accept() {
                Ok((stream, _)) => self.answer(&stream),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The process has closed the connection again.
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn answer(&self, stream: &UnixStream) {
        let is_ours = credentials(stream).is_ok_and(|(_, user)| user == own_user());
        // A new connection has room for an answer. If it has none, the process asks again.
        if is_ours && stream.set_nonblocking(true).is_ok() {
            let _ = send(stream, &self.answer, &[]);
        }
    }
}

/// A rendezvous that this process keeps, until the value is dropped.
pub(crate) struct KeptRendezvous(pub(super) Arc<Door>);

impl Drop for KeptRendezvous {
    fn drop(&mut self) {
        // The listener may be in a call of `poll` with the descriptor. That call holds the socket
        // until it returns, so the listener is woken.
        drop(lock(&self.0.socket).take());
        super::listener::nudge();
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::io::Write;
    use std::thread::scope;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    fn answer() -> KeeperAnswer {
        KeeperAnswer { home: Home { process: 1, name: 2, secret: 3 }, number: u64::MAX, rank: 5 }
    }

    /// Returns a rendezvous that no other test and no other process uses.
    fn fresh(name: &str) -> Rendezvous {
        Rendezvous::of("test", &format!("{name} {}", std::process::id()))
    }

    /// Asks at the rendezvous while `serve` runs as its keeper.
    fn asked(rendezvous: &Rendezvous, serve: impl FnOnce()) -> KeeperReply {
        scope(|scope| {
            let asked = scope.spawn(|| rendezvous.ask(Duration::from_secs(20)));
            serve();
            asked.join().unwrap()
        })
    }

    #[test]
    fn the_hash_is_the_one_of_its_authors() {
        assert_eq!(hash(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(hash("foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn one_keeps_a_rendezvous_and_answers_and_another_can_when_it_is_over() {
        let rendezvous = fresh("keeps");
        assert!(matches!(rendezvous.ask(SHORT), KeeperReply::Nobody));
        let socket = rendezvous.bind().unwrap().unwrap();
        assert!(rendezvous.bind().unwrap().is_none());
        assert_ne!(rendezvous, fresh("other"));
        let door = Arc::new(Door::new(socket, &answer()));
        // The first connection has sent bytes that nobody reads, and the second is closed again.
        // Neither delays the third.
        let mut garbage = rendezvous.connect().unwrap();
        garbage.write_all(&[7; 4096]).unwrap();
        drop(rendezvous.connect().unwrap());
        let found = scope(|scope| {
            let asked = scope.spawn(|| rendezvous.ask(Duration::from_secs(20)));
            while !asked.is_finished() {
                door.serve().unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            asked.join().unwrap()
        });
        let KeeperReply::Keeper(said) = found else { panic!("{found:?}") };
        assert_eq!(said, answer());
        drop(KeptRendezvous(Arc::clone(&door)));
        assert!(door.descriptor().is_none() && door.serve().is_ok());
        assert!(matches!(rendezvous.ask(SHORT), KeeperReply::Nobody));
        assert!(rendezvous.bind().unwrap().is_some());
    }

    #[test]
    fn one_that_waits_at_a_rendezvous_that_ends_is_sent_away() {
        let rendezvous = fresh("ends");
        let socket = rendezvous.bind().unwrap().unwrap();
        let found = asked(&rendezvous, move || {
            std::thread::sleep(SHORT);
            drop(socket);
        });
        assert!(matches!(found, KeeperReply::Nobody), "{found:?}");
    }

    #[test]
    fn a_keeper_that_is_silent_or_no_emulator_is_named() {
        let rendezvous = fresh("silent");
        let socket = rendezvous.bind().unwrap().unwrap();
        let KeeperReply::Unusable(why) = rendezvous.ask(SHORT) else { panic!("an answer") };
        let own = format!("process {} keeps the rendezvous", std::process::id());
        assert!(why.contains(&own) && why.contains("not answered within 0.1 s"), "{why}");
        socket.set_nonblocking(false).unwrap();
        drop(socket.accept().unwrap());
        for said in [&b"what is this"[..], &[b' '; MOST_BYTES + 1]] {
            let found = asked(&rendezvous, || {
                let (mut stream, _) = socket.accept().unwrap();
                let _ = stream.write_all(said);
            });
            let KeeperReply::Unusable(why) = found else { panic!("an answer") };
            assert!(why.contains(&own) && why.contains("as an emulator does"), "{why}");
        }
        // A keeper whose queue is full.
        // SAFETY: a socket of our own, which listens already; only the length of its queue changes.
        assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 2) }, 0);
        let mut queue = Vec::new();
        while let Ok(stream) = rendezvous.connect() {
            queue.push(stream);
        }
        let KeeperReply::Unusable(why) = rendezvous.ask(SHORT) else { panic!("an answer") };
        assert!(why.contains("has accepted no connection for 0.1 s"), "{why}");
    }
}
