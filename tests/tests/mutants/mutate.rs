//! Mutants: recorded kernels that are broken in one place by one rule.

use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Binary, Of, Program, Value, ValueId};

/// A kernel that is broken in one place.
pub struct Mutant {
    pub rule: &'static str,
    /// The change as text, such as `drops the wait in line 12`.
    pub what: String,
    pub program: Program,
}

/// The rules, in the order of the table.
pub const RULES: [&str; 7] = [
    "drop a wait",
    "drop a flag",
    "move a commit",
    "flag on another pipe",
    "shrink a stride",
    "swap a buffer",
    "forget a tail",
];

const PIPES: [Pipe; 5] = [Pipe::Scalar, Pipe::Vector, Pipe::In, Pipe::Out, Pipe::Fix];

/// Returns all mutants of a kernel.
pub fn mutants(program: &Program) -> Vec<Mutant> {
    let mut found = Found { program, mutants: Vec::new() };
    for (block, nodes) in program.blocks.iter().enumerate() {
        for at in 0..nodes.len() {
            found.look(block, at);
        }
    }
    // This drops mutants that are not valid programs.
    found.mutants.retain(|mutant| Program::from_bytes(&mutant.program.to_bytes()).is_ok());
    found.mutants
}

struct Found<'a> {
    program: &'a Program,
    mutants: Vec<Mutant>,
}

