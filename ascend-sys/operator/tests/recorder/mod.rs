//! Records operators for tests, task by task. Every task remembers the line that recorded it.

#![allow(dead_code, reason = "each test takes what it needs")]

use ascend_operator::{Goal, Memory, Operator, Piece, RankTasks, ReduceOp, Signal, Step, Task};
use std::ops::Range;
use std::panic::Location;

/// Bytes of an element.
pub const ELEMENT: u64 = 4;

/// An operator under construction. Ranges are in elements.
pub struct Recorder(pub Operator);

pub fn input(rank: u32, range: Range<u64>) -> Piece {
    piece(rank, Memory::Input, range)
}

pub fn output(rank: u32, range: Range<u64>) -> Piece {
    piece(rank, Memory::Output, range)
}

pub fn buffer(rank: u32, range: Range<u64>) -> Piece {
    piece(rank, Memory::Buffer, range)
}

pub fn piece(rank: u32, memory: Memory, range: Range<u64>) -> Piece {
    Piece { rank, memory, start: range.start * ELEMENT, bytes: (range.end - range.start) * ELEMENT }
}

/// A notify of a thread.
pub fn of_thread(rank: u32, thread: u32, index: u32) -> Signal {
    Signal::Thread { rank, thread, index }
}

/// A notify at the end that a rank has of its channel with a peer.
pub fn of_channel(rank: u32, peer: u32, index: u32) -> Signal {
    Signal::Channel { rank, peer, index }
}

impl Recorder {
    /// Main threads only, no channels, and a buffer of so many elements for each rank.
    pub fn new(goal: Goal, ranks: u32, count: u64, buffer: u64) -> Recorder {
        let of = |rank| {
            let (input, output) = goal.sizes(rank, ranks, count);
            RankTasks {
                threads: vec![Vec::new()],
                input: input * ELEMENT,
                output: output * ELEMENT,
                buffer: buffer * ELEMENT,
                ..RankTasks::default()
            }
        };
        let ranks = (0..ranks).map(of).collect();
        Recorder(Operator { name: "test".into(), goal, count, element: ELEMENT, ranks })
    }

    #[track_caller]
    pub fn task(&mut self, rank: u32, thread: u32, task: Task) -> &mut Self {
        let threads = &mut self.0.ranks[rank as usize].threads;
        if threads.len() <= thread as usize {
            threads.resize(thread as usize + 1, Vec::new());
        }
        threads[thread as usize].push(Step { task, source: Location::caller() });
        self
    }

    #[track_caller]
    pub fn copy(&mut self, rank: u32, thread: u32, from: Piece, to: Piece) -> &mut Self {
        self.task(rank, thread, Task::Copy { from, to })
    }

    #[track_caller]
    pub fn sum(&mut self, rank: u32, thread: u32, from: Piece, to: Piece) -> &mut Self {
        self.task(rank, thread, Task::Reduce { from, to, op: ReduceOp::Sum })
    }

    #[track_caller]
    pub fn record(&mut self, rank: u32, thread: u32, signal: Signal) -> &mut Self {
        self.task(rank, thread, Task::Record(signal))
    }

    #[track_caller]
    pub fn wait(&mut self, rank: u32, thread: u32, signal: Signal) -> &mut Self {
        self.task(rank, thread, Task::Wait(signal))
    }

    /// Both ends of a channel.
    pub fn channel(&mut self, a: u32, b: u32, notifies: u32) -> &mut Self {
        self.0.ranks[a as usize].channels.push((b, notifies));
        self.0.ranks[b as usize].channels.push((a, notifies));
        self
    }

    /// Every pair of ranks has a channel.
    pub fn all_channels(&mut self, notifies: u32) -> &mut Self {
        let ranks = self.0.ranks.len() as u32;
        for a in 0..ranks {
            for b in a + 1..ranks {
                self.channel(a, b, notifies);
            }
        }
        self
    }

    /// The main thread starts a sub-thread.
    #[track_caller]
    pub fn start(&mut self, rank: u32, thread: u32) -> &mut Self {
        self.record(rank, 0, of_thread(rank, thread, 0)).wait(
            rank,
            thread,
            of_thread(rank, thread, 0),
        )
    }

    /// A sub-thread ends, and the main thread waits for it.
    #[track_caller]
    pub fn end(&mut self, rank: u32, thread: u32) -> &mut Self {
        let signal = of_thread(rank, 0, thread - 1);
        self.record(rank, thread, signal).wait(rank, 0, signal)
    }

    /// A rank tells a peer something on one of their notifies, and the peer waits for it; both on one of their threads.
    #[track_caller]
    pub fn tell(&mut self, from: (u32, u32), to: (u32, u32), index: u32) -> &mut Self {
        let signal = of_channel(to.0, from.0, index);
        self.record(from.0, from.1, signal).wait(to.0, to.1, signal)
    }
}
