//! Random small kernels: vector operations and collectives in any order, on several ranks and
//! blocks. A plain loop over the elements computes the expected results.

use crate::kernel::build::Builder;
use crate::kernel::*;
use crate::ranks::on_ranks;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Binary, ClientId, Core, Mix, Of, Position, Program, QueueId, ValueId};
use fastrand::Rng;

const FP32: u32 = 4;
/// The number of elements that a core takes at a time.
const TILE: u64 = 64;

/// A step of a program. Each step makes the next tensor; the first tensor is the input.
pub enum Stage {
    /// `scale * (a operator b)`, element by element.
    Vector {
        operator: VectorBinary,
        a: usize,
        b: usize,
        scale: f32,
    },
    Collective {
        call: Call,
        reduction: Reduction,
        from: usize,
    },
}

/// A random kernel, with the arguments of its launch.
pub struct Sample {
    pub ranks: usize,
    pub blocks: u32,
    /// The number of elements of each tensor. Every rank has an equal part of it.
    pub length: u64,
    pub commands: Vec<u32>,
    pub stages: Vec<Stage>,
}

impl Sample {
    pub fn new(random: &mut Rng) -> Sample {
        let ranks = random.usize(1..5);
        let part = TILE * random.u64(1..4);
        let length = part * ranks as u64;
        let mut commands = vec![ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL];
        random.shuffle(&mut commands);
        commands.truncate(2);
        let stage = |before: usize, random: &mut Rng| {
            if random.u32(0..5) < 3 {
                use VectorBinary::*;
                let operator = random.choice([Add, Sub, Mul, Max, Min]).unwrap();
                let [a, b] = [0; 2].map(|_| random.usize(0..before));
                return Stage::Vector { operator, a, b, scale: random.f32() - 0.5 };
            }
            let command = *random.choice(&commands).unwrap();
            let repeat = random.choice([1, 2, 4, 8]).unwrap();
            let count = if command == ALL_REDUCE { length } else { part } / repeat;
            let call = Call { commit: random.bool(), ..Call::new(command, 0, count, part, repeat) };
            let reduction =
                random.choice([Reduction::Sum, Reduction::Sum, Reduction::Max, Reduction::Min]);
            Stage::Collective { call, reduction: reduction.unwrap(), from: random.usize(0..before) }
        };
        let stages = (1..=random.usize(2..7)).map(|before| stage(before, random)).collect();
        Sample { ranks, blocks: random.u32(1..5), length, commands, stages }
    }

    pub fn program(&self) -> Program {
        let mut b = Builder::new(Mix::MixAiv10);
        let mut tensors = vec![b.input("x", Number::F32)];
        for at in 0..self.stages.len() {
            tensors.push(b.output(&format!("y{at}"), Number::F32));
        }
        b.on(Core::Aiv, |b| {
            let client = b.ready(&self.commands);
            let tile = b.n(TILE);
            let queues = [Position::VecIn, Position::VecIn, Position::VecOut].map(|position| {
                let queue = b.queue("tiles", Number::F32, position, 2, tile);
                b.buffer(Buffer::InitQueue(queue));
                queue
            });
            for (stage, to) in self.stages.iter().zip(&tensors[1..]) {
                match stage {
                    Stage::Vector { operator, a, b: other, scale } => {
                        let of = [tensors[*a], tensors[*other], *to];
                        vectors(b, self.length / TILE, queues, of, tile, (*operator, *scale));
                    }
                    Stage::Collective { call, reduction, from } => {
                        collective(b, client, call, *reduction, [tensors[*from], *to]);
                    }
                }
                // Other cores use the results of this core, or results for which this core was the
                // first to wait.
                b.sync_vectors();
            }
            b.finalize(client);
        });
        b.done()
    }

    /// Returns the final tensors of each rank: all tensors after the input.
    pub fn expected(&self, inputs: &[Vec<f32>]) -> Vec<Vec<Vec<f32>>> {
        let mut all: Vec<Vec<Vec<f32>>> = vec![inputs.to_vec()];
        for stage in &self.stages {
            let mut made = vec![vec![0.0; self.length as usize]; self.ranks];
            match stage {
                Stage::Vector { operator, a, b, scale } => {
                    for (rank, made) in made.iter_mut().enumerate() {
                        for (at, made) in made.iter_mut().enumerate() {
                            *made = apply(*operator, all[*a][rank][at], all[*b][rank][at]) * *scale;
                        }
                    }
                }
                Stage::Collective { call, reduction, from } => {
                    moved(call, *reduction, &all[*from], &mut made);
                }
            }
            all.push(made);
        }
        let of = |rank: usize| all[1..].iter().map(|tensor| tensor[rank].clone()).collect();
        (0..self.ranks).map(of).collect()
    }

    pub fn run(&self, program: &Program, inputs: &[Vec<f32>]) -> Vec<Vec<Vec<u8>>> {
        on_ranks(self.ranks as u32, |rank| {
            let ready = Ready::new(rank, program, &self.commands);
            let mut tensors = vec![rank.upload(&bytes(&inputs[rank.rank as usize]))];
            let empty = vec![0; 4 * self.length as usize];
            tensors.extend(self.stages.iter().map(|_| rank.upload(&empty)));
            ready.run_all(rank, self.blocks, &tensors);
            ready.end();
            tensors[1..].iter().map(|tensor| rank.download(*tensor, empty.len())).collect()
        })
    }
}

