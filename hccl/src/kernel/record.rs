//! The recorder. A kernel runs once while it is recorded, and the calls on its handles write steps
//! into the recorder.
//!
//! A recorder belongs to its thread. Each handle carries the number of its recording. So the use of
//! a handle in another recording is a mistake with a line, and does not lead to a wrong program. If
//! nothing is being recorded, the use has no effect. User code never runs while the recorder is
//! borrowed.
//!
//! Values are first collected in an arena. A value is added to the program when a step uses it, or
//! when a `let` gives it a name. If a value was added with a name inside a block and is used again
//! outside that block, it is added once more.

mod named;
mod names;

pub(super) use named::NamedKind;

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use ascend_program::flow::fit;
use ascend_program::layout::Number;
use ascend_program::step::{Node, Source, Step};
use ascend_program::{
    Binary, BlockId, Core, Declared, FunctionCall, Mix, Of, Program, Value, ValueId, VariableId,
};

use crate::error::kernel::{Mistake, RecordError};

/// The index of a value in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub u32);

/// A value of a recording: the number of the recording, and the index of the value in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueHandle {
    pub recording: u64,
    pub id: Id,
}

impl ValueHandle {
    /// A handle that belongs to no recording. Its use is a mistake.
    pub const NONE: ValueHandle = ValueHandle { recording: 0, id: Id(0) };
}

/// The place of a call in the source of a kernel.
pub(super) type Caller = &'static Location<'static>;

/// The limits of an expression: the number of its parts, and its depth. An expression that reaches
/// a limit is put into a variable. Each use of a value in a program computes its parts again, and
/// [`Program::validate`] limits the parts and the depth.
const LARGEST: u32 = 1000;
const DEEPEST: u32 = 100;

/// A kernel being recorded.
pub(super) struct KernelRecorder {
    pub number: u64,
    pub program: Program,
    /// The kind of core that runs the current block; `None` if all cores of the kernel run it.
    pub core: Option<Core>,
    /// The groups that have a client.
    pub groups: HashSet<u32>,
    /// For each tensor in local memory, whether the kernel still holds it. A tensor that was
    /// enqueued or freed is no longer held.
    pub held: Vec<bool>,
    arena: Vec<Expression>,
    /// The open blocks, from the outermost block to the current one.
    open: Vec<BlockId>,
    /// The number of the innermost open call, or 0 if no call is open.
    call: u32,
    /// The block in which each variable is declared.
    homes: Vec<BlockId>,
    names: HashSet<String>,
    named: HashSet<(NamedKind, u32)>,
    mistakes: Vec<Mistake>,
    /// Whether missing waits between units are inserted at the end of the recording.
    pub inserts_waits: bool,
    here: Caller,
}

struct Expression {
    /// The expression. Its operands are indices in the arena.
    of: Of,
    number: Number,
    /// The number of operands and operators in the expression. A part that is used several times
    /// counts each time.
    size: u32,
    /// The depth to which the expression is nested.
    depth: u32,
    /// The number of the value in the program, and the block in which that number is valid. `None`
    /// if the value is not in the program yet.
    made: Option<(ValueId, BlockId)>,
}

thread_local! {
    /// The kernels being recorded on this thread. If a kernel records another kernel, the recorder
    /// of the inner kernel is after that of the outer one.
    static STACK: RefCell<Vec<KernelRecorder>> = const { RefCell::new(Vec::new()) };
}

static RECORDINGS: AtomicU64 = AtomicU64::new(1);

/// A guard that removes a recorder if its kernel panics.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        STACK.with_borrow_mut(|stack| stack.retain(|recorder| recorder.number != self.0));
    }
}

/// Records a kernel: runs it once with a new recorder. Returns the program, or all mistakes in the
/// kernel. The kernel gets the number of the recording.
pub(super) fn record(
    name: &str,
    mix: Mix,
    here: Caller,
    kernel: impl FnOnce(u64),
) -> Result<Program, RecordError> {
    let number = RECORDINGS.fetch_add(1, Ordering::Relaxed);
    let recorder = KernelRecorder::new(number, name, mix, here);
    STACK.with_borrow_mut(|stack| stack.push(recorder));
    let running = Running(number);
    kernel(number);
    let recorder = STACK.with_borrow_mut(|stack| {
        stack.iter().position(|recorder| recorder.number == number).map(|at| stack.remove(at))
    });
    drop(running);
    match recorder {
        Some(recorder) => recorder.finish(),
        // Not reached: no other code removes the recorder before `running` is dropped.
        None => Err(RecordError::new(name, vec![Mistake::new("the recording was lost", here)])),
    }
}

