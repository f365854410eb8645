//! The work that is done when a turn is done.

use std::rc::Rc;

use super::super::clock::Ticks;
use crate::declared::ClientId;

/// The work that is certain to be done when a turn is done.
#[derive(Debug)]
pub(super) struct Begun {
    /// The knowledge that the committing core had when it committed.
    pub(super) knows: Rc<[Ticks]>,
    /// The number of turns that the servers of other groups must have finished before.
    pub(super) after: Rc<[(ClientId, u32)]>,
}
