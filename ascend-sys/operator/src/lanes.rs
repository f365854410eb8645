//! The threads of all ranks as *lanes*, and their tasks as numbers.
//!
//! Operators that run one after the other on a communicator share its threads. So a lane holds the
//! tasks of a thread of the first operator, then those of the same thread of the second operator,
//! and so on. The tasks of all lanes are numbered without a gap, lane by lane.

use crate::task::{Operator, Step};
use std::ops::Range;

/// The number that stands for no task and no lane.
pub(crate) const NONE: u32 = u32::MAX;

/// A thread of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) rank: u32,
    pub(crate) thread: u32,
    /// The first task. `end` is one past the last task.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// The lane of each task.
    of_task: Vec<u32>,
    /// The first lane of each rank, and then the number of all lanes.
    of_rank: Vec<u32>,
    /// The first task of each operator in each lane, lane by lane.
    parts: Vec<u32>,
    operators: usize,
}

impl Lanes {
    /// Returns the lanes of operators, and the step of each task number.
    pub(crate) fn of(operators: &[Operator]) -> (Lanes, Vec<&Step>) {
        let mut lanes = Lanes { operators: operators.len(), ..Lanes::default() };
        let mut steps = Vec::with_capacity(operators.iter().map(Operator::tasks).sum());
        let ranks = operators.iter().map(|operator| operator.ranks.len()).max().unwrap_or(0);
        for rank in 0..ranks {
            lanes.of_rank.push(lanes.lanes.len() as u32);
            let of_rank = operators.iter().map(|operator| operator.ranks.get(rank));
            let threads = of_rank.clone().flatten().map(|rank| rank.threads.len()).max();
            for thread in 0..threads.unwrap_or(0) {
                let start = steps.len() as u32;
                for rank in of_rank.clone() {
                    lanes.parts.push(steps.len() as u32);
                    let part = rank.and_then(|rank| rank.threads.get(thread));
                    // Tasks beyond the largest number are left out; no memory is large enough for
                    // that many tasks.
                    let room = NONE as usize - steps.len();
                    steps.extend(part.into_iter().flatten().take(room));
                }
                let end = steps.len() as u32;
                lanes.of_task.resize(steps.len(), lanes.lanes.len() as u32);
                let (rank, thread) = (rank as u32, thread as u32);
                lanes.lanes.push(Lane { rank, thread, start, end });
            }
        }
        lanes.of_rank.push(lanes.lanes.len() as u32);
        (lanes, steps)
    }

    pub(crate) fn all(&self) -> &[Lane] {
        &self.lanes
    }

    /// Returns the number of all tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.of_task.len()
    }

    /// Returns the number of the lane of a task.
    pub(crate) fn number(&self, task: u32) -> u32 {
        self.of_task[task as usize]
    }

    pub(crate) fn lane(&self, task: u32) -> &Lane {
        &self.lanes[self.number(task) as usize]
    }

    /// Returns the lane of a thread of a rank, if there is one.
    pub(crate) fn find(&self, rank: u32, thread: u32) -> Option<&Lane> {
        let first = *self.of_rank.get(rank as usize)?;
        let behind = *self.of_rank.get(rank as usize + 1)?;
        let at = first.checked_add(thread).filter(|at| *at < behind)?;
        self.lanes.get(at as usize)
    }

    /// Returns the tasks of a thread of a rank in one of the operators.
    pub(crate) fn tasks_of(&self, operator: u32, rank: u32, thread: u32) -> Range<u32> {
        let Some(lane) = self.find(rank, thread).filter(|lane| lane.start < lane.end) else {
            return 0..0;
        };
        let (number, operator) = (self.number(lane.start) as usize, operator as usize);
        let parts = &self.parts[number * self.operators..(number + 1) * self.operators];
        let Some(&start) = parts.get(operator) else { return 0..0 };
        start..parts.get(operator + 1).copied().unwrap_or(lane.end)
    }

    /// Returns the operator that a task belongs to, and the position of the task in the thread of
    /// that operator.
    pub(crate) fn part(&self, task: u32) -> (u32, u32) {
        let first = self.number(task) as usize * self.operators;
        let parts = &self.parts[first..first + self.operators];
        // The operator is the last one that begins at this task or before it. An operator without
        // tasks in this lane begins where the next operator begins, so it is not the last one.
        let operator = parts.partition_point(|start| *start <= task).saturating_sub(1);
        (operator as u32, task - parts[operator])
    }
}