/// Returns the number of the recording that is current on this thread, if there is one.
pub(super) fn current() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().map(|recorder| recorder.number))
}

/// Runs a closure with the current recorder if `recording` is its number. Otherwise the call used a
/// handle of another recording: notes this mistake and returns `None`. Also returns `None` if
/// nothing is being recorded.
pub(super) fn with<R>(
    recording: u64,
    here: Caller,
    what: impl FnOnce(&mut KernelRecorder) -> R,
) -> Option<R> {
    STACK.with_borrow_mut(|stack| {
        let recorder = stack.last_mut()?;
        recorder.here = here;
        if recorder.number != recording {
            recorder.foreign();
            return None;
        }
        Some(what(recorder))
    })
}

/// An open call of a function in a kernel that is being recorded. The call ends when this value is
/// dropped.
#[derive(Debug)]
pub struct OpenCall {
    /// The number of the recording and the number of the enclosing call; `None` if nothing is being
    /// recorded.
    of: Option<(u64, u32)>,
}

impl OpenCall {
    pub(super) fn begin(function: &str, doc: &str, here: Caller) -> OpenCall {
        let begun = |number| with(number, here, |recorder| recorder.begin_call(function, doc));
        OpenCall { of: current().and_then(|number| Some((number, begun(number)?))) }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Some((number, around)) = self.of else { return };
        STACK.with_borrow_mut(|stack| {
            if let Some(recorder) = stack.iter_mut().find(|recorder| recorder.number == number) {
                recorder.call = around;
            }
        });
    }
}

/// Adds a new value to the recording with the number `recording`. If this is not the current
/// recording, returns [`ValueHandle::NONE`]. If another recording is the current one, also notes a
/// mistake in it.
pub(super) fn fresh(
    recording: u64,
    here: Caller,
    of: impl FnOnce(&mut KernelRecorder) -> (Of, Number),
) -> ValueHandle {
    with(recording, here, |recorder| {
        let (of, number) = of(recorder);
        recorder.handle(of, number)
    })
    .unwrap_or(ValueHandle::NONE)
}

/// Adds a constant to the current recording. Returns [`ValueHandle::NONE`] if nothing is being
/// recorded.
pub(super) fn constant(bits: u64, number: Number) -> ValueHandle {
    STACK.with_borrow_mut(|stack| match stack.last_mut() {
        Some(recorder) => recorder.handle(Of::Constant(bits), number),
        None => ValueHandle::NONE,
    })
}

impl KernelRecorder {
    fn new(number: u64, name: &str, mix: Mix, here: Caller) -> Self {
        let program = Program {
            name: name.to_owned(),
            doc: String::new(),
            mix,
            parameters: Vec::new(),
            workspace: false,
            views: Vec::new(),
            tiling: None,
            groups: 0,
            values: Vec::new(),
            variables: Vec::new(),
            queues: Vec::new(),
            scratches: Vec::new(),
            locals: Vec::new(),
            clients: Vec::new(),
            tasks: Vec::new(),
            matmuls: Vec::new(),
            blocks: vec![Vec::new()],
            files: Vec::new(),
            calls: Vec::new(),
            allowed: Vec::new(),
        };
        KernelRecorder {
            number,
            program,
            core: None,
            groups: HashSet::new(),
            held: Vec::new(),
            arena: Vec::new(),
            open: vec![BlockId(0)],
            call: 0,
            homes: Vec::new(),
            names: HashSet::new(),
            named: HashSet::new(),
            mistakes: Vec::new(),
            inserts_waits: false,
            here,
        }
    }

    fn finish(mut self) -> Result<Program, RecordError> {
        if self.inserts_waits && self.mistakes.is_empty() {
            ascend_program::waits::insert(&mut self.program);
        }
        if self.mistakes.is_empty()
            && let Err(problem) = self.program.validate()
        {
            self.mistake(problem);
        }
        match self.mistakes.is_empty() {
            true => Ok(self.program),
            false => Err(RecordError::new(&self.program.name, self.mistakes)),
        }
    }

