//! One thread that calls functions: it chooses arguments, records the call, makes it, and keeps the
//! objects that it has made.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use ascend_emulator_testing::common::table;
use fastrand::Rng;

use crate::functions::{Answer, FUNCTIONS, Function, Value};
use crate::memory::Memory;
use crate::objects::{Objects, Piece, kind_of, made_at};
use crate::trace::Trace;
use crate::world::{PIECE, UNIT, World};
use crate::{hostile, plausible};

/// The state that the threads of a process share.
pub struct Run {
    /// The trace that the parent reads.
    pub trace: Trace,
    /// The memory for arguments.
    pub memory: Memory,
    /// The handles and memory that calls have made.
    pub objects: Objects,
    /// The devices, if they have been made.
    pub world: OnceLock<World>,
    /// Whether there are devices, in this run or in the run that contains it. A panic before that
    /// is no failure.
    pub has_world: Arc<AtomicBool>,
}

impl Run {
    /// Makes an empty run, whose arguments follow those of this one.
    pub fn again(&self) -> Run {
        let (trace, memory) = (self.trace.clone(), self.memory.rest());
        let has_world = Arc::clone(&self.has_world);
        Run { trace, memory, objects: Objects::default(), world: OnceLock::new(), has_world }
    }

    /// Makes an empty run.
    pub fn new(trace: Trace) -> Run {
        let (memory, has_world) = (Memory::map(), Arc::default());
        Run { trace, memory, objects: Objects::default(), world: OnceLock::new(), has_world }
    }
}

/// A thread that calls.
pub struct Caller<'run> {
    /// The state that all threads share.
    pub run: &'run Run,
    /// The number of the thread.
    pub thread: u32,
    /// The source of its choices.
    pub random: Rng,
    /// The place in its list from which the object of each kind is taken, if set. Then successive
    /// calls use the same objects.
    pub focus: Option<usize>,
}

/// The way in which an argument is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// An argument with which the call may succeed.
    Plausible,
    /// An argument that is wrong in some way.
    Hostile,
}

impl<'run> Caller<'run> {
    /// Makes a caller with choices of its own.
    pub fn new(run: &'run Run, thread: u32, seed: u64) -> Caller<'run> {
        Caller { run, thread, random: Rng::with_seed(seed), focus: None }
    }

    /// Returns a random element of `of`.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())]
    }

