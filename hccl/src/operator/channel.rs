//! Channels, and which rank may touch the memory at their two ends.
//!
//! A channel joins two ranks. Each lets the other at its communication buffer, one at a time:
//!
//! ```text
//! the owner                      the peer
//! expose   ---- ready ---->      enter      from here on the peer reads and writes the owner's buffer,
//!                                read, write
//! reclaim  <---- left -----      leave      from here on it is the owner's again
//! ```
//!
//! Between `expose` and `reclaim` the owner leaves its buffer alone, at least the part that the
//! peer uses. Other peers may be in it at the same time, each by its own channel. Both directions
//! of a channel are independent of each other. It takes two notifies at each end: the first says
//! that the peer's memory is ready, the second that the peer has left.

use std::fmt;
use std::panic::Location;

use super::memory::RemoteBuffer;
use super::state::State;

/// A channel to a peer (CANN: `HcclChannelAcquire`). Asking for it again gives the same one.
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
    /// Its place among the channels of the rank.
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
/// Dropping or forgetting it is a mistake: the peer's last record would be left over for the next
/// operator.
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

/// The right of this rank to read and write the peer's communication buffer, until it
/// [leaves](super::Thread::leave).
///
/// Several threads may use it, as long as the one that leaves is certain to come last. Work of
/// another thread within the same [fork](super::MainThread::fork) is not certain to be over; work
/// in an earlier fork is. Dropping or forgetting it is a mistake: the peer would wait for ever.
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
    /// Returns the peer's communication buffer, whole.
    pub fn buffer(&self) -> RemoteBuffer<'_> {
        RemoteBuffer::whole(self.channel)
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

/// The place as text: "src/ring.rs:12"
pub(super) fn line(here: &Location<'_>) -> String {
    format!("{}:{}", here.file(), here.line())
}
