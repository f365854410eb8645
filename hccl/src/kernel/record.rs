//! The recorder: handles in a kernel write into it while the kernel runs once.
//!
//! A recorder belongs to its thread. Handles carry the number of their recording, so that a handle
//! which outlived its kernel is a mistake with a line and not a wrong program. User code never runs
//! while the recorder is borrowed.
//!
//! Values are first collected in an arena of their own, and go into the program when a step uses
//! them. So an unused value leaves no trace, and a value that has a name inside of a block is put
//! together again when it is used outside.

mod names;

pub(super) use names::NamedKind;

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

/// A value in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub u32);

/// The number of a value, and its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueHandle {
    pub recording: u64,
    pub id: Id,
}

impl ValueHandle {
    /// A value of no recording: using it is a mistake.
    pub const NONE: ValueHandle = ValueHandle { recording: 0, id: Id(0) };
}

/// A place in the source.
pub(super) type Caller = &'static Location<'static>;

/// An expression with more parts than this, or nested deeper, is put into a variable: each use of a
/// value in a program computes the parts again, and a program has limits to it.
const LARGEST: u32 = 1000;
const DEEPEST: u32 = 100;

/// A kernel being recorded.
pub(super) struct KernelRecorder {
    pub number: u64,
    pub program: Program,
    /// The cores that the current block is for, if it is not for all.
    pub core: Option<Core>,
    /// The clients that were initialised, and whether they are finalised.
    pub groups: HashSet<u32>,
    /// Whether the kernel holds each tensor in local memory.
    pub held: Vec<bool>,
    arena: Vec<Expression>,
    /// The open blocks: the current one is the last, the ones around it come before.
    open: Vec<BlockId>,
    /// The innermost call that is open; 0: none.
    call: u32,
    /// The block in which each variable is declared.
    homes: Vec<BlockId>,
    names: HashSet<String>,
    named: HashSet<(NamedKind, u32)>,
    mistakes: Vec<Mistake>,
    /// Whether the waits that the kernel lacks are inserted at the end.
    pub inserts_waits: bool,
    here: Caller,
}

struct Expression {
    /// The expression. The values that it is made of are numbers in the arena.
    of: Of,
    number: Number,
    /// The number of numbers and operators in it, each as often as it appears.
    size: u32,
    /// The depth of its nesting.
    depth: u32,
    /// Its number in the program, and the block outside of which it means nothing.
    made: Option<(ValueId, BlockId)>,
}

thread_local! {
    /// The kernels being recorded. One that records another while it runs waits below it.
    static STACK: RefCell<Vec<KernelRecorder>> = const { RefCell::new(Vec::new()) };
}

static RECORDINGS: AtomicU64 = AtomicU64::new(1);

/// Takes a recorder away when the kernel panics.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        STACK.with_borrow_mut(|stack| stack.retain(|recorder| recorder.number != self.0));
    }
}

/// Runs a kernel with a recorder in place. The kernel gets the recording's number.
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
        // Nobody else takes it.
        None => Err(RecordError::new(name, vec![Mistake::new("the recording was lost", here)])),
    }
}

/// Returns the recording that goes on in this thread, as handles see it.
pub(super) fn current() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().map(|recorder| recorder.number))
}

/// Runs a closure with a recording, if that is the one that goes on. A handle of another one is a
/// mistake in this.
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

/// An open call of a function, while the kernel is recorded. The call ends when this is dropped.
#[derive(Debug)]
pub struct OpenCall {
    /// The recording, and the call around this one; none where nothing is recorded.
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

/// Adds a new value to the recording that goes on.
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

/// Adds a constant to the recording that goes on.
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
        // A helper that is called often gets its mistake noted once.
        if !self.mistakes.iter().any(|known| known.is_like(&mistake)) {
            self.mistakes.push(mistake);
        }
    }

    /// Notes that a handle of another recording was used.
    pub fn foreign(&mut self) {
        let name = self.program.name.clone();
        self.mistake(format!(
            "something that belongs to another recording is used in `{name}`: make it anew in the kernel, which runs once for each recording"
        ));
    }

    /// Returns the line that is being recorded.
    fn source(&mut self) -> Source {
        let (file, line, column) = (self.here.file(), self.here.line(), self.here.column());
        let known = self.program.files.iter().position(|known| known == file);
        let file = known.unwrap_or_else(|| {
            self.program.files.push(file.to_owned());
            self.program.files.len() - 1
        });
        Source { file: file as u32, line, column, call: self.call }
    }

    /// Begins a call of a function. Returns the call around it, for its end.
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

    /// Begins a block inside of the current one.
    pub fn begin(&mut self) -> BlockId {
        let block = BlockId(self.program.blocks.len() as u32);
        self.program.blocks.push(Vec::new());
        self.open.push(block);
        block
    }

    /// Ends the current block.
    pub fn end(&mut self, block: BlockId) {
        // Blocks end in the order of the calls in the kernel, so it is the last.
        if self.open.last() == Some(&block) {
            self.open.pop();
        }
    }

    /// Adds a value to the arena.
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

    /// Folds what needs no kernel: sums, differences and products of whole constants without a
    /// name, and nothing added to something.
    fn folded(&mut self, of: &Of, number: Number) -> Option<Id> {
        use Number::*;
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
        let bits = match (operator, nameless(a), nameless(b)) {
            (Binary::Add, None, Some(0)) => return Some(Id(a.0)),
            (Binary::Add, Some(0), None) => return Some(Id(b.0)),
            (Binary::Add, Some(a), Some(b)) => a.wrapping_add(b),
            (Binary::Sub, Some(a), Some(b)) => a.wrapping_sub(b),
            (Binary::Mul, Some(a), Some(b)) => a.wrapping_mul(b),
            _ => return None,
        };
        Some(self.push(Of::Constant(fit(number, bits)), number))
    }

    /// Adds a value for the kernel and returns its handle.
    pub fn handle(&mut self, of: Of, number: Number) -> ValueHandle {
        ValueHandle { recording: self.number, id: self.push(of, number) }
    }

    /// Returns the value of a handle; nothing in particular if it is of another recording.
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

    /// Returns the number that a value is known to be.
    pub fn known(&self, id: Id) -> Option<u64> {
        match self.arena[id.0 as usize].of {
            Of::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// Returns a value in the program, for a step of the current block.
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
            // Both blocks are open, so one lies in the other, and the inner one has the greater
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
                        "`{name}` is used after the loop or branch that it comes from: carry it out of there in a `k.variable(..)`"
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

    /// Declares a scalar that changes, in the current block.
    pub fn variable(&mut self, name: &str, number: Number) -> VariableId {
        let variable = VariableId(self.program.variables.len() as u32);
        let name = self.unique(name);
        self.program.variables.push(Declared { name, what: number });
        self.homes.push(self.block());
        variable
    }
}
