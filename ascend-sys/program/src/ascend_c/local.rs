//! Prints the steps on local memory: queues, copies, arithmetic of the vector unit, and waits
//! between units.

use super::names::Thing;
use super::printer::{Helper, Printer};
use crate::declared::*;
use crate::layout::Number;
use crate::step::*;

impl Printer<'_> {
    pub(super) fn buffer(&mut self, buffer: &Buffer) {
        match *buffer {
            Buffer::InitQueue(queue) => {
                self.pipe = true;
                let Queue { number, buffers, length, .. } =
                    self.program.queues[queue.0 as usize].what;
                let bytes = self.bytes(length, number);
                let name = self.name(Thing::Queue(queue));
                self.text.line(&format!("pipe.InitBuffer({name}, {buffers}, {bytes});"));
            }
            Buffer::InitScratch(scratch) => {
                self.pipe = true;
                let Scratch { number, length } = self.program.scratches[scratch.0 as usize].what;
                let bytes = self.bytes(length, number);
                let name = self.name(Thing::Scratch(scratch));
                self.text.line(&format!("pipe.InitBuffer({name}, {bytes});"));
            }
            Buffer::Alloc(queue, local) => {
                self.obtain(local, Thing::Queue(queue), "AllocTensor");
            }
            Buffer::Dequeue(queue, local) => {
                self.obtain(local, Thing::Queue(queue), "DeQue");
            }
            Buffer::Get(scratch, local) => self.obtain(local, Thing::Scratch(scratch), "Get"),
            Buffer::Enqueue(queue, local) => {
                let (queue, local) =
                    (self.name(Thing::Queue(queue)), self.name(Thing::Local(local)));
                self.text.line(&format!("{queue}.EnQue({local});"));
            }
            Buffer::Free(queue, local) => {
                let (queue, local) =
                    (self.name(Thing::Queue(queue)), self.name(Thing::Local(local)));
                self.text.line(&format!("{queue}.FreeTensor({local});"));
            }
        }
    }

    /// Prints the call that gives a tensor its memory. The call also declares the tensor if nothing
    /// has declared it yet: `LocalTensor<half> x = queue.AllocTensor<half>();`.
    fn obtain(&mut self, local: LocalId, from: Thing, call: &str) {
        let Declared { name, what } = &self.program.locals[local.0 as usize];
        let ty = what.ascend_c();
        let from = self.name(from);
        if let Some(earlier) = self.given_away(local) {
            self.names.share(Thing::Local(local), Thing::Local(earlier));
        }
        let target = self.target(Thing::Local(local), &format!("LocalTensor<{ty}>"), name);
        self.text.line(&format!("{target} = {from}.{call}<{ty}>();"));
    }

    /// Returns an earlier tensor of this block that has the name of a new one and is no longer
    /// used. In Rust the new one shadows it.
    fn given_away(&self, new: LocalId) -> Option<LocalId> {
        let locals = &self.program.locals;
        let Declared { name, what } = &locals[new.0 as usize];
        let called = |at: LocalId| self.names.get(Thing::Local(at));
        if called(new).is_some() {
            return None;
        }
        let (block, step) = self.place;
        let home = |at: LocalId| self.uses.home(Thing::Local(at));
        let over = |at| home(at).is_some_and(|home| home.block == block && home.last < step);
        let all = || (0..locals.len() as u32).map(LocalId);
        let earlier = all().find(|at| {
            let other = &locals[at.0 as usize];
            called(*at).is_some() && other.what == *what && self.names.alike(&other.name, name)
        })?;
        // None of the tensors that share the name may still be used.
        let mut sharing = all().filter(|at| called(*at) == called(earlier));
        sharing.all(over).then_some(earlier)
    }

    pub(super) fn copy(&mut self, copy: &Copy) {
        match copy {
            Copy::In { to, from, pieces } => {
                let number = self.local_number(to);
                let (to, from) = (self.local(to), self.global(from, number));
                let copy = self.pieces(pieces, number, true);
                let pad = format!("DataCopyPadExtParams<{}>()", number.ascend_c());
                self.text.line(&format!("DataCopyPad({to}, {from}, {copy}, {pad});"));
            }
            Copy::Out { to, from, pieces, add } => {
                let number = self.local_number(from);
                let (to, from) = (self.global(to, number), self.local(from));
                let copy = self.pieces(pieces, number, false);
                if *add {
                    self.text.line(&format!("SetAtomicAdd<{}>();", number.ascend_c()));
                }
                self.text.line(&format!("DataCopyPad({to}, {from}, {copy});"));
                if *add {
                    self.text.line("DisableDmaAtomic();");
                }
            }
            Copy::Set { to, value } => {
                let number = self.number(*value);
                let (tensor, offset) = self.element(to, number);
                let value = self.argument(*value);
                self.text.line(&format!("{tensor}.SetValue({offset}, {value});"));
            }
            Copy::SetLocal { to, value } => {
                let (tensor, offset) = self.local_element(to);
                // Local tensors take their type from the value.
                let value = self.typed(*value);
                self.text.line(&format!("{tensor}.SetValue({offset}, {value});"));
            }
            Copy::Clean(place) => {
                let number = self.viewed_number(place).unwrap_or_else(|| self.place_number(place));
                let ty = number.ascend_c();
                let tensor = self.global(place, number);
                self.text.line(&format!(
                    "DataCacheCleanAndInvalid<{ty}, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>({tensor});"
                ));
            }
        }
    }

    /// Prints the pieces of a copy. Lengths and gaps in global memory are in bytes.
    fn pieces(&mut self, pieces: &Pieces, number: Number, inward: bool) -> String {
        let count = pieces.count.map_or("1".to_owned(), |count| self.argument(count));
        let length = self.bytes(pieces.length, number);
        let gap = pieces.gap.map_or("0".to_owned(), |gap| match self.is_plain(gap, 0) {
            true => "0".to_owned(),
            false => self.bytes(gap, number),
        });
        match inward {
            true => format!("DataCopyExtParams({count}, {length}, {gap}, 0, 0)"),
            false => format!("DataCopyExtParams({count}, {length}, 0, {gap}, 0)"),
        }
    }

    pub(super) fn vector(&mut self, vector: &Vector) {
        let (call, arguments, count) = match vector {
            Vector::Fill { to, value, count } => {
                ("Duplicate", vec![self.local(to), self.typed(*value)], count)
            }
            Vector::Binary { operator, to, a, b, count } => {
                let call = match operator {
                    VectorBinary::Add => "Add",
                    VectorBinary::Sub => "Sub",
                    VectorBinary::Mul => "Mul",
                    VectorBinary::Div => "Div",
                    VectorBinary::Max => "Max",
                    VectorBinary::Min => "Min",
                };
                (call, vec![self.local(to), self.local(a), self.local(b)], count)
            }
            Vector::Scalar { operator, to, a, scalar, count } => {
                // `validate` rejects the other operators.
                let call = match operator {
                    VectorBinary::Add | VectorBinary::Sub => "Adds",
                    VectorBinary::Mul | VectorBinary::Div => "Muls",
                    VectorBinary::Max => "Maxs",
                    VectorBinary::Min => "Mins",
                };
                (call, vec![self.local(to), self.local(a), self.typed(*scalar)], count)
            }
            Vector::Unary { operator, to, a, count } => {
                let call = match operator {
                    VectorUnary::Relu => "Relu",
                    VectorUnary::Exp => "Exp",
                    VectorUnary::Sqrt => "Sqrt",
                };
                (call, vec![self.local(to), self.local(a)], count)
            }
            Vector::Cast { to, from, round, count } => {
                let round = match round {
                    Round::None => "RoundMode::CAST_NONE",
                    Round::Nearest => "RoundMode::CAST_RINT",
                    Round::Floor => "RoundMode::CAST_FLOOR",
                    Round::Ceil => "RoundMode::CAST_CEIL",
                    Round::Away => "RoundMode::CAST_ROUND",
                    Round::Truncate => "RoundMode::CAST_TRUNC",
                };
                ("Cast", vec![self.local(to), self.local(from), round.to_owned()], count)
            }
            Vector::Reduce { operator, to, from, work, count } => {
                let call = match operator {
                    VectorReduce::Sum => "ReduceSum",
                    VectorReduce::Max => "ReduceMax",
                };
                (call, vec![self.local(to), self.local(from), self.local(work)], count)
            }
        };
        let count = self.argument(*count);
        self.text.line(&format!("{call}({}, {count});", arguments.join(", ")));
    }

    pub(super) fn sync(&mut self, sync: &Sync) {
        let call = match *sync {
            Sync::Pipe(Pipe::Scalar) => {
                return self
                    .problem("the scalar unit works in order, so it has no barrier: leave it out");
            }
            // The scalar unit executes its own work in order without a barrier.
            Sync::Units(Pipe::Scalar, Pipe::Scalar) => return,
            Sync::Pipe(of) => format!("PipeBarrier<{}>();", pipe(of)),
            Sync::Units(first, second) if first == second => {
                format!("PipeBarrier<{}>();", pipe(first))
            }
            Sync::Units(first, second) => match event(first, second) {
                Some(event) => self.wait_for(event),
                // There is no event for these units, so all units wait for all units.
                None => "PipeBarrier<PIPE_ALL>();".to_owned(),
            },
            Sync::Raise { mode, pipe: of, flag } => {
                if matches!(of, Pipe::Scalar | Pipe::All) {
                    self.problem(
                        "the scalar unit and all units together cannot raise a flag: raise it \
                         after a vector, copying or fixing unit",
                    );
                }
                let mode = match mode {
                    Mode::Kind => 0,
                    Mode::Pair => 1,
                    Mode::Block => 2,
                };
                format!("CrossCoreSetFlag<{mode}, {}>({flag});", pipe(of))
            }
            Sync::Await { flag } => format!("CrossCoreWaitFlag({flag});"),
            Sync::All { vector } => format!("SyncAll<{vector}>();"),
        };
        self.reasoned(&call, sync);
    }

    /// Returns the call with which one unit waits for another.
    pub(super) fn wait_for(&mut self, event: &str) -> String {
        self.pipe = true;
        self.helpers.insert(Helper::SyncUnits);
        format!("SyncUnits<HardEvent::{event}>(pipe);")
    }

    pub(super) fn read(&mut self, variable: VariableId, read: &Read) {
        let text = match read {
            Read::Global(place) => {
                let number = self.program.variables[variable.0 as usize].what;
                let (tensor, offset) = self.element(place, number);
                format!("{tensor}.GetValue({offset})")
            }
            Read::Local(local) => {
                let (tensor, offset) = self.local_element(local);
                format!("{tensor}.GetValue({offset})")
            }
            Read::Finished(task) => {
                let (client, task) = self.client_and_task(*task);
                format!("{client}.Query({task})")
            }
            Read::Queues(client) => format!("{}.GetQueueNum()", self.client(*client)),
            Read::Slice(task, received) => {
                let (client, task) = self.client_and_task(*task);
                let name = self.name(Thing::Variable(variable));
                self.text.line(&format!("{client}.Iterate<{received}>({task}, &{name}, 1);"));
                return self.outdated(|changed| changed == variable);
            }
        };
        self.assign(variable, &text);
    }

    fn local_number(&self, local: &Local) -> Number {
        self.program.locals[local.tensor.0 as usize].what
    }

    /// Prints a tensor that begins at a place.
    fn local(&mut self, local: &Local) -> String {
        let name = self.name(Thing::Local(local.tensor));
        match local.offset {
            Some(offset) if !self.is_plain(offset, 0) => {
                format!("{name}[{}]", self.argument(offset))
            }
            _ => name,
        }
    }

    fn local_element(&mut self, local: &Local) -> (String, String) {
        let name = self.name(Thing::Local(local.tensor));
        let offset = local.offset.map_or("0".to_owned(), |offset| self.argument(offset));
        (name, offset)
    }

    /// Returns the type of the elements at a place.
    fn place_number(&self, place: &Place) -> Number {
        match place.base {
            Base::Parameter(at) => self.program.parameters[at as usize].number,
            Base::Workspace | Base::WindowIn(..) | Base::WindowOut(..) => Number::U8,
        }
    }

    /// Prints a tensor in global memory that begins at a place.
    pub(super) fn global(&mut self, place: &Place, number: Number) -> String {
        match place.base {
            Base::Parameter(at) if self.program.parameters[at as usize].number == number => {
                let name = self.name(Thing::Global(at));
                match self.is_plain(place.offset, 0) {
                    true => name,
                    false => format!("{name}[{}]", self.argument(place.offset)),
                }
            }
            _ => {
                if let Some((view, index)) = self.viewed(place, number) {
                    return match index.as_str() {
                        "0" => view,
                        index => format!("{view}[{index}]"),
                    };
                }
                self.helpers.insert(Helper::TensorAt);
                let address = self.address(place, number);
                format!("TensorAt<{}>({address})", number.ascend_c())
            }
        }
    }

    /// Prints a tensor in global memory, and the index of an element in it.
    fn element(&mut self, place: &Place, number: Number) -> (String, String) {
        match place.base {
            Base::Parameter(at) if self.program.parameters[at as usize].number == number => {
                (self.name(Thing::Global(at)), self.argument(place.offset))
            }
            _ => match self.viewed(place, number) {
                Some(found) => found,
                None => (self.global(place, number), "0".to_owned()),
            },
        }
    }

    /// Prints a place as an address of elements of a type.
    pub(super) fn address(&mut self, place: &Place, element: Number) -> String {
        let (base, number) = match place.base {
            Base::Parameter(at) => {
                let number = self.program.parameters[at as usize].number;
                (self.name(Thing::Parameter(at)), number)
            }
            Base::Workspace => ("userWorkspace".to_owned(), Number::U8),
            Base::WindowIn(client, rank) => {
                let (client, rank) = (self.client(client), self.argument(rank));
                (format!("{client}.GetWindowsInAddr({rank})"), Number::U8)
            }
            Base::WindowOut(client, rank) => {
                let (client, rank) = (self.client(client), self.argument(rank));
                (format!("{client}.GetWindowsOutAddr({rank})"), Number::U8)
            }
        };
        if self.is_plain(place.offset, 0) {
            return base;
        }
        let offset = match (place.base, number.size()) {
            (Base::Parameter(_), 2..) => self.bytes(place.offset, number),
            _ => self.byte_offset(place.offset, element),
        };
        format!("{base} + {offset}")
    }
}