    /// Notes a mistake at the line that is being recorded.
    pub fn mistake(&mut self, text: impl Into<String>) {
        let calls = self.program.path(Source { call: self.call, ..Source::default() });
        let mistake = Mistake::new(text, self.here).within(calls);
        // A mistake in a helper function is noted once, however often the helper is called.
        if !self.mistakes.iter().any(|known| known.is_like(&mistake)) {
            self.mistakes.push(mistake);
        }
    }

    /// Notes that a handle of another recording was used.
    pub fn foreign(&mut self) {
        let name = self.program.name.clone();
        self.mistake(format!(
            "`{name}` uses an item that belongs to another recording: make the item in the kernel, \
             which runs once for each recording"
        ));
    }

    /// Returns the place in the source that is being recorded.
    fn source(&mut self) -> Source {
        let (file, line, column) = (self.here.file(), self.here.line(), self.here.column());
        let known = self.program.files.iter().position(|known| known == file);
        let file = known.unwrap_or_else(|| {
            self.program.files.push(file.to_owned());
            self.program.files.len() - 1
        });
        Source { file: file as u32, line, column, call: self.call }
    }

    /// Begins a call of a function. Returns the number of the enclosing call, which the end of this
    /// call restores.
    fn begin_call(&mut self, function: &str, doc: &str) -> u32 {
        let around = self.call;
        let from = self.source();
        let (function, doc) = (function.to_owned(), doc.to_owned());
        self.program.calls.push(FunctionCall { function, doc, from });
        self.call = self.program.calls.len() as u32;
        around
    }

    /// Adds a step to the current block.
    pub fn step(&mut self, step: Step) {
        let source = self.source();
        let block = self.block();
        self.program.blocks[block.0 as usize].push(Node { step, source });
    }

    /// Returns the current block.
    fn block(&self) -> BlockId {
        self.open.last().copied().unwrap_or(BlockId(0))
    }

    /// Begins a block inside the current one.
    pub fn begin(&mut self) -> BlockId {
        let block = BlockId(self.program.blocks.len() as u32);
        self.program.blocks.push(Vec::new());
        self.open.push(block);
        block
    }

    /// Ends the current block.
    pub fn end(&mut self, block: BlockId) {
        // Blocks are nested like the closures of the kernel, so the block that ends is the last.
        if self.open.last() == Some(&block) {
            self.open.pop();
        }
    }

    /// Adds a value to the arena and returns its index. Folds constants, and puts a large
    /// expression into a variable.
    pub fn push(&mut self, of: Of, number: Number) -> Id {
        if let Some(known) = self.folded(&of, number) {
            return known;
        }
        let (mut size, mut depth) = (1, 0);
        let mut with = |part: &ValueId| {
            let Expression { size: more, depth: below, .. } = &self.arena[part.0 as usize];
            size = u32::saturating_add(size, *more);
            depth = u32::max(depth, below + 1);
        };
        match &of {
            Of::Tiling { element: Some((a, _)), .. } | Of::Unary(_, a) | Of::Cast(a) => with(a),
            Of::Binary(_, a, b) => [a, b].map(with).into_iter().collect(),
            Of::Select(a, b, c) => [a, b, c].map(with).into_iter().collect(),
            _ => {}
        }
        let id = Id(self.arena.len() as u32);
        self.arena.push(Expression { of, number, size, depth, made: None });
        if size < LARGEST && depth < DEEPEST {
            return id;
        }
        let variable = self.variable("part", number);
        let value = self.value(id);
        self.step(Step::Set(variable, value));
        self.push(Of::Variable(variable), number)
    }

