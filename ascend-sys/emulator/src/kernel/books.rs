//! The records that a core keeps of its clients and tasks.
//!
//! Every core that calls a client keeps its own records of handles, commits and waits, as on
//! hardware.

/// One core's record of a client.
#[derive(Default)]
pub(super) struct Client {
    /// The offset of its `Mc2InitTiling`.
    pub(super) init: Option<u64>,
    /// The operations for which the client was configured: the number of each, and the offset of
    /// its `Mc2CcTiling`.
    pub(super) configured: Vec<(u32, u64)>,
    pub(super) finalised: bool,
    /// The slot of the next message.
    pub(super) slot: usize,
    /// The slot of the last prepared task, with the value that its counter must reach.
    pub(super) last: Option<(usize, u32)>,
    /// Whether this core is the one that writes messages.
    pub(super) works: bool,
    /// The queues of one-sided writes, on A3.
    pub(super) queues: Queues,
    /// The turns of the client, on Ascend 950.
    pub(super) ring: Ring,
}

/// One core's record of a prepared task.
#[derive(Clone)]
pub(super) struct PreparedTask {
    pub(super) client: usize,
    pub(super) slot: usize,
    /// The final value of the counters of the task. `step` is their step.
    pub(super) total: u32,
    pub(super) step: u32,
    pub(super) ranks: u32,
    pub(super) committed: u32,
    pub(super) awaited: u32,
    /// The number of slices that `Iterate` has returned.
    pub(super) slices: u32,
}

/// The queues of one-sided writes of one core's client.
#[derive(Clone, Copy, Default)]
pub(super) struct Queues {
    /// The number of queues of each core; 0 if the host has set none.
    pub(super) each: u64,
    /// The number of cores that have queues.
    pub(super) cores: u64,
}

/// One core's record of the turns of a client, on Ascend 950.
#[derive(Default)]
pub(super) struct Ring {
    /// The tasks, by slot.
    pub(super) tasks: Vec<Turns>,
    pub(super) posted: usize,
    /// The number of places that waits have freed.
    pub(super) cleared: usize,
}

/// The numbers of turns of a task.
pub(super) struct Turns {
    pub(super) repeat: u32,
    pub(super) committed: u32,
    pub(super) posted: u32,
    pub(super) awaited: u32,
}

impl Ring {
    /// Returns the place of a task's first turn, if all turns are committed in order.
    pub(super) fn start(&self, slot: usize) -> usize {
        self.tasks.iter().take(slot).map(|task| task.repeat as usize).sum()
    }
}
