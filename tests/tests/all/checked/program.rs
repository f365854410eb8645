//! Random programs.

use std::ops::Range;

/// The number of elements of a buffer, which 2, 3 and 4 ranks can share.
pub const LENGTH: usize = 240;
pub const BUFFERS: usize = 5;
pub const HOSTS: usize = 2;
pub const STREAMS: usize = 3;
/// The number of graphs that can be captured at the same time, and kept.
pub const GRAPHS: usize = 2;

/// The way in which a step handles its `Work`.
#[derive(Clone, Copy, Debug)]
pub enum After {
    Drop,
    Forget,
    Wait,
    Await,
    /// The stream with this number waits for the work.
    Order(usize),
}

/// An operation of one rank on its device, which can be captured.
#[derive(Clone, Debug)]
pub enum Move {
    Zero { to: usize, range: Range<usize> },
    Copy { from: usize, to: usize, start: usize, range: Range<usize> },
}

/// An operation of one rank.
#[derive(Clone, Debug)]
pub enum Local {
    Move(Move),
    Upload {
        to: usize,
        range: Range<usize>,
        value: i32,
    },
    /// Drops or forgets the buffer, even while it is in use, and makes another one.
    Zeros {
        to: usize,
        forget: bool,
    },
    /// Replaces the buffer by a copy of another one. The new memory has no value before the copy.
    Clone {
        from: usize,
        to: usize,
    },
    CopyToHost {
        from: usize,
        host: usize,
    },
    CopyFromHost {
        host: usize,
        to: usize,
    },
    WriteHost {
        host: usize,
        at: usize,
        value: i32,
    },
    ReadHost {
        host: usize,
    },
    DropHost {
        host: usize,
    },
    Download {
        from: usize,
        range: Range<usize>,
    },
    Event {
        to: usize,
    },
    Synchronize,
    HostFunction,
    NewStream,
    /// Replays a graph without collectives, so the other ranks need not replay it.
    Replay {
        graph: usize,
    },
}

/// An operation of all ranks together, which can be captured.
#[derive(Clone, Debug)]
pub enum Together {
    AllReduce {
        from: usize,
        to: usize,
        range: Range<usize>,
    },
    AllReduceInPlace {
        to: usize,
        range: Range<usize>,
    },
    Broadcast {
        to: usize,
        range: Range<usize>,
        root: usize,
    },
    AllGather {
        from: usize,
        to: usize,
    },
    ReduceScatter {
        from: usize,
        to: usize,
    },
    Scatter {
        from: usize,
        to: usize,
        root: usize,
    },
    AllToAll {
        from: usize,
        to: usize,
    },
    /// Each rank sends to the next one.
    Ring {
        from: usize,
        to: usize,
        range: Range<usize>,
    },
    /// One rank sends to another.
    Message {
        from: usize,
        to: usize,
        range: Range<usize>,
        source: usize,
        target: usize,
    },
    Barrier,
}

/// An operation that can be captured.
#[derive(Clone, Debug)]
pub enum Operation {
    Local { rank: usize, what: Move },
    Together(Together),
}

#[derive(Clone, Debug)]
pub enum Step {
    Local {
        rank: usize,
        stream: usize,
        after: After,
        elsewhere: bool,
        what: Local,
    },
    Together {
        streams: Vec<usize>,
        after: After,
        what: Together,
    },
    Begin {
        graph: usize,
    },
    Capture {
        graph: usize,
        elsewhere: bool,
        what: Operation,
    },
    End {
        graph: usize,
    },
    Replay {
        graph: usize,
        streams: Vec<usize>,
        after: After,
    },
    /// Drops the communicator, even while it is in use, and makes another one.
    Renew,
    /// Drops or forgets the graph, or the capture.
    Abandon {
        graph: usize,
        forget: bool,
    },
}

pub struct Program {
    pub ranks: usize,
    pub steps: Vec<Step>,
}

/// The state of a graph.
#[derive(Clone, Copy)]
enum Slot {
    Empty,
    Open { together: bool },
    Graph { together: bool },
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn range(&mut self) -> Range<usize> {
        let (a, b) = (self.below(LENGTH + 1), self.below(LENGTH + 1));
        // Sometimes the range is the whole buffer.
        if self.below(4) == 0 { 0..LENGTH } else { a.min(b)..a.max(b) }
    }

    /// Returns two different buffers.
    fn pair(&mut self) -> (usize, usize) {
        let from = self.below(BUFFERS);
        (from, (from + 1 + self.below(BUFFERS - 1)) % BUFFERS)
    }

    fn after(&mut self) -> After {
        match self.below(8) {
            0 => After::Forget,
            1 => After::Wait,
            2 => After::Await,
            3 => After::Order(self.below(STREAMS)),
            _ => After::Drop,
        }
    }

