//! Checks that every number in a program names something that exists.

use crate::declared::*;
use crate::layout::Number;
use crate::program::Program;
use crate::step::*;

/// The greatest depth of nested values and blocks. Values are computed recursively, and blocks are
/// written recursively.
const DEEPEST: u32 = 256;

/// The greatest number of values of which a value is made. A value is computed again wherever it is
/// used, also within another value.
const WIDEST: u64 = 1 << 12;

/// The greatest number of arguments that a launch takes.
const MOST_ARGUMENTS: usize = 128;

impl Program {
    /// Checks that every number in the program names something of the right type, so that readers
    /// need not check that again. The error describes the first problem.
    pub fn validate(&self) -> Result<(), String> {
        identifier(&self.name)?;
        for parameter in &self.parameters {
            identifier(&parameter.name)?;
        }
        // The last two arguments are workspace and tiling.
        let arguments = (self.groups as usize).saturating_add(self.parameters.len()) + 2;
        if arguments > MOST_ARGUMENTS {
            return Err(format!(
                "{arguments} arguments, but a launch takes at most {MOST_ARGUMENTS}; declare \
                 fewer, or pass numbers in the tiling"
            ));
        }
        let Checker { used, .. } = Checker::new(self)?.look()?;
        match used.iter().position(Option::is_none) {
            Some(at) => Err(format!("no step contains block {at}")),
            None => Ok(()),
        }
    }
}

/// Checks that a name is an identifier, because names are printed unchanged.
fn identifier(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.chars().next() {
        Some(first) if !first.is_ascii_digit() && name.chars().all(good) => Ok(()),
        _ => Err(format!("\"{}\" is not an identifier", name.escape_debug())),
    }
}

struct Checker<'a> {
    program: &'a Program,
    /// The depth of each block, if a step contains the block.
    used: Vec<Option<u32>>,
}

impl<'a> Checker<'a> {
    fn new(program: &'a Program) -> Result<Self, String> {
        if program.blocks.is_empty() {
            return Err("there is no block".into());
        }
        let mut used = vec![None; program.blocks.len()];
        used[0] = Some(0);
        Ok(Checker { program, used })
    }

    fn look(mut self) -> Result<Self, String> {
        self.values()?;
        self.declarations()?;
        let program = self.program;
        for (at, call) in program.calls.iter().enumerate() {
            identifier(&call.function)?;
            if call.from.call as usize > at {
                return Err(format!(
                    "call {} is in call {}, which is not an earlier one",
                    at + 1,
                    call.from.call
                ));
            }
        }
        for (at, block) in program.blocks.iter().enumerate() {
            for node in block {
                if node.source.call as usize > program.calls.len() {
                    return Err(format!(
                        "a step of line {} is in a call that does not exist",
                        node.source.line
                    ));
                }
                self.step(at, node)
                    .map_err(|why| format!("{why} (a step in line {})", node.source.line))?;
            }
        }
        Ok(self)
    }

    fn values(&self) -> Result<(), String> {
        let mut depths: Vec<u32> = Vec::new();
        let mut widths: Vec<u64> = Vec::new();
        for (at, value) in self.program.values.iter().enumerate() {
            if let Some(name) = &value.name {
                identifier(name)?;
            }
            let (mut depth, mut width) = (0, 1_u64);
            let mut earlier = |id: &ValueId| match depths.get(id.0 as usize) {
                Some(of) => {
                    depth = depth.max(of + 1);
                    width = width.saturating_add(widths[id.0 as usize]);
                    Ok(self.program.values[id.0 as usize].number)
                }
                None => {
                    Err(format!("value {at} is made of value {}, which does not precede it", id.0))
                }
            };
            let same = |found: Number, wanted: Number| match found == wanted {
                true => Ok(()),
                false => Err(format!("value {at} mixes {found:?} and {wanted:?}")),
            };
            let is = |wanted| same(value.number, wanted);
            match &value.of {
                Of::Constant(_) => {}
                Of::Tiling { offset, element, .. } => {
                    let Some(tiling) = &self.program.tiling else {
                        return Err(format!(
                            "value {at} reads a tiling struct that does not exist"
                        ));
                    };
                    let length = element.as_ref().map_or(1, |(_, length)| *length);
                    if let Some((index, _)) = element {
                        earlier(index)?;
                    }
                    let bytes = u64::from(length) * u64::from(value.number.size());
                    if u64::from(*offset) + bytes > u64::from(tiling.size) {
                        return Err(format!("value {at} reads beyond the tiling struct"));
                    }
                }
                Of::BlockIndex | Of::BlockCount | Of::SubBlockIndex | Of::TaskRatio => {
                    is(Number::I64)?;
                }
                Of::Rank(client) | Of::Ranks(client) => {
                    self.client(*client)?;
                    is(Number::U32)?;
                }
                Of::Variable(variable) => is(self.variable(*variable)?)?,
                Of::Unary(operator, a) => {
                    is(earlier(a)?)?;
                    if (*operator == Unary::Not) != (value.number == Number::Bool) {
                        return Err(format!("value {at} has an operator that its type lacks"));
                    }
                }
                Of::Binary(operator, a, b) => {
                    let (a, b) = (earlier(a)?, earlier(b)?);
                    same(a, b)?;
                    is(if operator.compares() { Number::Bool } else { a })?;
                    let logic = matches!(operator, Binary::And | Binary::Or);
                    if !operator.compares() && logic != (a == Number::Bool) {
                        return Err(format!("value {at} has an operator that its type lacks"));
                    }
                }
                Of::Select(condition, a, b) => {
                    same(earlier(condition)?, Number::Bool)?;
                    is(earlier(a)?)?;
                    is(earlier(b)?)?;
                }
                Of::Cast(a) => {
                    earlier(a)?;
                }
            }
            if depth > DEEPEST {
                return Err(format!(
                    "value {at} is nested {depth} deep; put a part into a variable"
                ));
            }
            if width > WIDEST {
                return Err(format!("value {at} has {width} parts; put a part into a variable"));
            }
            depths.push(depth);
            widths.push(width);
        }
        Ok(())
    }

