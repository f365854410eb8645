//! The reference for programs: a sequential interpreter on vectors, written as plainly as possible.

use hccl::dtype::{DType, ReduceKind, bf16, f16};

use super::program::{Kind, Operation, Program, Side, Span};
use super::reference::{Random, Reference};

/// The elements of a buffer, as their bits.
pub type Bits = Vec<u64>;

/// Calls a function that is generic over the element type.
macro_rules! with_type {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DType::I8 => $function::<i8>($($argument),*),
            DType::I16 => $function::<i16>($($argument),*),
            DType::I32 => $function::<i32>($($argument),*),
            DType::I64 => $function::<i64>($($argument),*),
            DType::U8 => $function::<u8>($($argument),*),
            DType::U16 => $function::<u16>($($argument),*),
            DType::U32 => $function::<u32>($($argument),*),
            DType::U64 => $function::<u64>($($argument),*),
            DType::F16 => $function::<f16>($($argument),*),
            DType::BF16 => $function::<bf16>($($argument),*),
            DType::F32 => $function::<f32>($($argument),*),
            DType::F64 => $function::<f64>($($argument),*),
            other => unreachable!("the programs have no {other}"),
        }
    };
}
pub(crate) use with_type;

/// Returns the initial contents of a rank's buffers.
pub fn initial(program: &Program, rank: usize) -> Vec<Bits> {
    fn fill<T: Reference>(random: &mut Random, len: usize, any_bits: bool) -> Bits {
        let element = |random: u64| match any_bits {
            true => T::from_random(random),
            false => T::number(ReduceKind::Sum, random),
        };
        (0..len).map(|_| element(random.next()).into_bits()).collect()
    }
    let mut random = Random::new(program.seed * 64 + rank);
    let buffers = program.buffers.iter();
    buffers.map(|b| with_type!(b.dtype, fill(&mut random, b.len, b.any_bits))).collect()
}

/// Interprets a program and returns the contents of all ranks' buffers at the end.
pub fn interpret(program: &Program) -> Vec<Vec<Bits>> {
    let buffers = (0..program.ranks).map(|rank| initial(program, rank)).collect();
    let mut memory = Memory { buffers, members: &[] };
    for operation in program.steps.iter().flat_map(|step| &step.operations) {
        memory.members = &program.teams[operation.team].members;
        memory.execute(operation);
    }
    memory.buffers
}

/// The buffers of all ranks, as the members of a communicator use them.
struct Memory<'a> {
    buffers: Vec<Vec<Bits>>,
    members: &'a [usize],
}

