//! Prints a program in readable form: its declarations, then one step in each line, with the line
//! of its source to the right.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};

use crate::declared::*;
use crate::dtype;
use crate::program::Program;
use crate::step::*;

mod values;

/// The column in which the source lines begin.
const COLUMN: usize = 88;

impl Display for Program {
    /// Writes the readable form. It is for readers and for tests; no function parses it.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = Words::new(self);
        let mix = self.mix.ascend_c().trim_start_matches("KERNEL_TYPE_").to_ascii_lowercase();
        match &self.files[..] {
            [file] => writeln!(f, "kernel {} ({mix}) in {file}", self.name)?,
            _ => writeln!(f, "kernel {} ({mix})", self.name)?,
        }
        for parameter in &self.parameters {
            let kind = if parameter.output { "output" } else { "input" };
            writeln!(f, "  {kind} {}: {}", parameter.name, parameter.number)?;
        }
        for allowed in &self.allowed {
            writeln!(f, "  allows {}: {}", allowed.warning.rule(), allowed.reason)?;
        }
        if self.workspace {
            writeln!(f, "  workspace")?;
        }
        if let Some(tiling) = &self.tiling {
            writeln!(f, "  tiling {}, {} bytes", tiling.name, tiling.size)?;
        }
        for Declared { name, what } in &self.queues {
            let position = match what.position {
                Position::VecIn => "into",
                Position::VecOut => "out of",
            };
            let (number, length) = (what.number, words.value(what.length));
            writeln!(
                f,
                "  queue {name} {position} the vector unit: {} of {length} {number}",
                what.buffers
            )?;
        }
        for Declared { name, what } in &self.scratches {
            writeln!(f, "  buffer {name}: {} {}", words.value(what.length), what.number)?;
        }
        for Declared { name, what } in &self.clients {
            write!(f, "  client {name}: group {}", what.group)?;
            if let Some((core, block)) = what.core {
                write!(f, ", on {} {block}", kind(core))?;
            }
            writeln!(f, "{}", if what.by_address { ", by address" } else { "" })?;
        }
        for Declared { name, what } in &self.matmuls {
            let bias = what.bias.map_or(String::new(), |bias| format!(" + {bias}"));
            let turned = |turned: bool| if turned { " transposed" } else { "" };
            writeln!(
                f,
                "  matmul {name}: {}{} * {}{}{bias} -> {}, tiling {}",
                what.a,
                turned(what.transposed_a),
                what.b,
                turned(what.transposed_b),
                what.c,
                what.tiling.1
            )?;
        }
        words.block(f, BlockId(0), 1)
    }
}