    fn declarations(&self) -> Result<(), String> {
        let Program {
            views, variables, queues, scratches, locals, clients, tasks, matmuls, ..
        } = self.program;
        if !views.is_empty() && !self.program.workspace {
            return Err("there is no workspace".into());
        }
        let names = (views.iter().map(|d| &d.name))
            .chain(variables.iter().map(|d| &d.name))
            .chain(queues.iter().map(|d| &d.name))
            .chain(scratches.iter().map(|d| &d.name))
            .chain(locals.iter().map(|d| &d.name))
            .chain(clients.iter().map(|d| &d.name))
            .chain(tasks.iter().map(|d| &d.name))
            .chain(matmuls.iter().map(|d| &d.name));
        for name in names {
            identifier(name)?;
        }
        for queue in queues {
            self.value(queue.what.length)?;
        }
        for scratch in scratches {
            self.value(scratch.what.length)?;
        }
        for client in clients {
            if client.what.group >= self.program.groups {
                let (name, groups) = (&client.name, self.program.groups);
                return Err(format!(
                    "the client {name} is of group {}, but the number of groups is {groups}",
                    client.what.group
                ));
            }
        }
        for task in tasks {
            self.client(task.what)?;
        }
        for matmul in matmuls {
            let size = self.program.tiling.as_ref().map_or(0, |tiling| tiling.size);
            if matmul.what.tiling.0.checked_add(200).is_none_or(|end| end > size) {
                return Err(format!("the tiling of {} is not in the struct", matmul.name));
            }
        }
        Ok(())
    }

    fn step(&mut self, at: usize, node: &Node) -> Result<(), String> {
        if !self.program.files.is_empty() && node.source.file as usize >= self.program.files.len() {
            return Err(format!("there is no file {}", node.source.file));
        }
        match &node.step {
            Step::Comment(_) => Ok(()),
            Step::Name(value) => self.value(*value).map(drop),
            Step::Set(variable, value) => self.same(self.variable(*variable)?, *value),
            Step::Read(variable, read) => self.read(self.variable(*variable)?, read),
            Step::Loop { variable, from, to, step, body } => {
                let number = self.variable(*variable)?;
                for value in [from, to, step] {
                    self.same(number, *value)?;
                }
                self.block(at, *body)
            }
            Step::If { condition, then, otherwise } => {
                self.same(Number::Bool, *condition)?;
                self.block(at, *then)?;
                otherwise.map_or(Ok(()), |otherwise| self.block(at, otherwise))
            }
            Step::On(_, block) => self.block(at, *block),
            Step::Buffer(buffer) => self.buffer(buffer),
            Step::Copy(copy) => self.copy(copy),
            Step::Vector(vector) => self.vector(vector),
            Step::Sync(sync) => match sync {
                Sync::Raise { flag, .. } | Sync::Await { flag } if *flag > 15 => {
                    Err(format!("there is no flag {flag}; use a flag from 0 to 15"))
                }
                _ => Ok(()),
            },
            Step::Matmul(multiply) => {
                self.found("matrix product", multiply.matmul.0, self.program.matmuls.len())?;
                for place in [Some(multiply.a), Some(multiply.b), Some(multiply.c), multiply.bias] {
                    place.map_or(Ok(()), |place| self.place(&place))?;
                }
                let Multiply { rows, columns, depth, pitches, .. } = multiply;
                [rows, columns, depth].into_iter().chain(pitches).try_for_each(|v| self.whole(*v))
            }
            Step::Hccl(call) => self.call(call),
        }
    }

