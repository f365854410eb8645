//! The listener: the thread of a process that handles messages from other processes. It accepts new
//! connections, handles the frames of known processes, and notices when a process is gone. It also
//! wakes ranks of this process when another process rings the bell of this process.
//!
//! The listener is started when the process first needs a connection to other processes, for
//! example when it makes its first root info. Its address has no name in any file system, so
//! nothing is left behind, however the process ends. Only processes of this machine can connect to
//! it. A process that connects must belong to the same user and have the secret of this process. It
//! must use the same layout for the words that the two will share.

mod strangers;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::line::{Frame, Line, credentials, halves, own_user, polled, wait_for};
use super::peer::{Doorbell, Hello, Home, Peer, random};
use super::rendezvous::{Door, KeeperAnswer, KeptRendezvous};
use crate::memory::window;
use crate::sleep::OwnThread;
use ascend_sync::lock_std as lock;
use strangers::Stranger;

/// The reactions of this process to other processes.
#[derive(Clone, Copy)]
pub(crate) struct Hears {
    /// The number of the layout of the shared words. It must be equal in processes that share
    /// words.
    pub(crate) layout: u64,
    /// The function that handles a frame of a process.
    pub(crate) said: fn(&Arc<Peer>, Frame),
    /// The function that handles the loss of a process, with the reason.
    pub(crate) lost: fn(&Arc<Peer>, &str),
    /// The function that handles a ring of the bell: a rank of this process may go on, or another
    /// process has connected.
    pub(crate) rung: fn(),
}

/// The state of the listener that other threads of this process use.
struct Own {
    home: Home,
    bell: Doorbell,
    hears: Hears,
    /// The processes that other threads of this process have connected to. The listener will listen
    /// to them.
    new: Mutex<Vec<KnownPeer>>,
    peers: Mutex<BTreeMap<Home, Arc<Peer>>>,
    /// The rendezvous that this process keeps.
    doors: Mutex<Vec<Arc<Door>>>,
    /// The number of rounds of the listener that have begun. `over` is the number of rounds that
    /// are over. In each round the listener handles everything that arrived before the round.
    begun: AtomicU64,
    over: AtomicU64,
}

/// A process that has introduced itself.
struct KnownPeer {
    line: Line,
    peer: Arc<Peer>,
    /// A descriptor that becomes readable when the process ends; `None` if the system does not
    /// support this.
    end: Option<OwnedFd>,
}

/// The time limit for a process to introduce itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for which no connection is accepted after the descriptors ran out.
const AGAIN: Duration = Duration::from_millis(100);

/// The state of this process. A process that was forked makes its own.
static OWN: Mutex<Option<&'static Own>> = Mutex::new(None);

fn known() -> Option<&'static Own> {
    let process = std::process::id();
    (*lock(&OWN)).filter(|own| own.home.process == process)
}

/// Returns whether an address is that of this process.
pub(crate) fn is_own(home: &Home) -> bool {
    known().is_some_and(|own| own.home == *home)
}

/// Wakes the listener.
pub(super) fn nudge() {
    if let Some(own) = known() {
        own.bell.ring();
    }
}

/// Waits until the listener has handled everything that arrived in this process before the call.
/// Must not be called while the caller holds a lock that the listener may need.
pub(crate) fn catch_up() {
    let Some(own) = known() else { return };
    // The next round checks after this moment; the current round may have checked before it.
    let next = own.begun.load(Ordering::SeqCst) + 1;
    let mut over = own.over.load(Ordering::SeqCst);
    while over < next {
        own.bell.ring();
        let before = over;
        while over == before {
            std::thread::yield_now();
            over = own.over.load(Ordering::SeqCst);
        }
    }
}

/// Returns the address of this process. From now on, other processes can connect to it.
pub(crate) fn open(hears: Hears) -> Result<Home, String> {
    own(hears).map(|own| own.home).map_err(|e| format!("this process cannot be reached: {e}"))
}

