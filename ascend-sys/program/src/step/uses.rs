//! The uses of memory by the units in each step.

use super::*;

/// A use of memory by a unit in a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepUse {
    pub unit: Pipe,
    pub memory: UsedMemory,
    pub writes: bool,
}

/// The memory that a step names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UsedMemory {
    Global(Place),
    Local(Local),
}

impl Step {
    /// Returns the uses of memory by the units in this step. The reads of a unit come before its
    /// writes. The turns of a task are not included.
    pub(crate) fn uses(&self) -> Vec<StepUse> {
        let global =
            |unit, place, writes| StepUse { unit, memory: UsedMemory::Global(place), writes };
        let local = |unit, of, writes| StepUse { unit, memory: UsedMemory::Local(of), writes };
        match *self {
            Step::Read(_, Read::Global(place)) => vec![global(Pipe::Scalar, place, false)],
            Step::Read(_, Read::Local(of)) => vec![local(Pipe::Scalar, of, false)],
            Step::Copy(Copy::In { to, from, .. }) => {
                vec![global(Pipe::In, from, false), local(Pipe::In, to, true)]
            }
            Step::Copy(Copy::Out { to, from, .. }) => {
                vec![local(Pipe::Out, from, false), global(Pipe::Out, to, true)]
            }
            Step::Copy(Copy::Set { to, .. } | Copy::Clean(to)) => {
                vec![global(Pipe::Scalar, to, true)]
            }
            Step::Copy(Copy::SetLocal { to, .. }) => vec![local(Pipe::Scalar, to, true)],
            Step::Vector(vector) => {
                let works = matches!(vector, Vector::Reduce { .. });
                let of = |(at, of): (usize, &Local)| {
                    local(Pipe::Vector, *of, at == 0 || at == 2 && works)
                };
                vector.locals().iter().enumerate().map(of).rev().collect()
            }
            Step::Matmul(Multiply { a, b, c, bias, .. }) => {
                let bias = bias.map(|place| global(Pipe::In, place, false));
                let read = [a, b].map(|place| global(Pipe::In, place, false));
                read.into_iter().chain([global(Pipe::Fix, c, true)]).chain(bias).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Operation {
    /// Returns the places from which the operation reads on this rank. The first turn begins there.
    pub(crate) fn sends(&self) -> Vec<Place> {
        match self {
            Operation::AllReduce(of, _)
            | Operation::AllGather(of, _)
            | Operation::ReduceScatter(of, ..)
            | Operation::AlltoAll(of, _) => vec![of.send],
            Operation::AlltoAllV { send, .. } => vec![*send],
            Operation::BatchWrite { items, .. } => vec![*items],
            Operation::AlltoAllvWrite { send, offsets, sizes, .. } => vec![*send, *offsets, *sizes],
        }
    }

    /// Returns the place of the result, or `None` if other ranks get it.
    pub(crate) fn receives(&self) -> Option<Place> {
        match self {
            Operation::AllReduce(of, _)
            | Operation::AllGather(of, _)
            | Operation::ReduceScatter(of, ..)
            | Operation::AlltoAll(of, _) => Some(of.recv),
            Operation::AlltoAllV { recv, .. } => Some(*recv),
            Operation::BatchWrite { .. } | Operation::AlltoAllvWrite { .. } => None,
        }
    }
}