    fn read(&self, number: Number, read: &Read) -> Result<(), String> {
        let wanted = match read {
            Read::Global(place) => {
                self.place(place)?;
                return Ok(());
            }
            Read::Local(local) => self.local(local)?,
            Read::Finished(task) => {
                self.task(*task)?;
                Number::I32
            }
            Read::Queues(client) => {
                self.client(*client)?;
                Number::U16
            }
            Read::Slice(task, _) => {
                self.task(*task)?;
                Number::U16
            }
        };
        match number == wanted {
            true => Ok(()),
            false => Err(format!("a variable of {number:?} receives a value of {wanted:?}")),
        }
    }

    fn buffer(&self, buffer: &Buffer) -> Result<(), String> {
        let queues = |queue: QueueId| self.found("queue", queue.0, self.program.queues.len());
        let scratches =
            |scratch: ScratchId| self.found("buffer", scratch.0, self.program.scratches.len());
        let locals = |local: LocalId| self.found("tensor", local.0, self.program.locals.len());
        match *buffer {
            Buffer::InitQueue(queue) => queues(queue),
            Buffer::InitScratch(scratch) => scratches(scratch),
            Buffer::Alloc(queue, local)
            | Buffer::Enqueue(queue, local)
            | Buffer::Dequeue(queue, local)
            | Buffer::Free(queue, local) => queues(queue).and(locals(local)),
            Buffer::Get(scratch, local) => scratches(scratch).and(locals(local)),
        }
    }

    fn copy(&self, copy: &Copy) -> Result<(), String> {
        match copy {
            Copy::In { to: local, from: place, pieces }
            | Copy::Out { to: place, from: local, pieces, .. } => {
                self.place(place)?;
                self.local(local)?;
                let Pieces { length, count, gap } = pieces;
                self.whole(*length)?;
                count.map_or(Ok(()), |count| self.whole(count))?;
                gap.map_or(Ok(()), |gap| self.whole(gap))
            }
            Copy::Set { to, value } => self.place(to).and(self.value(*value).map(drop)),
            Copy::SetLocal { to, value } => self.same(self.local(to)?, *value),
            Copy::Clean(place) => self.place(place),
        }
    }

    fn vector(&self, vector: &Vector) -> Result<(), String> {
        let alike = |numbers: &[Number]| match numbers.windows(2).all(|two| two[0] == two[1]) {
            true => Ok(()),
            false => Err(format!("a vector operation on elements of different types: {numbers:?}")),
        };
        let count = match vector {
            Vector::Fill { to, value, count } => {
                self.same(self.local(to)?, *value)?;
                count
            }
            Vector::Binary { to, a, b, count, .. } => {
                alike(&[self.local(to)?, self.local(a)?, self.local(b)?])?;
                count
            }
            Vector::Scalar { operator, to, a, scalar, count } => {
                alike(&[self.local(to)?, self.local(a)?])?;
                self.same(self.local(to)?, *scalar)?;
                if matches!(operator, VectorBinary::Sub | VectorBinary::Div) {
                    return Err(format!("there is no {operator:?} with a scalar"));
                }
                count
            }
            Vector::Unary { to, a, count, .. } => {
                alike(&[self.local(to)?, self.local(a)?])?;
                count
            }
            Vector::Cast { to, from, count, .. } => {
                self.local(to)?;
                self.local(from)?;
                count
            }
            Vector::Reduce { to, from, work, count, .. } => {
                alike(&[self.local(to)?, self.local(from)?, self.local(work)?])?;
                count
            }
        };
        self.whole(*count)
    }

    fn call(&self, call: &Hccl) -> Result<(), String> {
        match call {
            Hccl::Init(client, _) | Hccl::Configure(client, ..) | Hccl::Finalize(client, _) => {
                self.client(*client)
            }
            Hccl::Commit(task) | Hccl::Wait(task) => self.task(*task),
            Hccl::After(client, task) => self.client(*client).and(self.task(*task)),
            Hccl::Barrier(client, queue) => self.client(*client).and(self.whole(*queue)),
            Hccl::Prepare { task, operation, repeat, .. } => {
                self.task(*task)?;
                self.whole(*repeat)?;
                self.operation(operation)
            }
        }
    }

