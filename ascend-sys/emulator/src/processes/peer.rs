//! Another process of the machine with which this one shares communicators.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde::{Deserialize, Serialize};

use super::line::Outlet;
use super::region::{SharedMemory, check_file};
use ascend_sync::lock_std as lock;

/// A number that nobody can guess: the keys of a hasher are from the system, and each has its own.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Where a process can be reached, and what it wants to hear. Only who was given a root info of it, or was told by one that was, knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Home {
    pub(crate) process: u32,
    /// Tells it from an earlier process of the same number. Every program of the machine can see it.
    pub(crate) name: u64,
    /// Nobody can see this.
    pub(crate) secret: u64,
}

/// What processes tell one another first, with two descriptors: the [bell](Doorbell), and the file of device memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Equal where two processes mean the same by the words that they share.
    pub(super) layout: u64,
    pub(super) version: String,
    /// The one that is spoken to.
    pub(super) secret: u64,
    pub(super) home: Home,
    /// Where its device memory is mapped, and how much there is of it.
    pub(super) data: usize,
    pub(super) bytes: usize,
}

/// Wakes the [listener](super::listener) of a process.
#[derive(Clone)]
pub(crate) struct Doorbell(pub(super) Arc<OwnedFd>);

impl Doorbell {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, which nobody else has.
        unsafe {
            let file = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(Arc::new(OwnedFd::from_raw_fd(file))))
        }
    }

    /// Whoever has made it: ringing waits for nobody.
    fn never_blocks(&self) -> io::Result<()> {
        // SAFETY: a descriptor of our own; only a flag is set.
        let result = unsafe {
            let flags = libc::fcntl(self.0.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(self.0.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the bytes are there. One that cannot be written was rung often enough.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// It has not been rung from now on.
    pub(super) fn quiet(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the bytes are writable.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// See the [module](self).
pub(crate) struct Peer {
    pub(crate) home: Home,
    pub(crate) bell: Doorbell,
    outlet: Mutex<Outlet>,
    pool: OwnedFd,
    /// Where its device memory is mapped in it.
    data: usize,
    bytes: usize,
    mapped: Mutex<BTreeMap<(usize, usize), Weak<SharedMemory>>>,
    gone: OnceLock<String>,
}

/// Device memory of another process, as this one sees it.
#[derive(Clone)]
pub(crate) struct PeerMemory {
    /// Where it lies in that process.
    theirs: usize,
    bytes: usize,
    ours: Arc<SharedMemory>,
}

impl PeerMemory {
    /// Where bytes are that lie at an address of that process; `None` where they are not within this memory.
    #[inline]
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.theirs);
        let is_within = offset <= self.bytes && bytes <= self.bytes - offset;
        is_within.then(|| std::ptr::with_exposed_provenance_mut(self.ours.address() + offset))
    }
}

impl Peer {
    /// A process that has said who it is. The files are its bell and its device memory.
    pub(super) fn new(hello: &Hello, files: Vec<OwnedFd>, outlet: Outlet) -> io::Result<Self> {
        let Ok([bell, pool]) = <[OwnedFd; 2]>::try_from(files) else {
            return Err(io::Error::other("it has sent other descriptors than belong to it"));
        };
        check_file(pool.as_fd(), hello.bytes)?;
        let bell = Doorbell(Arc::new(bell));
        bell.never_blocks()?;
        Ok(Self {
            home: hello.home,
            bell,
            outlet: Mutex::new(outlet),
            pool,
            data: hello.data,
            bytes: hello.bytes,
            mapped: Mutex::default(),
            gone: OnceLock::new(),
        })
    }

    /// A part of its device memory, from an offset on.
    pub(crate) fn memory(&self, start: usize, bytes: usize) -> io::Result<PeerMemory> {
        let end = start.checked_add(bytes).filter(|end| *end <= self.bytes);
        let theirs = end.and(self.data.checked_add(start));
        let Some(theirs) = theirs else {
            return Err(io::Error::other("a device beyond the memory of its process"));
        };
        let mut mapped = lock(&self.mapped);
        mapped.retain(|_, memory| memory.strong_count() > 0);
        let known = mapped.get(&(start, bytes)).and_then(Weak::upgrade);
        let ours = match known {
            Some(known) => known,
            None => {
                let new = Arc::new(SharedMemory::map(self.pool.try_clone()?, start, bytes)?);
                mapped.insert((start, bytes), Arc::downgrade(&new));
                new
            }
        };
        Ok(PeerMemory { theirs, bytes, ours })
    }

    /// Tells it something. Waits for nobody; to one that is gone nothing is said. One that cannot be told is lost from now on, and loses this process.
    pub(crate) fn say(&self, bytes: &[u8], files: Vec<Arc<OwnedFd>>) {
        let mut outlet = lock(&self.outlet);
        let waits = match outlet.send(bytes, files) {
            Ok(()) => outlet.is_waiting(),
            Err(_) => {
                outlet.end();
                false
            }
        };
        drop(outlet);
        if waits {
            super::listener::nudge();
        }
    }

    /// Sends what there is room for. True if there is more.
    pub(super) fn flush(&self) -> io::Result<bool> {
        let mut outlet = lock(&self.outlet);
        outlet.flush()?;
        Ok(outlet.is_waiting())
    }

    pub(super) fn is_waiting(&self) -> bool {
        lock(&self.outlet).is_waiting()
    }

    /// It is gone, for this reason. False when that was known.
    pub(super) fn lose(&self, why: String) -> bool {
        self.gone.set(why).is_ok()
    }

    /// Why it is gone.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.gone.get().map(String::as_str)
    }
}
