//! The books of a core about its clients and tasks.
//!
//! Every core that calls a client keeps its own books of handles, commits and waits, as on
//! hardware.

/// A client as one core has it.
#[derive(Default)]
pub(super) struct Client {
    /// The offset of its `Mc2InitTiling`.
    pub(super) init: Option<u64>,
    /// The operations that it was configured for: number and offset of the `Mc2CcTiling`.
    pub(super) configured: Vec<(u32, u64)>,
    pub(super) finalised: bool,
    /// The next slot for a message.
    pub(super) slot: usize,
    /// The task that was prepared last, with the value that its counter must reach.
    pub(super) last: Option<(usize, u32)>,
    /// Whether this core writes messages.
    pub(super) works: bool,
    /// The queues of one-sided writes, on A3.
    pub(super) queues: Queues,
    /// The ring of turns, on Ascend 950.
    pub(super) ring: Ring,
}

/// A task that was prepared, as one core has it.
#[derive(Clone)]
pub(super) struct PreparedTask {
    pub(super) client: usize,
    pub(super) slot: usize,
    /// The final value of its counters, and their step.
    pub(super) total: u32,
    pub(super) step: u32,
    pub(super) ranks: u32,
    pub(super) committed: u32,
    pub(super) awaited: u32,
    /// Slices that `Iterate` has given.
    pub(super) slices: u32,
}

/// The queues of one-sided writes of one core's client.
#[derive(Clone, Copy, Default)]
pub(super) struct Queues {
    /// The number of queues of each core; 0 where the host has set none.
    pub(super) each: u64,
    /// The number of cores that have queues.
    pub(super) cores: u64,
}

/// The turns of a client on Ascend 950, as one core counts them.
#[derive(Default)]
pub(super) struct Ring {
    /// The tasks, by slot.
    pub(super) tasks: Vec<Turns>,
    pub(super) posted: usize,
    /// The places that waits have freed again.
    pub(super) cleared: usize,
}

/// A task with its turns.
pub(super) struct Turns {
    pub(super) repeat: u32,
    pub(super) committed: u32,
    pub(super) posted: u32,
    pub(super) awaited: u32,
}

impl Ring {
    /// Returns the place of a task's first turn if everything is committed in order.
    pub(super) fn start(&self, slot: usize) -> usize {
        self.tasks.iter().take(slot).map(|task| task.repeat as usize).sum()
    }
}