    fn operation(&self, operation: &Operation) -> Result<(), String> {
        let exchange = |exchange: &Exchange| {
            self.place(&exchange.send)?;
            self.place(&exchange.recv)?;
            self.whole(exchange.count)
        };
        match operation {
            Operation::AllReduce(of, _) => exchange(of),
            Operation::AllGather(of, stride)
            | Operation::ReduceScatter(of, _, stride)
            | Operation::AlltoAll(of, stride) => exchange(of).and(self.whole(*stride)),
            Operation::AlltoAllV {
                send,
                recv,
                send_counts,
                send_displs,
                recv_counts,
                recv_displs,
                ..
            } => {
                self.place(send)?;
                self.place(recv)?;
                for list in [send_counts, send_displs, recv_counts, recv_displs] {
                    match list {
                        PerRank::Values(values) => {
                            values.iter().try_for_each(|value| self.whole(*value))?;
                        }
                        PerRank::Tiling(offset, _, length) => {
                            let size = self.program.tiling.as_ref().map_or(0, |t| t.size);
                            if u64::from(*offset) + 8 * u64::from(*length) > u64::from(size) {
                                return Err("counts beyond the tiling struct".into());
                            }
                        }
                    }
                }
                Ok(())
            }
            Operation::BatchWrite { items, count, queue } => {
                self.place(items)?;
                self.whole(*count)?;
                self.whole(*queue)
            }
            Operation::AlltoAllvWrite { send, offsets, sizes, window, local } => {
                [send, offsets, sizes].into_iter().try_for_each(|place| self.place(place))?;
                self.whole(*window)?;
                self.whole(*local)
            }
        }
    }

    fn block(&mut self, at: usize, block: BlockId) -> Result<(), String> {
        let depth = self.used.get(at).copied().flatten().unwrap_or(0) + 1;
        match self.used.get_mut(block.0 as usize) {
            Some(_) if depth > DEEPEST => {
                Err(format!("blocks are nested {depth} deep; nest at most {DEEPEST}"))
            }
            Some(used @ None) if block.0 as usize > at => {
                *used = Some(depth);
                Ok(())
            }
            _ => Err(format!("block {} is not a new block of block {at}", block.0)),
        }
    }

    fn place(&self, place: &Place) -> Result<(), String> {
        self.whole(place.offset)?;
        match place.base {
            Base::Parameter(at) => self.found("parameter", at, self.program.parameters.len()),
            Base::Workspace if self.program.workspace => Ok(()),
            Base::Workspace => Err("there is no workspace".into()),
            Base::WindowIn(client, rank) | Base::WindowOut(client, rank) => {
                self.client(client).and(self.whole(rank))
            }
        }
    }

    fn local(&self, local: &Local) -> Result<Number, String> {
        local.offset.map_or(Ok(()), |offset| self.whole(offset))?;
        let found = self.program.locals.get(local.tensor.0 as usize);
        found.map(|d| d.what).ok_or_else(|| format!("there is no tensor {}", local.tensor.0))
    }

    fn value(&self, value: ValueId) -> Result<Number, String> {
        let found = self.program.values.get(value.0 as usize);
        found.map(|value| value.number).ok_or_else(|| format!("there is no value {}", value.0))
    }

    /// Checks that a value can be a number of elements, turns or ranks.
    fn whole(&self, value: ValueId) -> Result<(), String> {
        use Number::*;
        match self.value(value)? {
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => Ok(()),
            number => Err(format!("value {} is {number:?}, not a whole number", value.0)),
        }
    }

    fn same(&self, number: Number, value: ValueId) -> Result<(), String> {
        let found = self.value(value)?;
        match found == number {
            true => Ok(()),
            false => Err(format!("value {} is {found:?}, not {number:?}", value.0)),
        }
    }

    fn variable(&self, variable: VariableId) -> Result<Number, String> {
        let found = self.program.variables.get(variable.0 as usize);
        found.map(|d| d.what).ok_or_else(|| format!("there is no variable {}", variable.0))
    }

    fn client(&self, client: ClientId) -> Result<(), String> {
        self.found("client", client.0, self.program.clients.len())
    }

    fn task(&self, task: TaskId) -> Result<(), String> {
        self.found("task", task.0, self.program.tasks.len())
    }

    fn found(&self, what: &str, at: u32, count: usize) -> Result<(), String> {
        match (at as usize) < count {
            true => Ok(()),
            false => Err(format!("there is no {what} {at}")),
        }
    }
}
