//! The cores of a launch, as they are followed.

use super::client::Turn;
use super::clock::Units;
use super::core_name::CoreName;
use super::local::LocalMemory;
use crate::flow::Walk;

/// A core of the launch.
pub(super) struct Member<'a> {
    pub name: CoreName,
    pub walk: Walk<'a>,
    pub(super) memory: LocalMemory,
    pub(super) units: Units,
    pub state: State,
    /// The numbers that the core has read, if the launch is over.
    pub(super) reads: std::slice::Iter<'a, u64>,
}

/// The state of a core.
#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// The core can continue.
    Ready,
    /// The core waits for a flag.
    Flag(u16),
    /// The core waits for other cores: true for vector cores only, false for all cores.
    Barrier(bool),
    /// The core waits for the server.
    Turn(Turn),
    /// The core is at its end.
    Ended,
    /// The control flow of the core is no longer known.
    Lost,
}
