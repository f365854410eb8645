//! Prints operators as text: one line for each task, with the source line that recorded it.

use std::fmt::{self, Display, Formatter};

use crate::task::{Operator, Piece, Signal, Task};

/// Writes the tasks of all threads. Threads that differ only in their numbers are printed in full,
/// because a reader wants to see the numbers.
impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (ranks, tasks) = (self.ranks.len(), self.tasks());
        let ranks_are = if ranks == 1 { "rank" } else { "ranks" };
        let tasks_are = if tasks == 1 { "task" } else { "tasks" };
        write!(f, "{}: {ranks} {ranks_are}, {tasks} {tasks_are}", self.name)?;
        for (rank, tasks) in (0..).zip(&self.ranks) {
            write!(f, "\nrank {rank}")?;
            for (number, thread) in tasks.threads.iter().enumerate() {
                match number {
                    0 => write!(f, "\n  main thread")?,
                    number => write!(f, "\n  thread {number}")?,
                }
                for step in thread {
                    let line = step.source.line();
                    write!(f, "\n    line {line:3}  {}", Seen { task: &step.task, rank })?;
                }
            }
        }
        Ok(())
    }
}

/// A task as printed for its own rank, which is not named.
struct Seen<'a> {
    task: &'a Task,
    rank: u32,
}

impl Display for Seen<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rank = self.rank;
        let piece = |piece: &Piece| {
            let (range, memory) = (piece.range(), piece.memory);
            match piece.rank == rank {
                true => format!("bytes {}..{} of the {memory}", range.start, range.end),
                false => piece.to_string(),
            }
        };
        match self.task {
            Task::Copy { from, to } => write!(f, "copy    {} to {}", piece(from), piece(to)),
            Task::Reduce { from, to, op } => {
                write!(f, "reduce  {} into {} ({})", piece(from), piece(to), op.name())
            }
            Task::Record(signal) => write!(f, "record  {}", seen(signal, rank)),
            Task::Wait(signal) => write!(f, "wait    {}", seen(signal, rank)),
        }
    }
}

fn seen(signal: &Signal, rank: u32) -> String {
    match *signal {
        Signal::Thread { rank: owner, thread, index } if owner == rank => match thread {
            0 => format!("notify {index} of the main thread"),
            thread => format!("notify {index} of thread {thread}"),
        },
        Signal::Channel { rank: owner, peer, index } if owner == rank => {
            format!("own notify {index} on the channel with rank {peer}")
        }
        Signal::Channel { rank: owner, peer, index } if peer == rank => {
            format!("notify {index} of rank {owner} on the channel with it")
        }
        signal => signal.to_string(),
    }
}