/// Adds `to = scale * (a operator b)`, in tiles that the cores take in turn.
fn vectors(
    b: &mut Builder,
    tiles: u64,
    [queue_a, queue_b, queue_out]: [QueueId; 3],
    [a, other, to]: [Base; 3],
    tile: ValueId,
    (operator, scale): (VectorBinary, f32),
) {
    let [a_in, b_in, a_now, b_now, made, done] =
        ["a", "b", "c", "d", "e", "f"].map(|name| b.local(name, Number::F32));
    let local = |tensor| Local { tensor, offset: None };
    let pieces = Pieces { length: tile, count: None, gap: None };
    let (tiles, scale) = (b.n(tiles), b.float(Number::F32, scale.into()));
    b.range("tile", tiles, |b, now| {
        let count = b.value(Of::BlockCount, Number::I64);
        let count = b.value(Of::Cast(count), Number::U64);
        let (own, index) = (b.binary(Binary::Rem, now, count), b.block_index());
        let mine = b.binary(Binary::Equal, own, index);
        b.when(mine, |b| {
            let offset = b.binary(Binary::Mul, now, tile);
            for (queue, base, into) in [(queue_a, a, a_in), (queue_b, other, b_in)] {
                b.buffer(Buffer::Alloc(queue, into));
                let from = Place { base, offset };
                b.step(Step::Copy(Copy::In { to: local(into), from, pieces }));
                b.buffer(Buffer::Enqueue(queue, into));
            }
            b.buffer(Buffer::Dequeue(queue_a, a_now));
            b.buffer(Buffer::Dequeue(queue_b, b_now));
            b.buffer(Buffer::Alloc(queue_out, made));
            let (to_local, a, b_local) = (local(made), local(a_now), local(b_now));
            let binary = Vector::Binary { operator, to: to_local, a, b: b_local, count: tile };
            b.step(Step::Vector(binary));
            let operator = VectorBinary::Mul;
            let times =
                Vector::Scalar { operator, to: to_local, a: to_local, scalar: scale, count: tile };
            b.step(Step::Vector(times));
            b.buffer(Buffer::Enqueue(queue_out, made));
            b.buffer(Buffer::Free(queue_a, a_now));
            b.buffer(Buffer::Free(queue_b, b_now));
            b.buffer(Buffer::Dequeue(queue_out, done));
            let place = Place { base: to, offset };
            b.step(Step::Copy(Copy::Out { to: place, from: local(done), pieces, add: false }));
            b.buffer(Buffer::Free(queue_out, done));
        });
    });
}

fn collective(
    b: &mut Builder,
    client: ClientId,
    call: &Call,
    reduction: Reduction,
    [from, to]: [Base; 2],
) {
    let task = b.task("task", client);
    let mut operation = operation(b, call, from, to, FP32);
    if let Operation::AllReduce(_, op) | Operation::ReduceScatter(_, op, _) = &mut operation {
        *op = reduction;
    }
    b.prepare(task, operation, call.repeat, call.commit);
    if !call.commit {
        b.times(call.repeat, |b| b.commit(task));
    }
    b.times(call.repeat, |b| b.wait(task));
}

// Rust does not define which of two zeros `f32::max` returns. Here -0 is less than +0.
fn largest(a: f32, b: f32) -> f32 {
    if a.total_cmp(&b).is_gt() { a } else { b }
}

fn smallest(a: f32, b: f32) -> f32 {
    if a.total_cmp(&b).is_lt() { a } else { b }
}

fn apply(operator: VectorBinary, a: f32, b: f32) -> f32 {
    match operator {
        VectorBinary::Add => a + b,
        VectorBinary::Sub => a - b,
        VectorBinary::Mul => a * b,
        VectorBinary::Div => a / b,
        VectorBinary::Max => largest(a, b),
        VectorBinary::Min => smallest(a, b),
    }
}

/// Computes the result of a collective on the inputs of all ranks, which it takes in the order of
/// the ranks.
fn moved(call: &Call, reduction: Reduction, inputs: &[Vec<f32>], outputs: &mut [Vec<f32>]) {
    let (all, stride) = ((call.count * call.repeat) as usize, call.stride as usize);
    let reduced = |at: usize| {
        let numbers = inputs.iter().map(|input| input[at]);
        let both = |a: f32, b: f32| match reduction {
            Reduction::Sum => a + b,
            Reduction::Prod => a * b,
            Reduction::Max => largest(a, b),
            Reduction::Min => smallest(a, b),
        };
        numbers.reduce(both).unwrap()
    };
    for (rank, output) in outputs.iter_mut().enumerate() {
        match call.command {
            ALL_REDUCE => (0..all).for_each(|at| output[at] = reduced(at)),
            REDUCE_SCATTER => (0..all).for_each(|at| output[at] = reduced(rank * stride + at)),
            _ => {
                for (from, input) in inputs.iter().enumerate() {
                    let start = if call.command == ALL_GATHER { 0 } else { rank * stride };
                    output[from * stride..][..all].copy_from_slice(&input[start..][..all]);
                }
            }
        }
    }
}

pub fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
