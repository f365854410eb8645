//! Computes the begin and end of each task if every task takes a given time, and the task for which
//! each task waited longest.
//!
//! The tasks of a thread follow one another, and a wait ends when its record has ended. There are
//! no other limits: all transfers that are ready run at once.

use crate::{Operator, Order, Step, Task, TaskId};

/// The number that stands for no task.
const NONE: u32 = u32::MAX;

/// The execution of an operator: the tasks that run, and those that do not.
pub(crate) struct Execution<'a> {
    operator: &'a Operator,
    pub(crate) order: Order,
    /// The waits that never end, at most one for each thread.
    pub(crate) stuck: Vec<TaskId>,
}

impl<'a> Execution<'a> {
    pub(crate) fn of(operator: &'a Operator) -> Execution<'a> {
        let (order, stuck) = match Order::of(operator) {
            Ok(order) => (order, Vec::new()),
            Err(stuck) => (stuck.ran, stuck.waits),
        };
        Execution { operator, order, stuck }
    }

    /// Returns the tasks that ran, in a possible order.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (TaskId, &Step)> {
        let ids = self.order.sequence().iter();
        ids.filter_map(|id| Some((*id, step(self.operator, *id)?)))
    }

    /// Returns the times of all tasks, given the duration of each task in seconds.
    pub(crate) fn schedule(&self, lasts: impl Fn(&Task) -> f64) -> Schedule<'_> {
        let mut when = vec![When::default(); self.operator.tasks()];
        for (id, Step { task, .. }) in self.tasks() {
            let Some(at) = self.order.number(id) else { continue };
            let before = if id.position == 0 { NONE } else { at - 1 };
            let record = self.order.record_of(id).and_then(|record| self.order.number(record));
            let of = |other: u32| when.get(other as usize).copied().unwrap_or_default();
            let (own, other) = (of(before), record.map(of).unwrap_or_default());
            // If two predecessors end at the same time, the one after more transfers decides.
            let later = (other.end, other.steps) > (own.end, own.steps);
            let start = own.end.max(other.end);
            let ends = |task: &Task| transfer(task).map(|(from, to, _)| (from, to));
            let position = id.position.wrapping_sub(1);
            let previous = step(self.operator, TaskId { position, ..id });
            let previous = previous.and_then(|step| ends(&step.task));
            let is_step = ends(task).is_some_and(|ends| previous != Some(ends));
            when[at as usize] = When {
                begin: own.end,
                start,
                end: start + lasts(task),
                steps: own.steps.max(other.steps) + u64::from(is_step),
                last: record.filter(|_| later || before == NONE).unwrap_or(before),
                ran: true,
            };
        }
        Schedule { execution: self, when }
    }
}

/// The times of a task, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    /// The time when the task is the next one of its thread.
    pub(crate) begin: f64,
    /// The time when the tasks that the task waits for have ended.
    pub(crate) start: f64,
    /// The time when the task ends.
    pub(crate) end: f64,
    /// The number of transfers between ranks on the longest chain that ends with the task.
    /// Successive transfers between the same two ranks count as one.
    pub(crate) steps: u64,
    /// Whether the task runs at all.
    pub(crate) ran: bool,
    /// The task that this task waited for last. `NONE` if there is none.
    last: u32,
}

impl Default for When {
    fn default() -> When {
        When { begin: 0.0, start: 0.0, end: 0.0, steps: 0, ran: false, last: NONE }
    }
}

/// The times of all tasks.
pub(crate) struct Schedule<'a> {
    execution: &'a Execution<'a>,
    when: Vec<When>,
}

impl Schedule<'_> {
    pub(crate) fn when(&self, id: TaskId) -> When {
        let at = self.execution.order.number(id);
        at.and_then(|at| self.when.get(at as usize)).copied().unwrap_or_default()
    }

    /// Returns the time when the last task ends, in seconds.
    pub(crate) fn length(&self) -> f64 {
        self.when.iter().map(|when| when.end).fold(0.0, f64::max)
    }

    /// Returns the largest number of transfers between ranks that must follow one another.
    /// Successive transfers between the same two ranks count as one.
    pub(crate) fn steps(&self) -> u64 {
        self.when.iter().map(|when| when.steps).max().unwrap_or_default()
    }

    /// Returns the tasks that decide the duration, in their order: each task is the one that the
    /// next task waited for last.
    pub(crate) fn critical_path(&self) -> Vec<TaskId> {
        let ran = (0..).zip(&self.when).filter(|(_, when)| when.ran);
        let mut last: Option<(u32, &When)> = None;
        for (at, when) in ran {
            if last.is_none_or(|(_, best)| (when.end, when.steps) > (best.end, best.steps)) {
                last = Some((at, when));
            }
        }
        let mut next = last.map_or(NONE, |(at, _)| at);
        let mut path = Vec::new();
        while let Some(when) = self.when.get(next as usize) {
            path.push(self.execution.order.id(next));
            next = when.last;
        }
        path.reverse();
        path
    }
}

/// Returns the step with this id.
pub(crate) fn step(operator: &Operator, id: TaskId) -> Option<&Step> {
    let rank = operator.ranks.get(id.rank as usize)?;
    rank.threads.get(id.thread as usize)?.get(id.position as usize)
}

/// Returns the source rank, the destination rank and the number of bytes of a task that moves data
/// between two ranks. Returns `None` for any other task.
pub(crate) fn transfer(task: &Task) -> Option<(u32, u32, u64)> {
    let (from, to) = task.pieces()?;
    (from.rank != to.rank).then_some((from.rank, to.rank, from.bytes))
}