/// Returns the event with which the second unit waits for the first, if there is one.
fn event(first: Pipe, second: Pipe) -> Option<&'static str> {
    Some(match (first, second) {
        (Pipe::In, Pipe::Vector) => "MTE2_V",
        (Pipe::Vector, Pipe::In) => "V_MTE2",
        (Pipe::Out, Pipe::Vector) => "MTE3_V",
        (Pipe::Vector, Pipe::Out) => "V_MTE3",
        (Pipe::Out, Pipe::In) => "MTE3_MTE2",
        (Pipe::In, Pipe::Out) => "MTE2_MTE3",
        (Pipe::Scalar, Pipe::Vector) => "S_V",
        (Pipe::Vector, Pipe::Scalar) => "V_S",
        (Pipe::Scalar, Pipe::In) => "S_MTE2",
        (Pipe::In, Pipe::Scalar) => "MTE2_S",
        (Pipe::Scalar, Pipe::Out) => "S_MTE3",
        (Pipe::Out, Pipe::Scalar) => "MTE3_S",
        (Pipe::Fix, Pipe::Scalar) => "FIX_S",
        (Pipe::Fix, Pipe::In) => "FIX_MTE2",
        (Pipe::In, Pipe::Fix) => "MTE2_FIX",
        (Pipe::Fix, Pipe::Out) => "FIX_MTE3",
        _ => return None,
    })
}

/// Returns the enumerator of a pipe.
fn pipe(of: Pipe) -> &'static str {
    match of {
        Pipe::Scalar => "PIPE_S",
        Pipe::Vector => "PIPE_V",
        Pipe::In => "PIPE_MTE2",
        Pipe::Out => "PIPE_MTE3",
        Pipe::Fix => "PIPE_FIX",
        Pipe::All => "PIPE_ALL",
    }
}
