//! Other processes of the machine that this process is connected to.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde::{Deserialize, Serialize};

use super::line::Outlet;
use super::region::{SharedMemory, check_file};
use ascend_sync::lock_std as lock;

/// Returns a random number that cannot be guessed. The system provides the keys of a hasher, and
/// each hasher has its own keys.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The address of a process, with the secret that it requires. Another process gets the address
/// from a root info, a key, the description of an endpoint, a rendezvous, or a process that has the
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Home {
    pub(crate) process: u32,
    /// A number that distinguishes the process from an earlier one with the same process id. Every
    /// program of the machine can see it.
    pub(crate) name: u64,
    /// The secret. Other programs cannot see it.
    pub(crate) secret: u64,
}

/// The first message between two processes. It comes with two descriptors: the [bell](Doorbell) of
/// the sender, and the file of its memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The number of the layout of the shared words. It must be equal in processes that share
    /// words.
    pub(super) layout: u64,
    pub(super) version: String,
    /// The secret of the receiving process.
    pub(super) secret: u64,
    pub(super) home: Home,
    /// The address at which the memory of the sender is mapped. `bytes` is the size of the memory.
    /// Its first `device_bytes` bytes are device memory, and the rest is host memory.
    pub(super) data: usize,
    pub(super) bytes: usize,
    pub(super) device_bytes: usize,
}

/// A descriptor that wakes the [listener](super::listener) of a process.
#[derive(Clone)]
pub(crate) struct Doorbell(pub(crate) Arc<OwnedFd>);

impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor, which nobody else has.
        unsafe {
            let file = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(Arc::new(OwnedFd::from_raw_fd(file))))
        }
    }

    /// Makes a doorbell of another process. Ringing it does not wait, and raises no signal, as
    /// writing to a pipe may.
    fn of_another(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: zeros are a value of this structure, and `fstat` fills it.
        let (result, kind) = unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            (libc::fstat(file.as_raw_fd(), &mut about), about.st_mode & libc::S_IFMT)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // An `eventfd` has no file type, but a pipe and a socket have one.
        if kind != 0 {
            return Err(io::Error::other("its bell is not an eventfd"));
        }
        let bell = Self(Arc::new(file));
        bell.never_blocks()?;
        Ok(bell)
    }

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
        // SAFETY: the bytes are there. If the bell cannot take more, it was rung often enough.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Resets the bell, so that it counts as not rung.
    pub(super) fn quiet(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the bytes are writable.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// A process that this process is connected to.
pub(crate) struct Peer {
    pub(crate) home: Home,
    /// The process id, as the system reports it. It need not be the id that the process itself
    /// gives.
    pub(crate) process: i32,
    pub(crate) bell: Doorbell,
    outlet: Mutex<Outlet>,
    pool: OwnedFd,
    /// The address of the peer's memory in the peer: device memory, then pinned host memory.
    data: usize,
    bytes: usize,
    device_bytes: usize,
    mapped: Mutex<BTreeMap<(usize, usize), Weak<SharedMemory>>>,
    gone: OnceLock<String>,
    /// The number of frames that were sent to the peer. `heard` is the number of frames from the
    /// peer that were handled. Frames about [stillness](crate::fabric::stillness) do not count.
    said: AtomicU64,
    heard: AtomicU64,
}

/// Device memory of another process that is mapped in this process.
#[derive(Clone)]
pub(crate) struct PeerMemory {
    /// The address of the memory in the other process.
    theirs: usize,
    bytes: usize,
    ours: Arc<SharedMemory>,
}

impl PeerMemory {
    /// Returns the address in this process of bytes that have `address` in the other process.
    /// `None` if they are not within this memory.
    #[inline]
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.theirs);
        let is_within = offset <= self.bytes && bytes <= self.bytes - offset;
        is_within.then(|| std::ptr::with_exposed_provenance_mut(self.ours.address() + offset))
    }
}

impl Peer {
    /// Makes the peer for a process that has introduced itself. `files` are its bell and its
    /// memory.
    pub(super) fn new(
        hello: &Hello,
        process: i32,
        files: Vec<OwnedFd>,
        outlet: Outlet,
    ) -> io::Result<Self> {
        let Ok([bell, pool]) = <[OwnedFd; 2]>::try_from(files) else {
            return Err(io::Error::other("it has sent a wrong number of descriptors"));
        };
        check_file(pool.as_fd(), hello.bytes)?;
        if hello.device_bytes > hello.bytes {
            return Err(io::Error::other("its device memory is larger than all of its memory"));
        }
        let bell = Doorbell::of_another(bell)?;
        Ok(Self {
            home: hello.home,
            process,
            bell,
            outlet: Mutex::new(outlet),
            pool,
            data: hello.data,
            bytes: hello.bytes,
            device_bytes: hello.device_bytes,
            mapped: Mutex::default(),
            gone: OnceLock::new(),
            said: AtomicU64::new(0),
            heard: AtomicU64::new(0),
        })
    }

