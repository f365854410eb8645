//! Channels, and the rules for which rank may touch the communication buffers at their two ends.
//!
//! A channel joins two ranks. Each rank lets the other rank use its communication buffer. The owner
//! of a buffer and the peer take turns:
//!
//! ```text
//! the owner                      the peer
//! expose   ---- ready ---->      enter      from here on the peer reads and writes the owner's buffer,
//!                                read, write
//! reclaim  <---- left -----      leave      from here on it is the owner's again
//! ```
//!
//! Between `expose` and `reclaim` the owner does not touch the part of its buffer that the peer
//! uses. Other peers may use the buffer at the same time, each through its own channel. The two
//! directions of a channel are independent. The protocol takes two notifies at each end of the
//! channel. The first says that the peer's buffer is ready. The second says that the peer has left
//! this rank's buffer.

use std::fmt;
use std::panic::Location;

use super::memory::RemoteBuffer;
use super::state::State;

/// A channel to a peer (CANN: `HcclChannelAcquire`).
/// [`Recorder::channel`](super::Recorder::channel) returns the same channel each time it is called
/// for the same peer.
///
/// ```
/// use hccl::operator::*;
///
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.copy(op.input(), op.buffer().slice(..op.count()));
///     let next: Channel<'_> = op.channel(op.peer(1));
///     let previous = op.channel(op.peer(-1));
///     let exposed = main.expose(next);
///     let access = main.enter(previous);
///     main.read(access.buffer().slice(..op.count()), op.output());
///     main.leave(access);
///     main.reclaim(exposed);
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Channel<'r> {
    pub(super) state: &'r State,
    pub(super) peer: u32,
    /// The index of the channel among the channels of the rank.
    pub(super) number: usize,
}

impl Channel<'_> {
    /// Returns the rank at the other end.
    pub fn peer(&self) -> u32 {
        self.peer
    }
}

impl fmt::Debug for Channel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel(rank {} to rank {})", self.state.shape.rank, self.peer)
    }
}

/// The right of a peer to read and write this rank's communication buffer, until the buffer is
/// [reclaimed](super::Thread::reclaim).
///
/// Dropping or forgetting an `Exposed` is a mistake: the notify that the peer sets when it leaves
/// would still be set when the next operator runs.
///
/// ```
/// use hccl::operator::*;
///
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.copy(op.input(), op.buffer().slice(..op.count()));
///     let exposed: Exposed<'_> = main.expose(op.channel(op.peer(1))); // the next rank may read it
///     main.visit(op.channel(op.peer(-1)), |theirs| {
///         main.read(theirs.slice(..op.count()), op.output());
///     });
///     main.reclaim(exposed); // waits until the next rank has left
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "the peer has the buffer until it is reclaimed"]
pub struct Exposed<'r> {
    pub(super) channel: Channel<'r>,
}

/// The right of this rank to read and write the peer's communication buffer, until this rank
/// [leaves](super::Thread::leave) the buffer.
///
/// Several threads may use the buffer if the thread that leaves it is certain to be the last user.
/// Work of another thread in the same [fork](super::MainThread::fork) is not certain to be complete
/// by then, but work in an earlier fork is. Dropping or forgetting an `Access` is a mistake: the
/// peer would wait forever.
///
/// ```
/// use hccl::operator::*;
///
/// fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
///     main.copy(op.input(), op.buffer().slice(..op.count()));
///     let exposed = main.expose(op.channel(op.peer(1)));
///     let access: Access<'_> = main.enter(op.channel(op.peer(-1))); // waits until it is exposed
///     main.read(access.buffer().slice(..op.count()), op.output());
///     main.leave(access);
///     main.reclaim(exposed);
/// }
/// # let operator = Operator::other("own", 100, 100, own);
/// # assert!(operator.record::<f32>(3, 100)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "the peer waits until it is left"]
pub struct Access<'r> {
    pub(super) channel: Channel<'r>,
}

impl Access<'_> {
    /// Returns the whole communication buffer of the peer.
    pub fn buffer(&self) -> RemoteBuffer<'_> {
        let Channel { state, peer, number } = self.channel;
        RemoteBuffer::whole(state, peer, number)
    }

    /// Returns the rank of the peer.
    pub fn peer(&self) -> u32 {
        self.channel.peer
    }
}

impl fmt::Debug for Exposed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exposed(to rank {})", self.channel.peer)
    }
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access(to the buffer of rank {})", self.channel.peer)
    }
}

/// Returns a source location as text, for example "src/ring.rs:12".
pub(super) fn line(here: &Location<'_>) -> String {
    format!("{}:{}", here.file(), here.line())
}
