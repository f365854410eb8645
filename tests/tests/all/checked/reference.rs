//! The expected state of a program when its steps run one after the other.

use super::program::{
    BUFFERS, GRAPHS, HOSTS, LENGTH, Local, Move, Operation, Program, Step, Together, values,
};

/// The values of a rank.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    pub buffers: Vec<Vec<i32>>,
    pub hosts: Vec<Vec<i32>>,
}

/// The number of the memory that each buffer has. A new buffer has new memory. A graph keeps the
/// memory that it has captured.
type Names = [usize; BUFFERS];

struct Side {
    memory: Vec<Vec<i32>>,
    names: Names,
    hosts: Vec<Vec<i32>>,
}

/// An operation of a graph, and the buffers of each rank at its capture.
type Captured = (Operation, Vec<Names>);

/// Returns the values of each rank after some steps.
pub fn reference(program: &Program, steps: usize) -> Vec<State> {
    let mut sides: Vec<Side> = (0..program.ranks).map(|_| Side::new()).collect();
    let mut graphs: [Vec<Captured>; GRAPHS] = Default::default();
    for step in &program.steps[..steps] {
        match step {
            Step::Local { rank, what: Local::Replay { graph }, .. } => {
                replay(&mut sides, &graphs[*graph], Some(*rank));
            }
            Step::Local { rank, what, .. } => sides[*rank].apply(what),
            Step::Together { what, .. } => apply(&mut sides, what),
            Step::Begin { graph } => graphs[*graph].clear(),
            Step::Capture { graph, what, .. } => {
                let names = sides.iter().map(|side| side.names).collect();
                graphs[*graph].push((what.clone(), names));
            }
            Step::Replay { graph, .. } => replay(&mut sides, &graphs[*graph], None),
            Step::End { .. } | Step::Renew | Step::Abandon { .. } => {}
        }
    }
    sides.into_iter().map(Side::into_state).collect()
}

/// Runs all operations of a graph, or only those of one rank.
fn replay(sides: &mut [Side], graph: &[Captured], only: Option<usize>) {
    for (what, names) in graph {
        let now: Vec<Names> = sides.iter().map(|side| side.names).collect();
        sides.iter_mut().zip(names).for_each(|(side, names)| side.names = *names);
        match what {
            Operation::Local { rank, what } if only.is_none_or(|only| only == *rank) => {
                sides[*rank].movement(what);
            }
            Operation::Local { .. } => {}
            Operation::Together(what) => apply(sides, what),
        }
        sides.iter_mut().zip(now).for_each(|(side, names)| side.names = names);
    }
}

impl Side {
    fn new() -> Side {
        Side {
            memory: vec![vec![0; LENGTH]; BUFFERS],
            names: std::array::from_fn(|buffer| buffer),
            hosts: vec![vec![0; LENGTH]; HOSTS],
        }
    }

    fn into_state(self) -> State {
        let buffers = self.names.iter().map(|memory| self.memory[*memory].clone()).collect();
        State { buffers, hosts: self.hosts }
    }

    fn buffer(&self, name: usize) -> &[i32] {
        &self.memory[self.names[name]]
    }

    fn buffer_mut(&mut self, name: usize) -> &mut [i32] {
        &mut self.memory[self.names[name]]
    }

    fn renew(&mut self, name: usize, values: Vec<i32>) {
        self.names[name] = self.memory.len();
        self.memory.push(values);
    }

    fn movement(&mut self, what: &Move) {
        match what {
            Move::Zero { to, range } => self.buffer_mut(*to)[range.clone()].fill(0),
            Move::Copy { from, to, start, range } => {
                let source = self.buffer(*from)[*start..start + range.len()].to_vec();
                self.buffer_mut(*to)[range.clone()].copy_from_slice(&source);
            }
        }
    }

    fn apply(&mut self, what: &Local) {
        match what {
            Local::Move(what) => self.movement(what),
            Local::Upload { to, range, value } => {
                let values = values(*value, range.len());
                self.buffer_mut(*to)[range.clone()].copy_from_slice(&values);
            }
            Local::Zeros { to, .. } => self.renew(*to, vec![0; LENGTH]),
            Local::Clone { from, to } => self.renew(*to, self.buffer(*from).to_vec()),
            Local::CopyToHost { from, host } => self.hosts[*host] = self.buffer(*from).to_vec(),
            Local::CopyFromHost { host, to } => {
                let values = self.hosts[*host].clone();
                self.buffer_mut(*to).copy_from_slice(&values);
            }
            Local::WriteHost { host, at, value } => self.hosts[*host][*at] = *value,
            Local::DropHost { host } => self.hosts[*host].fill(0),
            Local::ReadHost { .. }
            | Local::Download { .. }
            | Local::Event { .. }
            | Local::Synchronize
            | Local::HostFunction
            | Local::NewStream
            | Local::Replay { .. } => {}
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

fn apply(sides: &mut [Side], what: &Together) {
    let ranks = sides.len();
    let block = LENGTH / ranks;
    let of = |rank: usize| rank * block..(rank + 1) * block;
    // The contents of a buffer on each rank before the operation.
    let all = |sides: &[Side], name: usize| -> Vec<Vec<i32>> {
        sides.iter().map(|side| side.buffer(name).to_vec()).collect()
    };
    match what {
        Together::AllReduce { from, to, range } => {
            let total = sum(sides.iter().map(|side| &side.buffer(*from)[range.clone()]));
            for side in sides {
                side.buffer_mut(*to)[range.clone()].copy_from_slice(&total);
            }
        }
        Together::AllReduceInPlace { to, range } => {
            let (from, to, range) = (*to, *to, range.clone());
            apply(sides, &Together::AllReduce { from, to, range });
        }
        Together::Broadcast { to, range, root } => {
            let source = sides[*root].buffer(*to)[range.clone()].to_vec();
            for side in sides {
                side.buffer_mut(*to)[range.clone()].copy_from_slice(&source);
            }
        }
        Together::AllGather { from, to } => {
            let before = all(sides, *from);
            for side in sides {
                for (rank, source) in before.iter().enumerate() {
                    side.buffer_mut(*to)[of(rank)].copy_from_slice(&source[..block]);
                }
            }
        }
        Together::ReduceScatter { from, to } => {
            let before = all(sides, *from);
            for (rank, side) in sides.iter_mut().enumerate() {
                let total = sum(before.iter().map(|source| &source[of(rank)]));
                side.buffer_mut(*to)[..block].copy_from_slice(&total);
            }
        }
        Together::Scatter { from, to, root } => {
            let source = sides[*root].buffer(*from).to_vec();
            for (rank, side) in sides.iter_mut().enumerate() {
                side.buffer_mut(*to)[..block].copy_from_slice(&source[of(rank)]);
            }
        }
        Together::AllToAll { from, to } => {
            let before = all(sides, *from);
            for (rank, side) in sides.iter_mut().enumerate() {
                for (source, other) in before.iter().enumerate() {
                    side.buffer_mut(*to)[of(source)].copy_from_slice(&other[of(rank)]);
                }
            }
        }
        Together::Ring { from, to, range } => {
            let before = all(sides, *from);
            for (rank, side) in sides.iter_mut().enumerate() {
                let source = &before[(rank + ranks - 1) % ranks];
                side.buffer_mut(*to)[range.clone()].copy_from_slice(&source[range.clone()]);
            }
        }
        Together::Message { from, to, range, source, target } => {
            let values = sides[*source].buffer(*from)[range.clone()].to_vec();
            sides[*target].buffer_mut(*to)[range.clone()].copy_from_slice(&values);
        }
        Together::Barrier => {}
    }
}