    /// Maps a part of the peer's device memory: `bytes` bytes from the offset `start`.
    pub(crate) fn memory(&self, start: usize, bytes: usize) -> io::Result<PeerMemory> {
        let end = start.checked_add(bytes).filter(|end| *end <= self.device_bytes);
        let theirs = end.and(self.data.checked_add(start));
        let Some(theirs) = theirs else {
            return Err(io::Error::other("the device lies beyond the memory of its process"));
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

    /// Returns the offset, in the file of the peer's memory, of an address of the peer's device
    /// memory. `None` if the address is not in that memory.
    pub(crate) fn offset_of(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.data).filter(|offset| *offset < self.device_bytes)
    }

    /// Returns the offset, in the file of the peer's memory, of bytes of the peer's pinned host
    /// memory. `None` if the bytes do not all lie in that memory.
    pub(crate) fn offset_of_host(&self, address: usize, bytes: usize) -> Option<usize> {
        let offset = address.checked_sub(self.data)?;
        let end = offset.checked_add(bytes)?;
        (self.device_bytes <= offset && end <= self.bytes).then_some(offset)
    }

    /// Returns the file of the peer's memory. Returns an error if these bytes are not device memory
    /// of the peer.
    pub(crate) fn file(&self, start: usize, bytes: usize) -> io::Result<BorrowedFd<'_>> {
        match start.checked_add(bytes) {
            Some(end) if end <= self.device_bytes => Ok(self.pool.as_fd()),
            _ => Err(io::Error::other("the memory lies beyond the device memory of its process")),
        }
    }

    /// Returns the file of the peer's memory. Returns an error if these bytes are not pinned host
    /// memory of the peer.
    pub(crate) fn host_file(&self, start: usize, bytes: usize) -> io::Result<BorrowedFd<'_>> {
        match start.checked_add(bytes) {
            Some(end) if self.device_bytes <= start && end <= self.bytes => Ok(self.pool.as_fd()),
            _ => Err(io::Error::other("the memory lies beyond the host memory of its process")),
        }
    }

    /// Sends a frame to the process, without waiting. Sends nothing to a process that is gone. If a
    /// frame cannot be sent, the connection ends, so each of the two processes loses the other.
    pub(crate) fn say(&self, bytes: &[u8], files: Vec<Arc<OwnedFd>>) {
        self.said.fetch_add(1, Ordering::SeqCst);
        self.say_uncounted(bytes, files);
    }

    /// Sends a frame that cannot end a wait, and does not count it.
    pub(crate) fn say_uncounted(&self, bytes: &[u8], files: Vec<Arc<OwnedFd>>) {
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

    /// Counts a frame as handled: it has had its effect.
    pub(crate) fn note_heard(&self) {
        self.heard.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of frames that were sent to the peer, and the number of frames from the
    /// peer that were handled.
    pub(crate) fn frames(&self) -> (u64, u64) {
        let heard = self.heard.load(Ordering::SeqCst);
        (self.said.load(Ordering::SeqCst), heard)
    }

    /// Sends as many waiting bytes as there is room for. Returns true if some are left.
    pub(super) fn flush(&self) -> io::Result<bool> {
        let mut outlet = lock(&self.outlet);
        outlet.flush()?;
        Ok(outlet.is_waiting())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        lock(&self.outlet).is_waiting()
    }

    /// Notes that the process is gone, for this reason. Returns false if the process was known to
    /// be gone.
    pub(super) fn lose(&self, why: String) -> bool {
        self.gone.set(why).is_ok()
    }

    /// Returns the reason why the process is gone; `None` if it is not.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.gone.get().map(String::as_str)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_an_eventfd_and_nothing_else() {
        let (reader, writer) = io::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = super::super::region::memory_file(1).unwrap();
        for (other, what) in
            [(writer.into(), "a pipe"), (socket.into(), "a socket"), (file, "a file")]
        {
            let refused = Doorbell::of_another(other).map(drop).expect_err(what);
            assert!(refused.to_string().contains("not an eventfd"), "{what}: {refused}");
        }
        drop(reader);
        let own = Doorbell::new().unwrap();
        let bell = Doorbell::of_another(own.0.try_clone().unwrap()).unwrap();
        bell.ring();
        let mut count = [0; 8];
        // SAFETY: the bytes are writable.
        let read = unsafe { libc::read(own.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        assert_eq!((read, u64::from_ne_bytes(count)), (8, 1));
    }
}
