//! The guard of a call that uses memory of the peer; see [`reaches`](super::reaches).

use super::channel::Channel;
use crate::later;
use crate::message::Failure;
use std::ops::Deref;

/// A guard of a call that uses memory of the peer over an end of a channel. If the call finds the
/// peer's end after making the guard, the memory of that end stays until the guard is dropped.
pub(crate) struct Reach(&'static Channel);

impl Channel {
    /// Makes a guard for a call that uses memory of the peer over this end.
    #[inline]
    pub(crate) fn reach(&'static self) -> Reach {
        self.reaches.begin();
        Reach(self)
    }
}

impl Reach {
    /// Makes a new guard for a kept primitive, if it crosses a channel. Returns an error if an end
    /// of the channel is gone, because memory that the peer has freed may belong to another
    /// allocation.
    pub(super) fn again(over: Option<u64>) -> Result<Option<Reach>, Failure> {
        let Some(channel) = over else { return Ok(None) };
        let reach = Channel::named(channel)?.reach();
        reach.check_peer()?;
        Ok(Some(reach))
    }
}

impl Deref for Reach {
    type Target = &'static Channel;

    #[inline]
    fn deref(&self) -> &&'static Channel {
        &self.0
    }
}

impl Drop for Reach {
    #[inline]
    fn drop(&mut self) {
        self.0.reaches.end();
        later::look();
    }
}