fn own(hears: Hears) -> io::Result<&'static Own> {
    let process = std::process::id();
    let mut found = lock(&OWN);
    if let Some(own) = found.filter(|own| own.home.process == process) {
        return Ok(own);
    }
    let home = Home { process, name: random(), secret: random() };
    let socket = UnixListener::bind_addr(&home.address()?)?;
    socket.set_nonblocking(true)?;
    let (new, peers, doors) = (Mutex::default(), Mutex::default(), Mutex::default());
    // This is never freed, because a process has only one.
    let own: &'static Own = Box::leak(Box::new(Own {
        home,
        bell: Doorbell::new()?,
        hears,
        new,
        peers,
        doors,
        begun: AtomicU64::new(0),
        over: AtomicU64::new(0),
    }));
    let run = move || {
        let _own = OwnThread::new();
        Listener { own, socket, strangers: Vec::new(), known: Vec::new(), full_until: None }.run();
    };
    std::thread::Builder::new().name("ascend-fabric".into()).spawn(run)?;
    *found = Some(own);
    Ok(own)
}

/// Answers all processes that come to a rendezvous, until the returned value is dropped. This
/// process has bound the rendezvous to `socket`, for a rank.
pub(crate) fn keep(
    socket: UnixListener,
    hears: Hears,
    number: u64,
    rank: u32,
) -> Result<KeptRendezvous, String> {
    let own = own(hears).map_err(|e| format!("this process cannot be reached: {e}"))?;
    let door = Arc::new(Door::new(socket, &KeeperAnswer { home: own.home, number, rank }));
    lock(&own.doors).push(Arc::clone(&door));
    own.bell.ring();
    Ok(KeptRendezvous(door))
}

impl Home {
    fn address(&self) -> io::Result<SocketAddr> {
        let name = format!("ascend-emulator-{}-{:016x}", self.process, self.name);
        SocketAddr::from_abstract_name(name)
    }
}

/// Returns the process at another address. If it is not known, connects to it and waits for its
/// answer, for at most `limit`.
pub(crate) fn reach(home: &Home, hears: Hears, limit: Duration) -> Result<Arc<Peer>, String> {
    let own = own(hears).map_err(|e| format!("this process cannot be reached: {e}"))?;
    if let Some(peer) = lock(&own.peers).get(home).filter(|peer| peer.gone().is_none()) {
        return Ok(Arc::clone(peer));
    }
    own.go_to(home, limit)
}

/// Returns the name of this process, and the other processes that are known. The name is 0 and the
/// list is empty if this process has no listener yet.
pub(crate) fn neighbours() -> (u64, Vec<Arc<Peer>>) {
    let Some(own) = known() else { return (0, Vec::new()) };
    let peers = lock(&own.peers);
    (own.home.name, peers.values().filter(|peer| peer.gone().is_none()).cloned().collect())
}

/// Returns the process at an address, if it is known.
pub(crate) fn find(home: &Home) -> Option<Arc<Peer>> {
    lock(&known()?.peers).get(home).filter(|peer| peer.gone().is_none()).cloned()
}

impl Own {
    /// Returns the introduction of this process for a process with this secret, and the descriptors
    /// that belong to the introduction.
    fn hello(&self, secret: u64) -> io::Result<(Hello, Vec<Arc<OwnedFd>>)> {
        let windows = window::windows().map_err(io::Error::other)?;
        let hello = Hello {
            layout: self.hears.layout,
            version: env!("CARGO_PKG_VERSION").into(),
            secret,
            home: self.home,
            data: windows.data,
            bytes: windows.device_bytes + windows.host_bytes,
            device_bytes: windows.device_bytes,
        };
        let pool = Arc::new(windows.shared.file().try_clone()?);
        Ok((hello, vec![Arc::clone(&self.bell.0), pool]))
    }