impl Memory<'_> {
    fn read(&self, member: usize, span: Span) -> Bits {
        self.buffers[self.members[member]][span.buffer][span.start..span.end()].to_vec()
    }

    fn write(&mut self, member: usize, span: Span, bits: &[u64]) {
        assert_eq!(span.len, bits.len(), "the program has lengths that do not fit");
        // An empty span may have any place, also outside of the buffer.
        if bits.is_empty() {
            return;
        }
        let rank = self.members[member];
        self.buffers[rank][span.buffer][span.start..span.end()].copy_from_slice(bits);
    }

    fn execute(&mut self, operation: &Operation) {
        let Operation { kind, dtype, ref sides, .. } = *operation;
        let p = sides.len();
        // Everything is read before anything is written.
        let inputs: Vec<Bits> = sides.iter().enumerate().map(|(r, s)| self.input(r, s)).collect();
        let destination = |rank: usize| sides[rank].destination.expect("a destination");
        match kind {
            Kind::AllReduce(kind) => {
                let result = reduce(dtype, kind, &inputs);
                (0..p).for_each(|rank| self.write(rank, destination(rank), &result));
            }
            Kind::Reduce(kind, root) => {
                self.write(root, destination(root), &reduce(dtype, kind, &inputs));
            }
            Kind::Broadcast(root) => {
                (0..p).for_each(|rank| self.write(rank, destination(rank), &inputs[root]));
            }
            Kind::AllGather => {
                let own = |rank: usize| match sides[rank].source {
                    Some(_) => &inputs[rank][..],
                    None => block(&inputs[rank], p, rank),
                };
                let all = (0..p).map(own).collect::<Vec<_>>().concat();
                (0..p).for_each(|rank| self.write(rank, destination(rank), &all));
            }
            Kind::ReduceScatter(kind) => {
                let result = reduce(dtype, kind, &inputs);
                for (rank, side) in sides.iter().enumerate() {
                    let to = destination(rank);
                    let n = result.len() / p;
                    let to = if side.source.is_some() { to } else { to.part(rank * n, n) };
                    self.write(rank, to, block(&result, p, rank));
                }
            }
            Kind::Scatter(root) => {
                for rank in 0..p {
                    self.write(rank, destination(rank), block(&inputs[root], p, rank));
                }
            }
            Kind::AllToAll => {
                for rank in 0..p {
                    let got = (0..p).map(|from| block(&inputs[from], p, rank));
                    self.write(rank, destination(rank), &got.collect::<Vec<_>>().concat());
                }
            }
            Kind::AllGatherV => {
                for (rank, side) in sides.iter().enumerate() {
                    for (from, input) in inputs.iter().enumerate() {
                        let to = side.received.of(from, destination(rank));
                        self.write(rank, to, input);
                    }
                }
            }
            Kind::ReduceScatterV(kind) => {
                for rank in 0..p {
                    let part = |(from, input): (usize, &Bits)| sent(&sides[from], rank, input);
                    let parts: Vec<Bits> = inputs.iter().enumerate().map(part).collect();
                    self.write(rank, destination(rank), &reduce(dtype, kind, &parts));
                }
            }
            Kind::AllToAllV => {
                for (rank, side) in sides.iter().enumerate() {
                    for (from, input) in inputs.iter().enumerate() {
                        let to = side.received.of(from, destination(rank));
                        self.write(rank, to, &sent(&sides[from], rank, input));
                    }
                }
            }
            Kind::AllToAllVc => {
                for rank in 0..p {
                    let got = inputs.iter().enumerate();
                    let got = got.map(|(from, input)| sent(&sides[from], rank, input));
                    self.write(rank, destination(rank), &got.collect::<Vec<_>>().concat());
                }
            }
            Kind::Message { from, to } => self.write(to, destination(to), &inputs[from]),
            Kind::Batch => self.exchange(sides),
            Kind::Barrier => {}
        }
    }

    /// Returns the input of a rank.
    fn input(&self, member: usize, side: &Side) -> Bits {
        let span = side.source.or(side.destination);
        span.map_or_else(Vec::new, |span| self.read(member, span))
    }

    fn exchange(&mut self, sides: &[Side]) {
        let mut received = Vec::new();
        for (rank, side) in sides.iter().enumerate() {
            for item in side.messages.iter().filter(|item| !item.sends) {
                let mut sent = sides[item.peer].messages.iter();
                let sent = sent.find(|sent| sent.sends && sent.peer == rank);
                let bits = self.read(item.peer, sent.expect("the other half").span);
                received.push((rank, item.span, bits));
            }
        }
        for (rank, span, bits) in received {
            self.write(rank, span, &bits);
        }
    }
}

/// Returns the part of a rank if all parts have the same length.
fn block(whole: &[u64], ranks: usize, rank: usize) -> &[u64] {
    let n = whole.len() / ranks;
    &whole[rank * n..(rank + 1) * n]
}

/// Returns the part of a source that is for a rank.
fn sent(side: &Side, rank: usize, source: &[u64]) -> Bits {
    let (at, count) = (side.sent.displacements[rank], side.sent.counts[rank]);
    // An empty part may have any place.
    if count == 0 { Vec::new() } else { source[at..at + count].to_vec() }
}

/// Reduces each position in the order of the ranks.
fn reduce(dtype: DType, kind: ReduceKind, inputs: &[Bits]) -> Bits {
    fn typed<T: Reference>(kind: ReduceKind, inputs: &[Bits]) -> Bits {
        let element = |i: usize| inputs.iter().map(move |input| T::from_random(input[i]));
        (0..inputs[0].len()).map(|i| T::reduce(kind, element(i)).into_bits()).collect()
    }
    with_type!(dtype, typed(kind, inputs))
}
