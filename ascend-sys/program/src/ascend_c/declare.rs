//! Prints declarations. The step that gives a named part its first value declares it where
//! possible; otherwise the declaration comes before that step.

use super::names::Thing;
use super::printer::Printer;
use super::uses::values_of;
use crate::declared::*;
use crate::layout::Number;
use crate::step::*;

impl Printer<'_> {
    /// Declares a named part, unless the step itself declares it.
    pub(super) fn declare(&mut self, thing: Thing, step: &Step) {
        if self.declares(step, thing) {
            return;
        }
        match thing {
            Thing::Variable(id) => {
                let Declared { name, what } = &self.program.variables[id.0 as usize];
                let zero = match what {
                    Number::Bool => "false",
                    Number::F16 => "half(0.0f)",
                    Number::Bf16 => "bfloat16_t(0.0f)",
                    Number::F32 => "0.0f",
                    Number::F64 => "0.0",
                    _ => "0",
                };
                let name = self.names.give(thing, name);
                self.text.line(&format!("{} {name} = {zero};", what.ascend_c()));
            }
            Thing::Local(id) => {
                let Declared { name, what } = &self.program.locals[id.0 as usize];
                let name = self.names.give(thing, name);
                self.text.line(&format!("LocalTensor<{}> {name};", what.ascend_c()));
            }
            Thing::Task(id) => {
                let name = self.names.give(thing, &self.program.tasks[id.0 as usize].name);
                self.text.line(&format!("HcclHandle {name} = INVALID_HANDLE_ID;"));
            }
            Thing::Queue(id) => {
                let ty = self.queue_type(id);
                let name = self.names.give(thing, &self.program.queues[id.0 as usize].name);
                self.text.line(&format!("{ty} {name};"));
            }
            Thing::Scratch(id) => {
                let name = self.names.give(thing, &self.program.scratches[id.0 as usize].name);
                self.text.line(&format!("TBuf<TPosition::VECCALC> {name};"));
            }
            Thing::Client(id) => self.declare_client(id),
            Thing::Matmul(id) => self.declare_matmul(id),
            Thing::Parameter(_) | Thing::Global(_) | Thing::View(_) | Thing::Value(_) => {}
        }
    }

    pub(super) fn queue_type(&self, queue: QueueId) -> String {
        let position = match self.program.queues[queue.0 as usize].what.position {
            Position::VecIn => "VECIN",
            Position::VecOut => "VECOUT",
        };
        format!("TQue<TPosition::{position}, 1>")
    }

    /// Prints the end of a named part after its last use.
    pub(super) fn end(&mut self, thing: Thing) {
        if let Thing::Matmul(id) = thing {
            self.end_matmul(id);
        }
    }

    /// Returns whether a step also declares the named part to which it gives a value.
    fn declares(&self, step: &Step, thing: Thing) -> bool {
        match (step, thing) {
            (Step::Set(variable, value), Thing::Variable(id)) => {
                *variable == id && !self.depends(*value, |on| on == id)
            }
            (Step::Read(variable, read), Thing::Variable(id)) => {
                let mut values = Vec::new();
                values_of(self.program, step, &mut values);
                *variable == id
                    && !matches!(read, Read::Slice(..))
                    && !values.into_iter().any(|value| self.depends(value, |on| on == id))
            }
            (Step::Loop { variable, from, to, step, .. }, Thing::Variable(id)) => {
                let alone = self.uses.home(thing).is_some_and(|home| home.step == home.last);
                let free = |value| !self.depends(value, |on| on == id);
                *variable == id && alone && free(*from) && free(*to) && free(*step)
            }
            (
                Step::Buffer(
                    Buffer::Alloc(_, local) | Buffer::Dequeue(_, local) | Buffer::Get(_, local),
                ),
                Thing::Local(id),
            ) => *local == id,
            (Step::Hccl(Hccl::Prepare { task, .. }), Thing::Task(id)) => *task == id,
            _ => false,
        }
    }

    /// Returns the target of an assignment: `name`, with its type in front if the assignment
    /// declares it.
    pub(super) fn target(&mut self, thing: Thing, ty: &str, name: &str) -> String {
        if let Some(name) = self.names.get(thing) {
            return name.to_owned();
        }
        let constant = match thing {
            Thing::Local(_) => "",
            _ if self.uses.writes(thing) == 1 => "const ",
            _ => "",
        };
        let name = self.names.give(thing, name);
        format!("{constant}{ty} {name}")
    }
}
