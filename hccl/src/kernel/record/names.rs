//! The names in a program. Each item gets the name that it has in the source, with a number if the
//! name is already used.

use ascend_program::step::Step;
use ascend_program::{Declared, Of, WorkspaceView};

use super::named::NamedKind;
use super::{KernelRecorder, ValueHandle};

impl KernelRecorder {
    /// Returns `name` if it is free, and otherwise `name` with an appended number that makes it
    /// unique.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut more = 2;
        while !self.names.insert(unique.clone()) {
            unique = format!("{name}_{more}");
            more += 1;
        }
        unique
    }

    /// Gives a value the name that it has in the source, unless it already has a name or was used
    /// without one.
    pub fn name_value(&mut self, handle: ValueHandle, name: &str) {
        if handle.recording != self.number {
            return;
        }
        if let Of::Variable(variable) = self.arena[handle.id.0 as usize].of {
            return self.name(NamedKind::Variable, variable.0, name);
        }
        if self.arena[handle.id.0 as usize].made.is_some() {
            return;
        }
        let value = self.value(handle.id);
        let name = self.unique(name);
        self.program.values[value.0 as usize].name = Some(name);
        let block = self.block();
        self.arena[handle.id.0 as usize].made = Some((value, block));
        self.step(Step::Name(value));
    }

    /// Gives a part of the workspace the name that it has in the source, unless it already has a
    /// name.
    pub fn name_view(&mut self, what: WorkspaceView, name: &str) {
        if self.program.views.iter().all(|known| known.what != what) {
            let name = self.unique(name);
            self.program.views.push(Declared { name, what });
        }
    }

    /// Gives an item the name that it has in the source, unless this was already done.
    pub fn name(&mut self, kind: NamedKind, at: u32, name: &str) {
        if !self.named.insert((kind, at)) {
            return;
        }
        let old = self.slot(kind, at).map(std::mem::take);
        if let Some(old) = old {
            self.names.remove(&old);
            let new = self.unique(name);
            if let Some(slot) = self.slot(kind, at) {
                *slot = new;
            }
        }
    }

    /// Returns a mutable reference to the name of an item in the program, or `None` if the program
    /// has no item with this index.
    fn slot(&mut self, kind: NamedKind, at: u32) -> Option<&mut String> {
        let (program, at) = (&mut self.program, at as usize);
        match kind {
            NamedKind::Variable => program.variables.get_mut(at).map(|d| &mut d.name),
            NamedKind::Queue => program.queues.get_mut(at).map(|d| &mut d.name),
            NamedKind::Scratch => program.scratches.get_mut(at).map(|d| &mut d.name),
            NamedKind::Local => program.locals.get_mut(at).map(|d| &mut d.name),
            NamedKind::Client => program.clients.get_mut(at).map(|d| &mut d.name),
            NamedKind::Task => program.tasks.get_mut(at).map(|d| &mut d.name),
            NamedKind::Matmul => program.matmuls.get_mut(at).map(|d| &mut d.name),
        }
    }
}
