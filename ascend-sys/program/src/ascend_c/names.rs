//! The names of Ascend C, each unique where it is visible.

use std::collections::{HashMap, HashSet};

use crate::declared::*;
use crate::layout::Layout;
use crate::program::Program;

/// A part of a program that has a name in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Thing {
    Parameter(u32),
    /// The `GlobalTensor` over a parameter.
    Global(u32),
    /// The `GlobalTensor` over a part of the workspace.
    View(u32),
    Value(ValueId),
    Variable(VariableId),
    Queue(QueueId),
    Scratch(ScratchId),
    Local(LocalId),
    Client(ClientId),
    Task(TaskId),
    Matmul(MatmulId),
}

/// Names that cannot be given, in addition to keywords: macros and namespaces of the headers, and
/// names that the printer itself gives.
const RESERVED: [&str; 10] = [
    "assert",
    "linux",
    "offsetof",
    "pipe",
    "std",
    "tiling",
    "tilingData",
    "unix",
    "userWorkspace",
    "workspace",
];

fn reserved() -> impl Iterator<Item = &'static str> {
    RESERVED.iter().chain(ascend_names::KEYWORDS).copied()
}

/// Returns whether C++, or the code printed around a kernel, already uses a name.
pub(super) fn is_reserved(name: &str) -> bool {
    reserved().any(|reserved| reserved == name)
}

/// The names that are visible at a place in the source.
#[derive(Debug, Clone)]
pub(super) struct Names {
    of: HashMap<Thing, String>,
    /// The names of each open block.
    scopes: Vec<Vec<(Thing, String)>>,
    taken: HashSet<String>,
    /// All names of a program. Each of them is unique: a second `i` is `i_2`.
    recorded: HashSet<String>,
}

impl Names {
    /// Returns the names of a program, with the scope of the function open.
    pub(super) fn new(program: &Program) -> Self {
        let taken = reserved().map(str::to_owned).collect();
        let values = program.values.iter().filter_map(|value| value.name.as_ref());
        let recorded = (program.views.iter().map(|declared| &declared.name))
            .chain(program.variables.iter().map(|declared| &declared.name))
            .chain(program.queues.iter().map(|declared| &declared.name))
            .chain(program.scratches.iter().map(|declared| &declared.name))
            .chain(program.locals.iter().map(|declared| &declared.name))
            .chain(program.clients.iter().map(|declared| &declared.name))
            .chain(program.tasks.iter().map(|declared| &declared.name))
            .chain(program.matmuls.iter().map(|declared| &declared.name))
            .chain(values)
            .cloned()
            .collect();
        Names { of: HashMap::new(), scopes: vec![Vec::new()], taken, recorded }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Returns whether a name is reserved, so that nothing can have it.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        reserved().any(|reserved| reserved == name)
    }

    /// Returns the names that were given since the scope was opened.
    pub(super) fn opened(&self) -> Vec<(Thing, String)> {
        self.scopes.last().cloned().unwrap_or_default()
    }

    /// Returns all visible names, each with the part that has it.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, Thing)> {
        self.of.iter().map(|(thing, name)| (name.as_str(), *thing))
    }

    /// Forgets the names declared since the scope was opened.
    pub(super) fn close(&mut self) {
        for (thing, name) in self.scopes.pop().into_iter().flatten() {
            self.of.remove(&thing);
            self.taken.remove(&name);
        }
    }

    /// Gives a part a free name that is made of `wanted`, a name in snake case. Returns the new
    /// name.
    pub(super) fn give(&mut self, thing: Thing, wanted: &str) -> String {
        let name = self.free(&self.wanted(wanted));
        self.of.insert(thing, name.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((thing, name.clone()));
        }
        name
    }

    /// Returns the name that a part gets if the name is free. `name` is in snake case.
    pub(super) fn wanted(&self, name: &str) -> String {
        // If the first `i` is not visible, the second one gets its name.
        lower_camel(self.first_of(name).unwrap_or(name))
    }

    /// Gives a part the name of another part that equals it.
    pub(super) fn share(&mut self, thing: Thing, with: Thing) {
        if let Some(name) = self.of.get(&with).cloned() {
            self.of.insert(thing, name);
            if let Some(scope) = self.scopes.last_mut() {
                // The name belongs to the other part, so closing this scope must not free it.
                scope.push((thing, String::new()));
            }
        }
    }

    /// Returns whether the two names were the same in the source of the kernel.
    pub(super) fn alike(&self, a: &str, b: &str) -> bool {
        self.first_of(a).unwrap_or(a) == self.first_of(b).unwrap_or(b)
    }

    /// Returns `i` for `i_2`, if the program has an `i` too.
    fn first_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (first, number) = name.rsplit_once('_')?;
        let counted = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (counted && self.recorded.contains(first)).then_some(first)
    }

    /// Returns a name for a variable that the source has but the recorded program lacks.
    pub(super) fn more(&mut self, wanted: &str) -> String {
        self.free(&lower_camel(wanted))
    }

    /// Returns a name that stays unique until the scope ends.
    fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            // Directly after a digit, the number would read as a part of it.
            let between = if wanted.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
            name = format!("{wanted}{between}{number}");
            number += 1;
        }
        name
    }

    pub(super) fn get(&self, thing: Thing) -> Option<&str> {
        self.of.get(&thing).map(String::as_str)
    }

    /// Removes the name from a part. The name stays taken.
    pub(super) fn forget(&mut self, thing: Thing) {
        self.of.remove(&thing);
    }

    /// Returns the values that have a name now.
    pub(super) fn values(&self) -> Vec<ValueId> {
        let mut values: Vec<_> = (self.of.keys())
            .filter_map(|thing| match thing {
                Thing::Value(id) => Some(*id),
                _ => None,
            })
            .collect();
        values.sort();
        values
    }
}

/// Returns a name in lower camel case: `tileLen` for `tile_len`.
pub(super) fn lower_camel(name: &str) -> String {
    let upper = upper_camel(name);
    let mut chars = upper.chars();
    match chars.next() {
        Some(first) => first.to_ascii_lowercase().to_string() + chars.as_str(),
        None => "value".to_owned(),
    }
}

/// Returns a name in upper camel case: `ReduceScatterCustom` for `reduce_scatter_custom`.
pub(super) fn upper_camel(name: &str) -> String {
    // A name all in upper case is a constant, so its letters become lower case first.
    let name = match name.chars().any(|c| c.is_ascii_lowercase()) {
        true => name.to_owned(),
        false => name.to_ascii_lowercase(),
    };
    let mut text = String::new();
    for word in name.split('_') {
        let mut chars = word.chars();
        if let Some(first) = chars.next() {
            // Without the underscore, two adjacent numbers would read as one.
            if first.is_ascii_digit() && text.ends_with(|c: char| c.is_ascii_digit()) {
                text.push('_');
            }
            text.push(first.to_ascii_uppercase());
            text.push_str(chars.as_str());
        }
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, 'V');
    }
    text
}

/// Returns the name of the tiling struct, with its namespace.
pub(super) fn tiling_name(layout: &Layout) -> String {
    match layout.namespace.is_empty() {
        true => layout.name.to_string(),
        false => format!("{}::{}", layout.namespace, layout.name),
    }
}

/// Returns the name of the header that declares the tiling struct of a kernel.
pub(super) fn tiling_file(program: &Program) -> String {
    format!("{}_tiling.h", program.name)
}
