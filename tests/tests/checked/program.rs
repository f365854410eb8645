//! Programs made at random, and what they come to when one step follows the other.

use std::ops::Range;

/// Elements of a buffer: 2, 3 and 4 ranks can share them.
pub const LENGTH: usize = 240;
pub const BUFFERS: usize = 5;
pub const HOSTS: usize = 2;
pub const STREAMS: usize = 3;

/// What becomes of the `Work` of a step.
#[derive(Clone, Copy, Debug)]
pub enum After {
    Drop,
    Forget,
    Wait,
    Await,
    /// This stream waits for it.
    Order(usize),
}

/// What one rank does by itself.
#[derive(Clone, Debug)]
pub enum Local {
    Zero {
        to: usize,
        range: Range<usize>,
    },
    Upload {
        to: usize,
        range: Range<usize>,
        value: i32,
    },
    Copy {
        from: usize,
        to: usize,
        start: usize,
        range: Range<usize>,
    },
    /// Drops the buffer, whatever uses it, and makes another.
    Zeros {
        to: usize,
    },
    /// The same, without a value before the copy.
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
}

/// What all ranks do.
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
    /// Each sends to the next.
    Ring {
        from: usize,
        to: usize,
        range: Range<usize>,
    },
    Barrier,
}

#[derive(Clone, Debug)]
pub enum Step {
    Local { rank: usize, stream: usize, after: After, elsewhere: bool, what: Local },
    Together { streams: Vec<usize>, after: After, what: Together },
}

/// The values of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub buffers: Vec<Vec<i32>>,
    pub hosts: Vec<Vec<i32>>,
}

pub struct Program {
    pub ranks: usize,
    pub steps: Vec<Step>,
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
        // Sometimes all of it.
        if self.below(4) == 0 { 0..LENGTH } else { a.min(b)..a.max(b) }
    }

    /// Two buffers that are not the same.
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

    fn local(&mut self) -> Local {
        let (from, to) = self.pair();
        let (range, host, value) = (self.range(), self.below(HOSTS), self.below(1 << 20) as i32);
        match self.below(20) {
            0 => Local::Zero { to, range },
            1..=3 => Local::Upload { to, range, value },
            4..=7 => {
                let start = self.below(LENGTH - range.len() + 1);
                Local::Copy { from, to, start, range }
            }
            8 => Local::Zeros { to },
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
        match self.below(9) {
            0 => Together::AllReduce { from, to, range },
            1 => Together::AllReduceInPlace { to, range },
            2 => Together::Broadcast { to, range, root },
            3 => Together::AllGather { from, to },
            4 => Together::ReduceScatter { from, to },
            5 => Together::Scatter { from, to, root },
            6 => Together::AllToAll { from, to },
            7 => Together::Ring { from, to, range },
            _ => Together::Barrier,
        }
    }
}

impl Program {
    /// The same program for the same seed; a shorter one is the beginning of a longer one.
    pub fn new(seed: u64, steps: usize) -> Program {
        let mut random = Random(seed << 20);
        let ranks = 1 + random.below(4);
        let step = |_| {
            if random.below(4) == 0 {
                let streams = (0..ranks).map(|_| random.below(STREAMS)).collect();
                Step::Together { streams, after: random.after(), what: random.together(ranks) }
            } else {
                Step::Local {
                    rank: random.below(ranks),
                    stream: random.below(STREAMS),
                    after: random.after(),
                    elsewhere: random.below(16) == 0,
                    what: random.local(),
                }
            }
        };
        let steps = (0..steps).map(step).collect();
        Program { ranks, steps }
    }

    /// The values of each rank after some steps.
    pub fn reference(&self, steps: usize) -> Vec<State> {
        let start =
            State { buffers: vec![vec![0; LENGTH]; BUFFERS], hosts: vec![vec![0; LENGTH]; HOSTS] };
        let mut states = vec![start; self.ranks];
        for step in &self.steps[..steps] {
            match step {
                Step::Local { rank, what, .. } => states[*rank].apply(what),
                Step::Together { what, .. } => apply(&mut states, what),
            }
        }
        states
    }
}