/// Returns the numbers of a step that are lengths, counts or distances.
fn sizes(step: &mut Step) -> Vec<&mut ValueId> {
    fn all(pieces: &mut Pieces) -> Vec<&mut ValueId> {
        let Pieces { length, count, gap } = pieces;
        std::iter::once(length).chain(count).chain(gap).collect()
    }
    match step {
        Step::Copy(Copy::In { pieces, .. } | Copy::Out { pieces, .. }) => all(pieces),
        Step::Vector(
            Vector::Fill { count, .. }
            | Vector::Binary { count, .. }
            | Vector::Scalar { count, .. }
            | Vector::Unary { count, .. }
            | Vector::Cast { count, .. }
            | Vector::Reduce { count, .. },
        ) => vec![count],
        Step::Matmul(Multiply { rows, columns, depth, .. }) => vec![rows, columns, depth],
        Step::Hccl(Hccl::Prepare { operation, .. }) => match operation {
            Operation::AllReduce(e, _) => vec![&mut e.count],
            Operation::AllGather(e, stride)
            | Operation::ReduceScatter(e, _, stride)
            | Operation::AlltoAll(e, stride) => vec![&mut e.count, stride],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Returns the local tensors of a step.
fn locals(step: &mut Step) -> Vec<&mut Local> {
    match step {
        Step::Copy(Copy::In { to, .. } | Copy::SetLocal { to, .. }) => vec![to],
        Step::Copy(Copy::Out { from, .. }) => vec![from],
        Step::Vector(vector) => match vector {
            Vector::Fill { to, .. } => vec![to],
            Vector::Binary { to, a, b, .. } => vec![to, a, b],
            Vector::Scalar { to, a, .. } | Vector::Unary { to, a, .. } => vec![to, a],
            Vector::Cast { to, from, .. } | Vector::Reduce { to, from, .. } => vec![to, from],
        },
        Step::Read(_, Read::Local(local)) => vec![local],
        _ => Vec::new(),
    }
}

/// Returns the places in global memory of a step.
fn places(step: &mut Step) -> Vec<&mut Place> {
    match step {
        Step::Copy(Copy::In { from, .. }) => vec![from],
        Step::Copy(Copy::Out { to, .. } | Copy::Set { to, .. }) => vec![to],
        Step::Matmul(multiply) => vec![&mut multiply.a, &mut multiply.b, &mut multiply.c],
        Step::Hccl(Hccl::Prepare {
            operation:
                Operation::AllReduce(e, _)
                | Operation::AllGather(e, _)
                | Operation::ReduceScatter(e, ..)
                | Operation::AlltoAll(e, _),
            ..
        }) => vec![&mut e.send, &mut e.recv],
        _ => Vec::new(),
    }
}

impl Found<'_> {
    fn add(
        &mut self,
        rule: &'static str,
        (block, at): (usize, usize),
        what: &str,
        change: impl FnOnce(&mut Program),
    ) {
        let mut program = self.program.clone();
        change(&mut program);
        if program != *self.program {
            let line = self.program.blocks[block][at].source.line;
            self.mutants.push(Mutant { rule, what: format!("{what} (line {line})"), program });
        }
    }

    fn look(&mut self, block: usize, at: usize) {
        let here = (block, at);
        let nodes = &self.program.blocks[block];
        let step = nodes[at].step.clone();
        let drop = |program: &mut Program| {
            program.blocks[block].remove(at);
        };
        match &step {
            Step::Sync(Sync::Raise { mode, pipe, flag }) => {
                self.add("drop a flag", here, "a flag is not raised", drop);
                for other in PIPES.into_iter().filter(|other| other != pipe) {
                    let raise = Sync::Raise { mode: *mode, pipe: other, flag: *flag };
                    let what = format!("a flag of {pipe:?} is of {other:?}");
                    self.add("flag on another pipe", here, &what, |program| {
                        program.blocks[block][at].step = Step::Sync(raise);
                    });
                }
            }
            Step::Sync(Sync::Await { .. }) => {
                self.add("drop a flag", here, "a flag is not awaited", drop);
            }
            Step::Sync(Sync::Units(first, second)) => {
                self.add("drop a wait", here, "a unit does not wait", drop);
                for other in PIPES {
                    for changed in [Sync::Units(other, *second), Sync::Units(*first, other)] {
                        let what = format!("{:?} is {changed:?}", Sync::Units(*first, *second));
                        self.add("flag on another pipe", here, &what, |program| {
                            program.blocks[block][at].step = Step::Sync(changed);
                        });
                    }
                }
            }
            Step::Sync(_) => self.add("drop a wait", here, "a barrier is missing", drop),
            Step::Hccl(Hccl::Wait(_)) => {
                self.add("drop a wait", here, "a turn is not waited for", drop);
            }
            Step::Buffer(Buffer::Enqueue(..) | Buffer::Dequeue(..)) => {
                self.add("drop a wait", here, "a tensor does not pass through its queue", drop);
            }
            Step::Hccl(Hccl::Commit(_)) => {
                for to in 0..nodes.len() {
                    self.add("move a commit", here, &format!("a commit is step {to}"), |program| {
                        let node = program.blocks[block].remove(at);
                        program.blocks[block].insert(to, node);
                    });
                }
            }
            Step::Hccl(Hccl::Prepare { commit: true, .. }) => {
                self.add("move a commit", here, "nothing is committed", |program| {
                    if let Step::Hccl(Hccl::Prepare { commit, .. }) =
                        &mut program.blocks[block][at].step
                    {
                        *commit = false;
                    }
                });
            }
            Step::Loop { to, step, .. } => {
                let (to, step) = (*to, *step);
                self.add("forget a tail", here, "a loop ends a turn before", |program| {
                    let end = binary(program, Binary::Sub, to, step);
                    if let Step::Loop { to, .. } = &mut program.blocks[block][at].step {
                        *to = end;
                    }
                });
            }
            Step::If { .. } => {
                self.add("forget a tail", here, "a branch is never taken", |program| {
                    let never = constant(program, Number::Bool, 0);
                    if let Step::If { condition, .. } = &mut program.blocks[block][at].step {
                        *condition = never;
                    }
                });
            }
            _ => {}
        }
        self.moved(here, &step);
        self.operands(here, &step);
    }

    /// Adds mutants in which a wait or a flag is at another place among the steps around it.
    fn moved(&mut self, here: (usize, usize), step: &Step) {
        let (block, at) = here;
        let waits = match step {
            Step::Sync(Sync::Raise { .. } | Sync::Await { .. }) => "drop a flag",
            Step::Sync(_) | Step::Hccl(Hccl::Wait(_)) => "drop a wait",
            _ => return,
        };
        for to in 0..self.program.blocks[block].len() {
            self.add(waits, here, &format!("a wait is step {to}"), |program| {
                let node = program.blocks[block].remove(at);
                program.blocks[block].insert(to, node);
            });
        }
    }

    fn operands(&mut self, here: (usize, usize), step: &Step) {
        let (block, at) = here;
        let changes =
            [("one less", Binary::Sub, 1), ("half", Binary::Div, 2), ("one more", Binary::Add, 1)];
        for index in 0..sizes(&mut step.clone()).len() {
            for (what, operator, by) in changes {
                self.add("shrink a stride", here, &format!("size {index} is {what}"), |program| {
                    let id = *sizes(&mut program.blocks[block][at].step)[index];
                    let number = program.values[id.0 as usize].number;
                    let by = constant(program, number, by);
                    let changed = binary(program, operator, id, by);
                    *sizes(&mut program.blocks[block][at].step)[index] = changed;
                });
            }
        }
        for index in 0..locals(&mut step.clone()).len() {
            for other in 0..self.program.locals.len() as u32 {
                let other = ascend_program::LocalId(other);
                let own = locals(&mut step.clone())[index].tensor;
                let number = |id: ascend_program::LocalId| &self.program.locals[id.0 as usize].what;
                if number(own) != number(other) {
                    continue;
                }
                let name = &self.program.locals[other.0 as usize].name;
                let what = format!("local {index} is `{name}`");
                self.add("swap a buffer", here, &what, |program| {
                    locals(&mut program.blocks[block][at].step)[index].tensor = other;
                });
            }
        }
        for index in 0..places(&mut step.clone()).len() {
            let all = (0..self.program.parameters.len() as u32).map(Base::Parameter);
            for base in all.chain(self.program.workspace.then_some(Base::Workspace)) {
                let what = format!("place {index} is in {base:?}");
                self.add("swap a buffer", here, &what, |program| {
                    places(&mut program.blocks[block][at].step)[index].base = base;
                });
            }
        }
    }
}

fn constant(program: &mut Program, number: Number, bits: u64) -> ValueId {
    value(program, Value { of: Of::Constant(bits), number, name: None })
}

fn binary(program: &mut Program, operator: Binary, a: ValueId, b: ValueId) -> ValueId {
    let number = program.values[a.0 as usize].number;
    value(program, Value { of: Of::Binary(operator, a, b), number, name: None })
}

fn value(program: &mut Program, value: Value) -> ValueId {
    program.values.push(value);
    ValueId(program.values.len() as u32 - 1)
}