    fn go_to(&'static self, home: &Home, limit: Duration) -> Result<Arc<Peer>, String> {
        let process = home.process;
        let unreachable = |e: io::Error| match e.kind() {
            // The process has ended, before or after this one connected to it.
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => format!("process {process} has ended"),
            _ => format!("process {process} cannot be reached: {e}"),
        };
        let address = home.address().map_err(unreachable)?;
        let stream = UnixStream::connect_addr(&address).map_err(unreachable)?;
        let (there, user) = credentials(&stream).map_err(unreachable)?;
        if user != own_user() {
            return Err(format!(
                "the address of process {process} is taken by user {user}; start that process again"
            ));
        }
        let (mut line, mut outlet) = halves(stream).map_err(unreachable)?;
        let (hello, files) = self.hello(home.secret).map_err(unreachable)?;
        outlet.send(&as_bytes(&hello), files).map_err(unreachable)?;
        let until = Instant::now() + limit;
        let mut frames = Vec::new();
        while frames.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = limit.as_secs_f64();
                return Err(format!(
                    "process {process} has not answered within {seconds:.1} s; check that it is \
                     not stopped"
                ));
            }
            wait_for(&mut [polled(line.descriptor(), libc::POLLIN)], left);
            let received = line.receive(&mut frames);
            if frames.is_empty() {
                received.map_err(|_| format!("process {process} has ended"))?;
            }
        }
        let first =
            frames.into_iter().next().map(|frame| (serde_json::from_slice(&frame.bytes), frame));
        let peer = match first {
            Some((Ok(Greeting::Welcome(hello)), frame)) if hello.home == *home => {
                Peer::new(&hello, there, frame.files, outlet).map_err(unreachable)?
            }
            Some((Ok(Greeting::Refused(why)), _)) => return Err(why),
            _ => return Err(format!("process {process} has not answered as an emulator does")),
        };
        line.trust();
        let peer = self.known_as(peer)?;
        lock(&self.new).push(KnownPeer { line, peer: Arc::clone(&peer), end: end_of(there) });
        self.bell.ring();
        Ok(peer)
    }
}

impl Own {
    /// Returns the rendezvous that are not over.
    fn doors(&self) -> Vec<Arc<Door>> {
        let mut doors = lock(&self.doors);
        doors.retain(|door| door.descriptor().is_some());
        doors.clone()
    }

    /// Returns the peer for a process: the same peer, however often the two processes have
    /// connected to each other. So all frames of this process use one connection, and stay in
    /// order. Returns an error if two processes claim to have the same address.
    fn known_as(&self, peer: Peer) -> Result<Arc<Peer>, String> {
        let (home, process) = (peer.home, peer.process);
        let mut peers = lock(&self.peers);
        peers.retain(|_, known| known.gone().is_none());
        let known = peers.entry(home).or_insert_with(|| Arc::new(peer));
        if known.process != process {
            let said = home.process;
            return Err(format!("it says that it is process {said}, but it is process {process}"));
        }
        Ok(Arc::clone(known))
    }
}

/// The answer to a process that has connected.
#[derive(serde::Serialize, serde::Deserialize)]
enum Greeting {
    Welcome(Hello),
    Refused(String),
}

/// Returns a message as the bytes that are sent.
pub(crate) fn as_bytes(said: &impl serde::Serialize) -> Vec<u8> {
    // This fails only for a key that is not text, and no message has one.
    serde_json::to_vec(said).unwrap_or_default()
}

/// Returns a descriptor that becomes readable when a process ends. `None` if the system does not
/// support this, or if the process does not exist.
fn end_of(process: i32) -> Option<OwnedFd> {
    // SAFETY: a new descriptor, which nobody else has.
    unsafe {
        let file = libc::syscall(libc::SYS_pidfd_open, process, 0);
        (file >= 0).then(|| OwnedFd::from_raw_fd(file as i32))
    }
}

/// Returns whether a process has ended, even if the listener has not noticed it yet.
pub(crate) fn has_ended(peer: &Peer) -> bool {
    if peer.gone().is_some() {
        return true;
    }
    match end_of(peer.process) {
        Some(end) => {
            let mut end = [polled(end.as_raw_fd(), libc::POLLIN)];
            // SAFETY: one structure, writable.
            unsafe { libc::poll(end.as_mut_ptr(), 1, 0) == 1 }
        }
        None => io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH),
    }
}

/// The state of the listener thread.
struct Listener {
    own: &'static Own,
    socket: UnixListener,
    strangers: Vec<Stranger>,
    known: Vec<KnownPeer>,
    /// The time before which no connection is accepted, because the descriptors ran out.
    full_until: Option<Instant>,
}