/// What is uploaded: different in every element.
pub fn values(value: i32, length: usize) -> Vec<i32> {
    (0..length as i32).map(|at| value.wrapping_add(at * 7)).collect()
}

impl State {
    fn apply(&mut self, what: &Local) {
        let State { buffers, hosts } = self;
        match what {
            Local::Zero { to, range } => buffers[*to][range.clone()].fill(0),
            Local::Upload { to, range, value } => {
                buffers[*to][range.clone()].copy_from_slice(&values(*value, range.len()));
            }
            Local::Copy { from, to, start, range } => {
                let source = buffers[*from][*start..start + range.len()].to_vec();
                buffers[*to][range.clone()].copy_from_slice(&source);
            }
            Local::Zeros { to } => buffers[*to].fill(0),
            Local::Clone { from, to } => buffers[*to] = buffers[*from].clone(),
            Local::CopyToHost { from, host } => hosts[*host] = buffers[*from].clone(),
            Local::CopyFromHost { host, to } => buffers[*to] = hosts[*host].clone(),
            Local::WriteHost { host, at, value } => hosts[*host][*at] = *value,
            Local::DropHost { host } => hosts[*host].fill(0),
            Local::ReadHost { .. }
            | Local::Download { .. }
            | Local::Event { .. }
            | Local::Synchronize
            | Local::HostFunction
            | Local::NewStream => {}
        }
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a [i32]>) -> Vec<i32> {
    let mut total = Vec::new();
    for row in rows {
        total.resize(row.len(), 0_i32);
        total.iter_mut().zip(row).for_each(|(total, value)| *total = total.wrapping_add(*value));
    }
    total
}

fn apply(states: &mut [State], what: &Together) {
    let ranks = states.len();
    let block = LENGTH / ranks;
    let of = |rank: usize| rank * block..(rank + 1) * block;
    let before: Vec<State> = states.to_vec();
    match what {
        Together::AllReduce { from, to, range } => {
            let total = sum(before.iter().map(|state| &state.buffers[*from][range.clone()]));
            states
                .iter_mut()
                .for_each(|state| state.buffers[*to][range.clone()].copy_from_slice(&total));
        }
        Together::AllReduceInPlace { to, range } => {
            let (from, to, range) = (*to, *to, range.clone());
            apply(states, &Together::AllReduce { from, to, range });
        }
        Together::Broadcast { to, range, root } => {
            let source = &before[*root].buffers[*to][range.clone()];
            states
                .iter_mut()
                .for_each(|state| state.buffers[*to][range.clone()].copy_from_slice(source));
        }
        Together::AllGather { from, to } => {
            for state in states.iter_mut() {
                for (rank, source) in before.iter().enumerate() {
                    state.buffers[*to][of(rank)].copy_from_slice(&source.buffers[*from][..block]);
                }
            }
        }
        Together::ReduceScatter { from, to } => {
            for (rank, state) in states.iter_mut().enumerate() {
                let total = sum(before.iter().map(|state| &state.buffers[*from][of(rank)]));
                state.buffers[*to][..block].copy_from_slice(&total);
            }
        }
        Together::Scatter { from, to, root } => {
            for (rank, state) in states.iter_mut().enumerate() {
                state.buffers[*to][..block]
                    .copy_from_slice(&before[*root].buffers[*from][of(rank)]);
            }
        }
        Together::AllToAll { from, to } => {
            for (rank, state) in states.iter_mut().enumerate() {
                for (source, other) in before.iter().enumerate() {
                    state.buffers[*to][of(source)].copy_from_slice(&other.buffers[*from][of(rank)]);
                }
            }
        }
        Together::Ring { from, to, range } => {
            for (rank, state) in states.iter_mut().enumerate() {
                let source = &before[(rank + ranks - 1) % ranks].buffers[*from];
                state.buffers[*to][range.clone()].copy_from_slice(&source[range.clone()]);
            }
        }
        Together::Barrier => {}
    }
}