    /// Returns the result of an expression that the kernel need not compute, or `None` for any
    /// other expression. The kernel need not compute sums, differences and products of integer
    /// constants, and additions of an integer 0. Constants that are already in the program are not
    /// folded, because they may have names. A signed result that overflows is not folded, so that
    /// the kernel has the overflow, which the check reports.
    fn folded(&mut self, of: &Of, number: Number) -> Option<Id> {
        use Number::*;
        // Wide enough for a product. Its low bits are right for unsigned types, too.
        let wide = |bits: u64| i128::from(bits.cast_signed());
        let Of::Binary(operator, a, b) = of else { return None };
        if !matches!(number, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64) {
            return None;
        }
        let nameless = |id: &ValueId| {
            let Expression { of, made, .. } = &self.arena[id.0 as usize];
            match of {
                Of::Constant(bits) if made.is_none() => Some(*bits),
                _ => None,
            }
        };
        let result = match (operator, nameless(a), nameless(b)) {
            (Binary::Add, None, Some(0)) => return Some(Id(a.0)),
            (Binary::Add, Some(0), None) => return Some(Id(b.0)),
            (Binary::Add, Some(a), Some(b)) => wide(a) + wide(b),
            (Binary::Sub, Some(a), Some(b)) => wide(a) - wide(b),
            (Binary::Mul, Some(a), Some(b)) => wide(a) * wide(b),
            _ => return None,
        };
        let bits = fit(number, result as u64);
        if matches!(number, I8 | I16 | I32 | I64) && wide(bits) != result {
            return None;
        }
        Some(self.push(Of::Constant(bits), number))
    }

    /// Adds a value for the kernel and returns its handle.
    pub fn handle(&mut self, of: Of, number: Number) -> ValueHandle {
        ValueHandle { recording: self.number, id: self.push(of, number) }
    }

    /// Returns the index of a handle's value. If the handle belongs to another recording, notes a
    /// mistake and returns a constant 0.
    pub fn own(&mut self, handle: ValueHandle, number: Number) -> Id {
        if handle.recording == self.number {
            return handle.id;
        }
        self.foreign();
        self.push(Of::Constant(0), number)
    }

    /// Returns the type of a value.
    pub fn number(&self, id: Id) -> Number {
        self.arena[id.0 as usize].number
    }

    /// Returns the bits of a value if it is a constant.
    pub fn known(&self, id: Id) -> Option<u64> {
        match self.arena[id.0 as usize].of {
            Of::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// Returns the number of a value in the program, for a step of the current block. Adds the
    /// value to the program if that is necessary.
    pub fn value(&mut self, id: Id) -> ValueId {
        self.make(id).0
    }

    fn make(&mut self, id: Id) -> (ValueId, BlockId) {
        let Expression { of, number, made, .. } = &self.arena[id.0 as usize];
        if let Some((made, within)) = made
            && self.open.contains(within)
        {
            return (*made, *within);
        }
        let (mut of, number) = (of.clone(), *number);
        let mut within = BlockId(0);
        let mut inner = |recorder: &mut Self, part: &mut ValueId| {
            let (made, of) = recorder.make(Id(part.0));
            *part = made;
            // Both blocks are open, so one is inside the other, and the inner one has the greater
            // number.
            within = within.max(of);
        };
        match &mut of {
            Of::Tiling { element: Some((a, _)), .. } | Of::Unary(_, a) | Of::Cast(a) => {
                inner(self, a);
            }
            Of::Binary(_, a, b) => {
                inner(self, a);
                inner(self, b);
            }
            Of::Select(a, b, c) => {
                inner(self, a);
                inner(self, b);
                inner(self, c);
            }
            Of::Variable(variable) => {
                let home = self.homes[variable.0 as usize];
                within = home;
                if !self.open.contains(&home) {
                    let name = self.program.variables[variable.0 as usize].name.clone();
                    self.mistake(format!(
                        "`{name}` is used after the loop or branch that declares it: store it in a `k.variable(..)` that is declared before"
                    ));
                    within = self.block();
                }
            }
            _ => {}
        }
        let made = ValueId(self.program.values.len() as u32);
        self.program.values.push(Value { of, number, name: None });
        self.arena[id.0 as usize].made = Some((made, within));
        (made, within)
    }

    /// Declares a variable in the current block. Makes its name unique.
    pub fn variable(&mut self, name: &str, number: Number) -> VariableId {
        let variable = VariableId(self.program.variables.len() as u32);
        let name = self.unique(name);
        self.program.variables.push(Declared { name, what: number });
        self.homes.push(self.block());
        variable
    }
}
