//! The cost of an operator: time in a simple model, steps, and bytes.
//!
//! The model is the usual one for comparisons of collective algorithms. A transfer of n bytes
//! between ranks takes α + nβ, and a reduction of n bytes takes nγ. A task can be both. Transfers
//! do not share links, and the reductions of a rank do not slow each other down. With
//! [`Model::new`], nothing else takes time, because α includes the synchronisation that a transfer
//! needs. So a ring of p ranks that reduces n bytes and gathers them takes 2(p-1)α + 2(p-1)/p nβ +
//! (p-1)/p nγ. In another [`Model`], waits and copies within a rank may take time as well.
//!
//! If an operator hangs, only the tasks that ran are counted. [`Cost::stuck`] has the waits that
//! never end.

use crate::TaskId;
use crate::schedule::{Execution, transfer};
use crate::{Operator, Task};

/// The duration of each kind of work, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// α: the fixed time of a transfer between ranks.
    pub alpha: f64,
    /// β: the additional time of a transfer for each byte.
    pub beta: f64,
    /// γ: the time of a reduction for each byte.
    pub gamma: f64,
    /// The time that a wait takes after its notify is recorded.
    pub notify: f64,
    /// The time of a copy within a rank for each byte.
    pub copy: f64,
}

impl Model {
    /// Returns the model of the textbooks, in which waits and copies within a rank take no time.
    pub const fn new(alpha: f64, beta: f64, gamma: f64) -> Model {
        Model { alpha, beta, gamma, notify: 0.0, copy: 0.0 }
    }

    /// Returns the time that a task takes once it can begin, in seconds.
    pub fn time(&self, task: &Task) -> f64 {
        let moves = transfer(task).map(|(_, _, bytes)| self.alpha + bytes as f64 * self.beta);
        match task {
            Task::Copy { from, .. } => moves.unwrap_or(from.bytes as f64 * self.copy),
            Task::Reduce { from, .. } => moves.unwrap_or(0.0) + from.bytes as f64 * self.gamma,
            Task::Record(_) => 0.0,
            Task::Wait(_) => self.notify,
        }
    }
}

impl Default for Model {
    /// Returns round numbers that belong to no product: 1 µs and 50 GB/s for a transfer, 500 GB/s
    /// for reductions and copies within a rank, and 0.2 µs for a wait.
    fn default() -> Model {
        Model { alpha: 1e-6, beta: 2e-11, gamma: 2e-12, notify: 2e-7, copy: 2e-12 }
    }
}

/// The cost of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The time until the last task is done, in seconds.
    pub time: f64,
    /// The tasks that decide the time, in their order: each task is the one for which the next task
    /// waited longest. Their times add up to the whole time.
    pub critical_path: Vec<TaskId>,
    /// The number of transfers between ranks that must follow one another. Successive transfers of
    /// one thread between the same two ranks count as one step.
    pub steps: u64,
    /// The number of bytes that other ranks get from the memory of each rank, whichever rank moves
    /// them.
    pub bytes_sent: Vec<u64>,
    /// The number of bytes that each rank gets from other ranks.
    pub bytes_received: Vec<u64>,
    /// The waits that never end, at most one for each thread. Empty if the operator ends.
    pub stuck: Vec<TaskId>,
}

impl Cost {
    /// Computes the cost of an operator.
    pub fn of(operator: &Operator, model: &Model) -> Cost {
        let execution = Execution::of(operator);
        let schedule = execution.schedule(|task| model.time(task));
        let mut cost = Cost {
            time: schedule.length(),
            critical_path: schedule.critical_path(),
            steps: schedule.steps(),
            bytes_sent: vec![0; operator.ranks.len()],
            bytes_received: vec![0; operator.ranks.len()],
            stuck: execution.stuck.clone(),
        };
        let add = |count: Option<&mut u64>, bytes: u64| {
            if let Some(count) = count {
                *count = count.saturating_add(bytes);
            }
        };
        for (from, to, bytes) in execution.tasks().filter_map(|(_, step)| transfer(&step.task)) {
            add(cost.bytes_sent.get_mut(from as usize), bytes);
            add(cost.bytes_received.get_mut(to as usize), bytes);
        }
        cost
    }
}