impl Listener {
    fn run(mut self) -> ! {
        loop {
            self.own.begun.fetch_add(1, Ordering::SeqCst);
            let new = std::mem::take(&mut *lock(&self.own.new));
            for mut known in new {
                // Handles the frames that the process sent after its greeting.
                if known.listen(false, self.own.hears) {
                    self.known.push(known);
                }
            }
            let is_full = self.full_until.is_some_and(|until| Instant::now() < until);
            let mut all = vec![
                polled(self.own.bell.0.as_fd().as_raw_fd(), libc::POLLIN),
                polled(if is_full { -1 } else { self.socket.as_fd().as_raw_fd() }, libc::POLLIN),
            ];
            for KnownPeer { line, peer, end } in &self.known {
                let writes = if peer.is_waiting() { libc::POLLOUT } else { 0 };
                all.push(polled(line.descriptor(), libc::POLLIN | writes));
                // A negative descriptor is ignored.
                all.push(polled(end.as_ref().map_or(-1, AsRawFd::as_raw_fd), libc::POLLIN));
            }
            let doors = self.own.doors();
            let of_doors = doors.iter().map(|door| door.descriptor().filter(|_| !is_full));
            all.extend(of_doors.map(|door| polled(door.unwrap_or(-1), libc::POLLIN)));
            let of_strangers = self.strangers.iter().map(|one| one.line.descriptor());
            all.extend(of_strangers.map(|line| polled(line, libc::POLLIN)));
            let limit = match (is_full, self.strangers.is_empty()) {
                (true, _) => AGAIN,
                (_, false) => PATIENCE / 4,
                _ => Duration::MAX,
            };
            wait_for(&mut all, limit);
            let happened = |at: usize| all.get(at).is_some_and(|found| found.revents != 0);
            if happened(0) {
                self.own.bell.quiet();
                guarded(self.own.hears.rung);
            }
            let mut at = 2;
            let hears = self.own.hears;
            self.known.retain_mut(|known| {
                let (speaks, ends) = (happened(at), happened(at + 1));
                at += 2;
                !(speaks || ends) || known.listen(ends, hears)
            });
            for door in doors {
                if happened(at) && door.serve().is_err() {
                    self.full_until = Some(Instant::now() + AGAIN);
                }
                at += 1;
            }
            if happened(1) {
                self.let_in();
            }
            self.meet_strangers();
            lock(&self.own.peers).retain(|_, peer| peer.gone().is_none());
            self.own.over.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl KnownPeer {
    /// Handles the frames of the process. Returns false if it is gone.
    fn listen(&mut self, has_ended: bool, hears: Hears) -> bool {
        let mut frames = Vec::new();
        let mut received = self.line.receive(&mut frames);
        // Handles everything that the process sent before it ended.
        while has_ended && received.is_ok() && !frames.is_empty() {
            frames.drain(..).for_each(|frame| guarded(|| (hears.said)(&self.peer, frame)));
            received = self.line.receive(&mut frames);
        }
        frames.into_iter().for_each(|frame| guarded(|| (hears.said)(&self.peer, frame)));
        let sent = self.peer.flush().map(drop);
        let process = self.peer.home.process;
        let why = match received.and(sent) {
            Ok(()) if !has_ended => return true,
            Ok(()) => format!("process {process} has ended"),
            Err(e) if e.kind() == io::ErrorKind::Other => format!("process {process}: {e}"),
            Err(_) => format!("process {process} has ended"),
        };
        if self.peer.lose(why.clone()) {
            guarded(|| (hears.lost)(&self.peer, &why));
        }
        false
    }
}

/// Runs a reaction to a message. The thread goes on even if the reaction panics.
fn guarded(act: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(act));
}

/// Returns whether a line can be written to standard error without waiting for its reader.
pub(crate) fn takes_lines() -> bool {
    let mut stderr = [polled(libc::STDERR_FILENO, libc::POLLOUT)];
    // SAFETY: one structure, writable.
    let is_ready = unsafe { libc::poll(stderr.as_mut_ptr(), 1, 0) } == 1;
    is_ready && stderr[0].revents == libc::POLLOUT
}