    fn movement(&mut self) -> Move {
        let ((from, to), range) = (self.pair(), self.range());
        if self.below(5) == 0 {
            return Move::Zero { to, range };
        }
        let start = self.below(LENGTH - range.len() + 1);
        Move::Copy { from, to, start, range }
    }

    fn local(&mut self) -> Local {
        let (from, to) = self.pair();
        let (range, host, value) = (self.range(), self.below(HOSTS), self.below(1 << 20) as i32);
        match self.below(20) {
            1..=3 => Local::Upload { to, range, value },
            0 | 4..=7 => Local::Move(self.movement()),
            8 => Local::Zeros { to, forget: self.below(4) == 0 },
            9 => Local::Clone { from, to },
            10 => Local::CopyToHost { from, host },
            11 => Local::CopyFromHost { host, to },
            12 => Local::WriteHost { host, at: self.below(LENGTH), value },
            13 => Local::ReadHost { host },
            14 => Local::Download { from, range },
            15 => Local::Event { to: self.below(STREAMS) },
            16 if self.below(4) == 0 => Local::Synchronize,
            17 if self.below(4) == 0 => Local::HostFunction,
            18 if self.below(4) == 0 => Local::NewStream,
            19 if self.below(4) == 0 => Local::DropHost { host },
            _ => Local::Upload { to, range, value },
        }
    }

    fn together(&mut self, ranks: usize) -> Together {
        let ((from, to), range, root) = (self.pair(), self.range(), self.below(ranks));
        match self.below(10) {
            0 => Together::AllReduce { from, to, range },
            1 => Together::AllReduceInPlace { to, range },
            2 => Together::Broadcast { to, range, root },
            3 => Together::AllGather { from, to },
            4 => Together::ReduceScatter { from, to },
            5 => Together::Scatter { from, to, root },
            6 => Together::AllToAll { from, to },
            7 => Together::Ring { from, to, range },
            8 if ranks > 1 => {
                let target = (root + 1 + self.below(ranks - 1)) % ranks;
                Together::Message { from, to, range, source: root, target }
            }
            _ => Together::Barrier,
        }
    }

    fn streams(&mut self, ranks: usize) -> Vec<usize> {
        (0..ranks).map(|_| self.below(STREAMS)).collect()
    }

    /// Returns a step in the life of a graph.
    fn graph(&mut self, ranks: usize, slots: &mut [Slot; GRAPHS]) -> Step {
        let graph = self.below(GRAPHS);
        let (last, forget) = (self.below(6) == 0, self.below(4) == 0);
        match slots[graph] {
            Slot::Empty => {
                slots[graph] = Slot::Open { together: self.below(2) == 0 };
                Step::Begin { graph }
            }
            Slot::Open { together } if last && self.below(4) > 0 => {
                slots[graph] = Slot::Graph { together };
                Step::End { graph }
            }
            Slot::Open { together } if !last => {
                let what = if together && self.below(2) == 0 {
                    Operation::Together(self.together(ranks))
                } else {
                    Operation::Local { rank: self.below(ranks), what: self.movement() }
                };
                Step::Capture { graph, elsewhere: self.below(16) == 0, what }
            }
            Slot::Graph { together: true } if !last => {
                Step::Replay { graph, streams: self.streams(ranks), after: self.after() }
            }
            Slot::Graph { together: false } if !last => Step::Local {
                rank: self.below(ranks),
                stream: self.below(STREAMS),
                after: self.after(),
                elsewhere: self.below(16) == 0,
                what: Local::Replay { graph },
            },
            Slot::Open { .. } | Slot::Graph { .. } => {
                slots[graph] = Slot::Empty;
                Step::Abandon { graph, forget }
            }
        }
    }
}

impl Program {
    /// Makes the program of a seed. A program with fewer steps is the beginning of one with more.
    pub fn new(seed: u64, steps: usize) -> Program {
        let mut random = Random(seed << 20);
        let ranks = 1 + random.below(4);
        let mut slots = [Slot::Empty; GRAPHS];
        let step = |_| match random.below(64) {
            0 => Step::Renew,
            1..17 => random.graph(ranks, &mut slots),
            17..29 => {
                let streams = random.streams(ranks);
                Step::Together { streams, after: random.after(), what: random.together(ranks) }
            }
            _ => Step::Local {
                rank: random.below(ranks),
                stream: random.below(STREAMS),
                after: random.after(),
                elsewhere: random.below(16) == 0,
                what: random.local(),
            },
        };
        let steps = (0..steps).map(step).collect();
        Program { ranks, steps }
    }
}

/// Returns the values that are uploaded, different in every element.
pub fn values(value: i32, length: usize) -> Vec<i32> {
    (0..length as i32).map(|at| value.wrapping_add(at * 7)).collect()
}