    /// Returns true once in `one_in` calls, at random.
    pub fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(..one_in) == 0
    }

    /// Returns a handle of a kind, or 0 if there is none.
    pub fn handle(&mut self, kind: &str) -> u64 {
        let list = self.run.objects.lists().live.get(kind).cloned().unwrap_or_default();
        match (list.len(), self.focus) {
            (0, _) => 0,
            (count, Some(focus)) => list[focus % count],
            (count, None) => list[self.random.usize(..count)],
        }
    }

    /// Returns the handle of a kind that was made last, or 0 if there is none.
    pub fn newest(&self, kind: &str) -> u64 {
        let lists = self.run.objects.lists();
        lists.live.get(kind).and_then(|list| list.last()).copied().unwrap_or_default()
    }

    /// Returns the address and the length of a piece of device memory or of pinned memory, of at
    /// least `PIECE` and less than `UNIT` bytes. The address is 0 if there is no such piece.
    pub fn memory(&mut self, pinned: bool) -> (u64, u64) {
        let list = self.run.objects.lists().memory.clone();
        let usable = |piece: &Piece| piece.pinned == pinned && (PIECE..UNIT).contains(&piece.bytes);
        let list = list.iter().filter(|piece| usable(piece));
        let list: Vec<(u64, u64)> = list.map(|piece| (piece.at, piece.bytes)).collect();
        match (list.len(), self.focus) {
            (0, _) => (0, PIECE),
            (count, Some(focus)) => list[focus % count],
            (count, None) => list[self.random.usize(..count)],
        }
    }

    /// Returns the number of a device, most often of the first one.
    pub fn device(&mut self) -> i32 {
        let first = self.run.world.get().map_or(0, |world| world.first);
        first + i32::from(self.focus.is_none() && self.chance(8))
    }

    /// Calls a function with arguments of this choice, and returns whether it has succeeded.
    /// `hostile` is the position of an argument that is hostile in any case. A function that copies
    /// or fills memory of the host gets only one hostile argument.
    pub fn call(&mut self, function: usize, choice: Choice, hostile: Option<usize>) -> bool {
        let callee = &FUNCTIONS[function];
        let (choice, hostile) = match choice {
            Choice::Hostile if hostile::is_copy(callee) => {
                (Choice::Plausible, Some(self.random.usize(..callee.parameters.len())))
            }
            _ => (choice, hostile),
        };
        let values: Vec<Value> = (0..callee.parameters.len())
            .map(|at| {
                if choice == Choice::Hostile || hostile == Some(at) {
                    hostile::value(self, callee, at)
                } else {
                    plausible::value(self, callee, at)
                }
            })
            .collect();
        self.call_with(function, &values)
    }

    /// Calls a function, and returns whether it has succeeded.
    pub fn call_with(&mut self, function: usize, values: &[Value]) -> bool {
        let callee = &FUNCTIONS[function];
        let mut text = String::from(callee.name);
        for (parameter, value) in callee.parameters.iter().zip(values) {
            let before = if text.len() == callee.name.len() { '(' } else { ',' };
            write!(text, "{before} {}: {}", parameter.name, shown(parameter.size, value))
                .expect("it grows");
        }
        let begun = self.run.trace.begin(self.thread, function, &text);
        // SAFETY: the choosers of arguments keep the C contract of pointers: a place for a result
        // is NULL or valid. All other arguments may be wrong.
        let answer = unsafe { (callee.call)(table(), values) };
        let (code, success) = match answer {
            None => (i64::MIN, false),
            Some(Answer::Code(code)) => (code, code == 0),
            Some(Answer::Number(number)) => (number as i64, number != 0),
            Some(Answer::Pointer(pointer)) => (pointer as i64, pointer != 0),
            Some(Answer::Nothing) => (0, true),
        };
        self.run.trace.end(begun, function, code, success);
        if success {
            self.learn(callee, values, answer);
        }
        success
    }

    /// Records the objects that a call has made or ended.
    fn learn(&mut self, callee: &Function, values: &[Value], answer: Option<Answer>) {
        let objects = &self.run.objects;
        let name = callee.name;
        let ends = ["Destroy", "Free", "UnLoad", "Finalize", "Release", "Dereg", "Unreg", "Unmap"]
            .iter()
            .any(|word| {
                name.contains(word)
                    && !name.ends_with("Callback")
                    && name != "aclrtKernelArgsFinalize"
            });
        if let Some(Answer::Pointer(pointer)) = answer {
            match name {
                "aclCreateDataBuffer" => objects.add("aclDataBuffer", pointer),
                "aclprofCreateConfig" => objects.add("aclprofConfig", pointer),
                "aclrtCreateBinary" => objects.add("aclrtBinary", pointer),
                _ => {}
            }
        }
        for (parameter, value) in callee.parameters.iter().zip(values) {
            let at = value.number();
            if let Some(kind) = made_at(parameter.ty)
                && self.run.memory.holds(at)
                && !ends
            {
                objects.add(kind, self.run.memory.word(at));
            }
            if let Some(kind) = kind_of(parameter.ty)
                && ends
            {
                objects.remove(kind, at);
            }
        }
        match name {
            "HcclKfcAllocOpArgs" => objects.add("opArgs", self.run.memory.word(values[0].number())),
            "HcommMemAlloc" | "aclrtMemPoolMallocAsync" => {
                objects.add(name, self.run.memory.word(values[0].number()));
            }
            "HcclKfcFreeOpArgs" => objects.remove("opArgs", values[0].number()),
            _ => {}
        }
        let makes_memory = name.contains("Malloc") || name.contains("ReserveMem");
        if makes_memory && !name.contains("Physical") {
            let size = values.get(1).map_or(0, Value::number);
            let pinned = name.contains("MallocHost");
            objects.add_memory(self.run.memory.word(values[0].number()), size, pinned);
        }
        if ends && let Some(first) = values.first() {
            objects.remove_memory(first.number());
        }
    }
}

fn shown(size: usize, value: &Value) -> String {
    match size {
        0..=1 => format!("{}", value.number() as u8),
        2..=4 => format!("{}", value.number() as u32 as i32),
        _ if value.number() < 1 << 16 => format!("{}", value.number()),
        _ => format!("{:#x}", value.number()),
    }
}