/// Texts for the parts of one program. In a program that has not been validated, a missing part is
/// shown as a question mark.
pub(crate) struct Words<'a> {
    program: &'a Program,
    /// Whether a step gives each value its name, so that the name alone is enough.
    named: Vec<bool>,
    /// The kernel's own names. A field of the tiling struct with one of these names is printed with
    /// `tiling.` in front.
    own: HashSet<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        let mut named = vec![false; program.values.len()];
        for node in program.blocks.iter().flatten() {
            if let Step::Name(value) = node.step
                && let Some(named) = named.get_mut(value.0 as usize)
            {
                *named = true;
            }
        }
        let values = program.values.iter().zip(&named).filter(|(_, named)| **named);
        // A value that has the name of the tiling field that it holds is the same thing.
        let values = values.filter_map(|(value, _)| match (&value.of, &value.name) {
            (Of::Tiling { path, element: None, .. }, Some(name)) if path == name => None,
            (_, name) => name.as_deref(),
        });
        let variables = program.variables.iter().map(|declared| &*declared.name);
        let own = values.chain(variables).collect();
        Words { program, named, own }
    }

    fn block(&self, f: &mut Formatter<'_>, block: BlockId, depth: usize) -> fmt::Result {
        for node in self.program.blocks.get(block.0 as usize).into_iter().flatten() {
            let text = self.step(&node.step);
            let mut lines = text.lines();
            let first = lines.next().unwrap_or_default();
            let line = format!("{:width$}{first}", "", width = 2 * depth);
            let source = self.source(node.source);
            writeln!(f, "{}", format!("{line:<COLUMN$} {source}").trim_end())?;
            for more in lines {
                writeln!(f, "{:width$}{more}", "", width = 2 * depth)?;
            }
            // In an invalid program, a block might contain itself.
            let inner = |f: &mut Formatter<'_>, inner: BlockId| match inner > block {
                true => self.block(f, inner, depth + 1),
                false => Ok(()),
            };
            match &node.step {
                Step::Loop { body, .. } | Step::On(_, body) => inner(f, *body)?,
                Step::If { then, otherwise, .. } => {
                    inner(f, *then)?;
                    if let Some(otherwise) = otherwise {
                        writeln!(f, "{:width$}else", "", width = 2 * depth)?;
                        inner(f, *otherwise)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the line of a source, with the file if there are several. Empty if it is not known.
    fn source(&self, source: Source) -> String {
        match &self.program.files[..] {
            _ if source.line == 0 => String::new(),
            [_, _, ..] => {
                let file = self.program.files.get(source.file as usize);
                let name = file.map_or("?", |file| file.rsplit('/').next().unwrap_or(file));
                format!("{name}:{}", source.line)
            }
            _ => source.line.to_string(),
        }
    }

    fn step(&self, step: &Step) -> String {
        match step {
            Step::Comment(text) => {
                let lines: Vec<String> = text.lines().map(|line| format!("// {line}")).collect();
                lines.join("\n")
            }
            Step::Name(value) => {
                let name = self.program.values.get(value.0 as usize).and_then(|v| v.name.as_ref());
                format!("let {} = {}", name.map_or("_", |name| name), self.made(*value, 0))
            }
            Step::Set(variable, value) => {
                format!("{} = {}", self.variable(*variable), self.value(*value))
            }
            Step::Read(variable, read) => {
                format!("{} = {}", self.variable(*variable), self.read(read))
            }
            Step::Loop { variable, from, to, step, .. } => {
                let variable = self.variable(*variable);
                let (from, to) = (self.operand(*from), self.operand(*to));
                match self.value(*step).as_str() {
                    "1" => format!("for {variable} in {from}..{to}"),
                    step => format!("for {variable} in {from}..{to} by {step}"),
                }
            }
            Step::If { condition, .. } => format!("if {}", self.value(*condition)),
            Step::On(core, _) => format!("on {}", kind(*core)),
            Step::Buffer(buffer) => self.buffer(buffer),
            Step::Copy(copy) => self.copy(copy),
            Step::Vector(vector) => self.vector(vector),
            Step::Sync(sync) => sync_words(sync),
            Step::Matmul(multiply) => self.multiply(multiply),
            Step::Hccl(call) => self.call(call),
        }
    }

    fn read(&self, read: &Read) -> String {
        match read {
            Read::Global(place) => self.place(place),
            Read::Local(local) => self.element(local),
            Read::Finished(task) => format!("{}.query()", self.task(*task)),
            Read::Queues(client) => format!("{}.queue_num()", self.client(*client)),
            Read::Slice(task, true) => format!("{}.next_received()", self.task(*task)),
            Read::Slice(task, false) => format!("{}.next_to_send()", self.task(*task)),
        }
    }

    fn buffer(&self, buffer: &Buffer) -> String {
        let (queue, local) = match *buffer {
            Buffer::InitQueue(queue) => return format!("init {}", self.queue(queue)),
            Buffer::InitScratch(scratch) => return format!("init {}", self.scratch(scratch)),
            Buffer::Get(scratch, local) => {
                return format!("{} = {}.get()", self.tensor(local), self.scratch(scratch));
            }
            Buffer::Alloc(queue, local)
            | Buffer::Enqueue(queue, local)
            | Buffer::Dequeue(queue, local)
            | Buffer::Free(queue, local) => (self.queue(queue), self.tensor(local)),
        };
        match buffer {
            Buffer::Alloc(..) => format!("{local} = {queue}.alloc()"),
            Buffer::Enqueue(..) => format!("{queue}.enqueue({local})"),
            Buffer::Dequeue(..) => format!("{local} = {queue}.dequeue()"),
            _ => format!("{queue}.free({local})"),
        }
    }

    fn copy(&self, copy: &Copy) -> String {
        match copy {
            Copy::In { to, from, pieces } => {
                let (to, from) = (self.local(to), self.place(from));
                format!("copy {to} <- {from}, {}", self.pieces(pieces))
            }
            Copy::Out { to, from, pieces, add } => {
                let verb = if *add { "add" } else { "copy" };
                let (to, from) = (self.place(to), self.local(from));
                format!("{verb} {to} <- {from}, {}", self.pieces(pieces))
            }
            Copy::Set { to, value } => format!("{} = {}", self.place(to), self.value(*value)),
            Copy::SetLocal { to, value } => {
                format!("{} = {}", self.element(to), self.value(*value))
            }
            Copy::Clean(place) => format!("clean the line of {}", self.place(place)),
        }
    }

    fn pieces(&self, pieces: &Pieces) -> String {
        let length = self.value(pieces.length);
        match (pieces.count, pieces.gap) {
            (None, _) => length,
            (Some(count), None) => format!("{} pieces of {length}", self.operand(count)),
            (Some(count), Some(gap)) => {
                format!("{} pieces of {length}, {} apart", self.operand(count), self.value(gap))
            }
        }
    }

    fn vector(&self, vector: &Vector) -> String {
        let name = |of: &dyn fmt::Debug| format!("{of:?}").to_ascii_lowercase();
        let (to, what, count) = match vector {
            Vector::Fill { to, value, count } => {
                (to, format!("fill({})", self.value(*value)), count)
            }
            Vector::Binary { operator, to, a, b, count } => {
                (to, format!("{}({}, {})", name(operator), self.local(a), self.local(b)), count)
            }
            Vector::Scalar { operator, to, a, scalar, count } => {
                let (a, scalar) = (self.local(a), self.value(*scalar));
                (to, format!("{}s({a}, {scalar})", name(operator)), count)
            }
            Vector::Unary { operator, to, a, count } => {
                (to, format!("{}({})", name(operator), self.local(a)), count)
            }
            Vector::Cast { to, from, round, count } => {
                (to, format!("cast({}, {})", self.local(from), name(round)), count)
            }
            Vector::Reduce { operator, to, from, work, count } => {
                let (from, work) = (self.local(from), self.local(work));
                (to, format!("reduce_{}({from}, with {work})", name(operator)), count)
            }
        };
        format!("{} = {what}, {}", self.local(to), self.value(*count))
    }

    fn multiply(&self, of: &Multiply) -> String {
        let name = self.program.matmuls.get(of.matmul.0 as usize).map_or("?", |m| &m.name);
        let bias = of.bias.map_or(String::new(), |bias| format!(" + {}", self.place(&bias)));
        let [a, b, c] = of.pitches.map(|pitch| self.value(pitch));
        format!(
            "{} = {name}({} * {}{bias}), rows {}, columns {}, depth {}, pitches {a}, {b}, {c}",
            self.place(&of.c),
            self.place(&of.a),
            self.place(&of.b),
            self.value(of.rows),
            self.value(of.columns),
            self.value(of.depth)
        )
    }

    fn call(&self, call: &Hccl) -> String {
        match call {
            Hccl::Init(client, offset) => {
                format!("{}.init(tiling at {offset})", self.client(*client))
            }
            Hccl::Configure(client, _, path) => {
                format!("{}.configure({path})", self.client(*client))
            }
            Hccl::Prepare { task, operation, repeat, commit } => {
                let client = self.program.tasks.get(task.0 as usize).map(|task| task.what);
                let client = client.map_or("?", |client| self.client(client));
                let (name, arguments) = self.operation(operation);
                let repeat = match self.value(*repeat).as_str() {
                    "1" => String::new(),
                    repeat => format!(", repeat {repeat}"),
                };
                let commit = if *commit { ", commit" } else { "" };
                format!("{} = {client}.{name}({arguments}{repeat}{commit})", self.task(*task))
            }
            Hccl::Commit(task) => format!("{}.commit()", self.task(*task)),
            Hccl::Wait(task) => format!("{}.wait()", self.task(*task)),
            Hccl::After(client, task) => {
                format!("{}.after({})", self.client(*client), self.task(*task))
            }
            Hccl::Barrier(client, queue) => {
                format!("{}.queue_barrier({})", self.client(*client), self.value(*queue))
            }
            Hccl::Finalize(client, true) => format!("{}.finalize()", self.client(*client)),
            Hccl::Finalize(client, false) => {
                format!("{}.finalize(without waiting)", self.client(*client))
            }
        }
    }

    fn operation(&self, operation: &Operation) -> (&'static str, String) {
        let exchange = |of: &Exchange| {
            let (send, recv) = (self.place(&of.send), self.place(&of.recv));
            format!("{send} -> {recv}, {} {}", self.operand(of.count), dtype::name(of.dtype))
        };
        let strided = |of: &Exchange, reduction: &str, stride: ValueId| {
            format!("{}{reduction}, stride {}", exchange(of), self.value(stride))
        };
        let of = |reduction: &Reduction| format!(", {reduction:?}").to_ascii_lowercase();
        match operation {
            Operation::AllReduce(e, r) => ("all_reduce", exchange(e) + &of(r)),
            Operation::AllGather(e, stride) => ("all_gather", strided(e, "", *stride)),
            Operation::ReduceScatter(e, r, stride) => {
                ("reduce_scatter", strided(e, &of(r), *stride))
            }
            Operation::AlltoAll(e, stride) => ("all_to_all", strided(e, "", *stride)),
            Operation::AlltoAllV {
                send,
                recv,
                dtype,
                send_counts,
                send_displs,
                recv_counts,
                recv_displs,
            } => (
                "all_to_all_v",
                format!(
                    "{} by {} at {} -> {} by {} at {}, {}",
                    self.place(send),
                    self.list(send_counts),
                    self.list(send_displs),
                    self.place(recv),
                    self.list(recv_counts),
                    self.list(recv_displs),
                    dtype::name(*dtype)
                ),
            ),
            Operation::BatchWrite { items, count, queue } => (
                "batch_write",
                format!(
                    "{} items at {}, queue {}",
                    self.operand(*count),
                    self.place(items),
                    self.value(*queue)
                ),
            ),
            Operation::AlltoAllvWrite { send, offsets, sizes, window, local } => (
                "all_to_all_v_write",
                format!(
                    "{} by {} at {} -> windows at {}, {} own bytes",
                    self.place(send),
                    self.place(sizes),
                    self.place(offsets),
                    self.value(*window),
                    self.operand(*local)
                ),
            ),
        }
    }

    fn list(&self, list: &PerRank) -> String {
        match list {
            PerRank::Tiling(_, path, count) => format!("{path}[..{count}]"),
            PerRank::Values(values) => {
                let values: Vec<String> = values.iter().map(|value| self.value(*value)).collect();
                format!("[{}]", values.join(", "))
            }
        }
    }

    /// Returns a place: `x[offset..]`, or `x` at its start.
    pub(crate) fn place(&self, place: &Place) -> String {
        let base = self.base(place.base);
        match self.value(place.offset).as_str() {
            "0" => base,
            offset => format!("{base}[{offset}..]"),
        }
    }

    pub(crate) fn base(&self, base: Base) -> String {
        match base {
            Base::Parameter(at) => {
                let found = self.program.parameters.get(at as usize);
                found.map_or("?", |parameter| &parameter.name).to_owned()
            }
            Base::Workspace => "workspace".to_owned(),
            Base::WindowIn(client, rank) => {
                format!("{}.window_in({})", self.client(client), self.value(rank))
            }
            Base::WindowOut(client, rank) => {
                format!("{}.window_out({})", self.client(client), self.value(rank))
            }
        }
    }

    fn local(&self, local: &Local) -> String {
        match local.offset.map(|offset| self.value(offset)) {
            None => self.tensor(local.tensor).to_owned(),
            Some(offset) => format!("{}[{offset}..]", self.tensor(local.tensor)),
        }
    }

    fn element(&self, local: &Local) -> String {
        let offset = local.offset.map_or("0".to_owned(), |offset| self.value(offset));
        format!("{}[{offset}]", self.tensor(local.tensor))
    }

    pub(crate) fn tensor(&self, local: LocalId) -> &'a str {
        self.program.locals.get(local.0 as usize).map_or("?", |d| &d.name)
    }

    pub(crate) fn queue(&self, queue: QueueId) -> &'a str {
        self.program.queues.get(queue.0 as usize).map_or("?", |d| &d.name)
    }

    pub(crate) fn scratch(&self, scratch: ScratchId) -> &'a str {
        self.program.scratches.get(scratch.0 as usize).map_or("?", |d| &d.name)
    }

    pub(crate) fn task(&self, task: TaskId) -> &'a str {
        self.program.tasks.get(task.0 as usize).map_or("?", |d| &d.name)
    }

    pub(crate) fn client(&self, client: ClientId) -> &'a str {
        self.program.clients.get(client.0 as usize).map_or("?", |d| &d.name)
    }

    fn variable(&self, variable: VariableId) -> &'a str {
        self.program.variables.get(variable.0 as usize).map_or("?", |d| &d.name)
    }
}

fn sync_words(sync: &Sync) -> String {
    let pipe = |pipe: Pipe| format!("{pipe:?}").to_ascii_lowercase();
    match sync {
        Sync::Pipe(of) => format!("barrier of {}", pipe(*of)),
        Sync::Units(first, second) => format!("{} waits for {}", pipe(*second), pipe(*first)),
        Sync::Raise { mode, pipe: of, flag } => {
            let whom = match mode {
                Mode::Kind => "all cores of the kind",
                Mode::Pair => "both vector cores of the block",
                Mode::Block => "the other kind in the block",
            };
            format!("raise flag {flag} for {whom} after {}", pipe(*of))
        }
        Sync::Await { flag } => format!("await flag {flag}"),
        Sync::All { vector: true } => "sync all vector cores".to_owned(),
        Sync::All { vector: false } => "sync all cores".to_owned(),
    }
}

/// Returns the short name of a kind of core.
pub(crate) fn kind(core: Core) -> &'static str {
    match core {
        Core::Aic => "aic",
        Core::Aiv => "aiv",
    }
}
