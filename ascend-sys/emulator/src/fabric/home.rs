//! Which process a root info is from, and how that one learns that it was brought to another one.
//!
//! The ranks of an emulated communicator live in one process. A process that is brought the root info of
//! another one refuses it, and tells that one, whose ranks wait for a rank that cannot come: by a
//! datagram to a socket whose address has no name in any file system. Process and secret of a root info
//! are that address, so nobody can write there who was not given a root info.
//!
//! It is told once and as well as possible: where it does not arrive, the ranks wait for their limit.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;

use ascend_sync::lock_std as lock;

/// A process, as its root infos name it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) process: u64,
    pub(super) secret: [u64; 2],
}

/// A rank that was brought to another process.
pub(super) struct Stray {
    /// Of the root info, in the process that it is from.
    pub(super) number: u64,
    pub(super) rank: u32,
    pub(super) process: u64,
}

struct HomeSocket {
    home: Home,
    /// `None` where there are no such sockets.
    socket: Option<UnixDatagram>,
}

/// That of this process: one that was forked makes its own.
static HOME: Mutex<Option<HomeSocket>> = Mutex::new(None);

/// Words of a message.
const WORDS: usize = 3;

impl Home {
    /// This process.
    pub(super) fn own() -> Home {
        let process = u64::from(std::process::id());
        let mut found = lock(&HOME);
        match &*found {
            Some(known) if known.home.process == process => known.home,
            _ => {
                // Each has keys of its own, from the system.
                let random = || RandomState::new().build_hasher().finish();
                let home = Home { process, secret: [random(), random()] };
                let socket = home.address().and_then(|at| UnixDatagram::bind_addr(&at));
                let socket = socket.ok().filter(|socket| socket.set_nonblocking(true).is_ok());
                *found = Some(HomeSocket { home, socket });
                home
            }
        }
    }

    fn address(&self) -> std::io::Result<SocketAddr> {
        let [first, second] = self.secret;
        let name = format!("ascend-emulator-{}-{first:016x}{second:016x}", self.process);
        SocketAddr::from_abstract_name(name)
    }

    /// Tells this process that a rank was brought to the calling one, with its root info of this number.
    /// Whether it has arrived there. Does not block.
    pub(super) fn tell(&self, number: u64, rank: u32) -> bool {
        let words: [u64; WORDS] = [number, rank.into(), std::process::id().into()];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to_addr(&bytes, &self.address()?)
        });
        sent.is_ok_and(|sent| sent == bytes.len())
    }
}

/// What this process was told. Does not block.
pub(super) fn strays() -> Vec<Stray> {
    let mut strays = Vec::new();
    let found = lock(&HOME);
    let Some(HomeSocket { socket: Some(socket), .. }) = &*found else { return strays };
    // One byte more than a message has: a longer one is none.
    let mut bytes = [0; 8 * WORDS + 1];
    while let Ok(length) = socket.recv(&mut bytes) {
        let mut words =
            bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes));
        if length == 8 * WORDS
            && let (Some(number), Some(rank), Some(process)) =
                (words.next(), words.next(), words.next())
            && let Ok(rank) = rank.try_into()
        {
            strays.push(Stray { number, rank, process });
        }
    }
    strays
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[cfg_attr(miri, ignore = "there are no sockets")]
    #[test]
    fn what_is_told_arrives_and_what_is_no_message_does_not() {
        let own = Home::own();
        assert!(own == Home::own());
        assert!(own.tell(7, 3));
        let stranger = UnixDatagram::unbound().unwrap();
        for length in [0, 8, 23, 25, 4096] {
            stranger.send_to_addr(&vec![1; length], &own.address().unwrap()).unwrap();
        }
        stranger.send_to_addr(&[u8::MAX; 24], &own.address().unwrap()).unwrap();
        assert!(own.tell(8, 4));
        let found: Vec<_> = strays().iter().map(|it| (it.number, it.rank, it.process)).collect();
        let me = u64::from(std::process::id());
        assert_eq!(found, [(7, 3, me), (8, 4, me)]);
        let elsewhere = Home { secret: [own.secret[0] ^ 1, own.secret[1]], ..own };
        assert!(!elsewhere.tell(7, 3), "nobody is there");
    }
}
