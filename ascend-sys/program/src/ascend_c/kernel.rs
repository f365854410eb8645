//! Prints the source of a kernel: its entry function, block by block.

use std::collections::BTreeSet;
use std::ops::Range;

use super::barriers::LocalBlock;
use super::fold::folded;
use super::level::Level;
use super::names::{Thing, is_reserved, tiling_file, tiling_name};
use super::printer::Printer;
use super::text::Text;
use super::uses::values_of;
use crate::declared::*;
use crate::flow::is_float;
use crate::program::Program;
use crate::step::*;

/// The greatest depth of nested blocks, which is more than any real kernel has.
const DEEPEST: usize = 64;

/// Returns the source of a kernel.
///
/// # Errors
///
/// Fails for a program that is not [valid](Program::validate), for a kernel whose name C++ or its
/// headers use, for blocks that are nested too deeply, and for a step that Ascend C cannot express.
/// In the last case the error names the line of the kernel.
pub fn kernel(program: &Program) -> Result<String, String> {
    let name = &program.name;
    if is_reserved(name) {
        return Err(format!(
            "no function of Ascend C can be called `{name}`, which is a word of C++ or of its headers: give the kernel another name"
        ));
    }
    source(program)
}

/// Returns the source of a kernel with a good name.
fn source(program: &Program) -> Result<String, String> {
    program.validate()?;
    nesting(program)?;
    let program = folded(program);
    let mut printer = Printer::new(&program);
    let text = printer.file();
    match printer.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(text),
    }
}

fn nesting(program: &Program) -> Result<(), String> {
    let mut depths = vec![0; program.blocks.len()];
    for (at, block) in program.blocks.iter().enumerate() {
        for inner in block.iter().flat_map(|node| super::uses::blocks_of(&node.step)) {
            depths[inner.0 as usize] = depths[at] + 1;
        }
    }
    match depths.into_iter().max() {
        Some(depth) if depth > DEEPEST => {
            Err(format!("blocks are nested {depth} deep; nest at most {DEEPEST}"))
        }
        _ => Ok(()),
    }
}

impl<'a> Printer<'a> {
    fn file(&mut self) -> String {
        let program = self.program;
        let mut parameters = Vec::new();
        for (at, parameter) in program.parameters.iter().enumerate() {
            let name = self.names.give(Thing::Parameter(at as u32), &parameter.name);
            parameters.push(format!("GM_ADDR {name}"));
        }
        parameters.extend(["GM_ADDR workspace".to_owned(), "GM_ADDR tiling".to_owned()]);
        for (at, view) in program.views.iter().enumerate() {
            self.names.give(Thing::View(at as u32), &view.name);
        }
        self.tensors();
        self.block(0);
        let body = std::mem::take(&mut self.text);

        let mut file = Text::default();
        if let Some(from) = program.files.first() {
            file.comment(&format!("Printed from the kernel {} in {from}.", program.name));
        }
        file.line("#include \"kernel_operator.h\"");
        if !program.clients.is_empty() {
            file.line("#include \"lib/hccl/hccl.h\"");
        }
        if !program.matmuls.is_empty() {
            file.line("#include \"lib/matmul_intf.h\"");
        }
        if program.tiling.is_some() {
            file.line(&format!("#include \"{}\"", tiling_file(program)));
        }
        file.blank();
        file.line("using namespace AscendC;");
        file.blank();
        self.types(&mut file);
        for helper in &self.helpers {
            for line in helper.source().lines() {
                match line.strip_prefix("    ") {
                    Some(line) => file.line(&format!("    {line}")),
                    None => file.line(line),
                }
            }
            file.blank();
        }
        for function in std::mem::take(&mut self.functions) {
            function.print(&mut file);
        }
        let head = format!(
            "extern \"C\" __global__ __aicore__ void {}({})",
            program.name,
            parameters.join(", ")
        );
        file.comment(&program.doc);
        file.line(&head);
        file.line("{");
        let mut prologue = Text::indented(1);
        self.prologue(&mut prologue);
        file.append(prologue);
        file.append(self.view_tensors());
        file.append(body);
        file.line("}");
        file.finish()
    }

    /// Prints the kernel type and the tiling macros, which the build reads. Then prints the
    /// workspace and the `TPipe`, which the rest of the kernel uses.
    fn prologue(&self, text: &mut Text) {
        let program = self.program;
        text.line(&format!("KERNEL_TASK_TYPE_DEFAULT({});", program.mix.ascend_c()));
        if let Some(tiling) = &program.tiling {
            let name = tiling_name(tiling);
            text.line(&format!("REGISTER_TILING_DEFAULT({name});"));
            text.line(&format!("GET_TILING_DATA_WITH_STRUCT({name}, tilingData, tiling);"));
        }
        if program.workspace {
            text.line("GM_ADDR userWorkspace = GetUserWorkspace(workspace);");
        }
        if self.pipe {
            text.line("TPipe pipe;");
        }
        text.blank();
    }

    /// Prints tensors over the parameters that the cores themselves read or write.
    fn tensors(&mut self) {
        let mut used = BTreeSet::new();
        for step in self.program.blocks.iter().flatten().map(|node| &node.step) {
            if !matches!(step, Step::Hccl(_)) {
                used.extend(super::uses::places_of(step).iter().filter_map(
                    |place| match place.base {
                        Base::Parameter(at) => Some(at),
                        _ => None,
                    },
                ));
            }
        }
        for at in used {
            let parameter = &self.program.parameters[at as usize];
            let ty = parameter.number.ascend_c();
            let address = self.name(Thing::Parameter(at));
            let name = self.names.give(Thing::Global(at), &format!("{}_gm", parameter.name));
            self.text.line(&format!("GlobalTensor<{ty}> {name};"));
            self.text.line(&format!(
                "{name}.SetGlobalBuffer(reinterpret_cast<__gm__ {ty}*>({address}));"
            ));
        }
        self.text.blank();
    }

    fn block(&mut self, block: usize) {
        self.steps(block, 0..self.program.blocks[block].len());
    }

    /// Prints some steps of a block. The steps of a call become a function where possible.
    pub(super) fn steps(&mut self, block: usize, steps: Range<usize>) {
        let nodes = &self.program.blocks[block];
        let mut next = steps.start;
        while next < steps.end {
            let at = next;
            if let Some(end) = self.function_at(block, at) {
                next = end;
                continue;
            }
            next += 1;
            let node = &nodes[at];
            (self.source, self.place) = (node.source, (block, at));
            let is_ours = |thing: &Thing| self.call == 0 || !matches!(thing, Thing::Matmul(_));
            let (begun, ended) = (self.uses.declared_at(block, at), self.uses.ended_at(block, at));
            let begun: Vec<_> = begun.iter().copied().filter(is_ours).collect();
            let ended: Vec<_> = ended.iter().copied().filter(is_ours).collect();
            for thing in begun {
                self.declare(thing, &node.step);
            }
            self.step(node);
            for thing in ended {
                self.end(thing);
            }
        }
    }

    /// Prints a block with its own scope of names.
    pub(super) fn scope(&mut self, block: BlockId) {
        self.names.open();
        self.block(block.0 as usize);
        self.names.close();
    }

    fn step(&mut self, node: &'a Node) {
        let mut values = Vec::new();
        values_of(self.program, &node.step, &mut values);
        for value in values {
            self.cut(value);
        }
        if let Some(memory) = self.barriers.before(self.program, &node.step) {
            let thing = match memory {
                LocalBlock::Tensor(local) => Thing::Local(local),
                LocalBlock::Scratch(scratch) => Thing::Scratch(scratch),
            };
            let name = self.name(thing);
            self.text.noted("PipeBarrier<PIPE_V>();", &format!("vectors before have used {name}"));
        }
        match &node.step {
            Step::Comment(comment) => {
                self.text.blank();
                self.text.comment(comment);
            }
            Step::Name(value) => {
                let Value { of, name, .. } = &self.program.values[value.0 as usize];
                // A variable has its own name, so it needs no other one.
                if let (Some(name), None, false) =
                    (name, self.names.get(Thing::Value(*value)), matches!(of, Of::Variable(_)))
                {
                    match self.declared_alike(*value, name) {
                        Some(other) => {
                            self.names.share(Thing::Value(*value), Thing::Value(other));
                        }
                        None => self.declare_value(*value, name),
                    }
                }
            }
            Step::Set(variable, value) if self.more(*variable, *value) => {}
            Step::Set(variable, value) => {
                let text = self.initialiser(*value);
                self.assign(*variable, &text);
            }
            Step::Read(variable, read) => self.read(*variable, read),
            Step::Loop { variable, from, to, step, body } => {
                self.repeat(*variable, *from, *to, *step, *body);
            }
            Step::If { condition, then, otherwise } => {
                self.branch(*condition, *then, *otherwise);
            }
            Step::On(core, block) => {
                let core = match core {
                    Core::Aic => "if ASCEND_IS_AIC",
                    Core::Aiv => "if ASCEND_IS_AIV",
                };
                self.text.blank();
                self.text.open(core);
                self.scope(*block);
                self.text.close("");
            }
            Step::Buffer(buffer) => self.buffer(buffer),
            Step::Copy(copy) => self.copy(copy),
            Step::Vector(vector) => self.vector(vector),
            Step::Sync(sync) => self.sync(sync),
            Step::Matmul(multiply) => self.multiply(multiply),
            Step::Hccl(call) => self.call(call),
        }
    }

    /// Assigns a value to a variable. Values made of its old value lose their names.
    pub(super) fn assign(&mut self, variable: VariableId, text: &str) {
        let Declared { name, what } = &self.program.variables[variable.0 as usize];
        let target = self.target(Thing::Variable(variable), what.ascend_c(), name);
        self.text.line(&format!("{target} = {text};"));
        self.outdated(|changed| changed == variable);
    }

    /// Prints `sum += x`, `sum -= x` or `sum *= x` if the new value is made of the old one in this
    /// way. Returns whether it did.
    fn more(&mut self, variable: VariableId, value: ValueId) -> bool {
        let Value { of, number, .. } = &self.program.values[value.0 as usize];
        let Of::Binary(operator, a, b) = of else { return false };
        let sign = match operator {
            Binary::Add => "+=",
            Binary::Sub => "-=",
            Binary::Mul => "*=",
            _ => return false,
        };
        let own =
            matches!(self.program.values[a.0 as usize].of, Of::Variable(id) if id == variable);
        let nameless = [value, *a].iter().all(|id| self.names.get(Thing::Value(*id)).is_none());
        // C++ computes smaller types in `int` and converts when it assigns, so `+=` is not used.
        let alike = number.size() >= 4;
        let Some(target) = self.names.get(Thing::Variable(variable)).map(str::to_owned) else {
            return false;
        };
        if !own || !nameless || !alike {
            return false;
        }
        let more = if is_float(*number) { *b } else { self.without_widening(*b) };
        let more = self.operand(more, Level::Any);
        self.text.line(&format!("{target} {sign} {more};"));
        self.outdated(|changed| changed == variable);
        true
    }

    /// Drops the names of values that no longer equal the declared constant.
    pub(super) fn outdated(&mut self, changed: impl Fn(VariableId) -> bool) {
        for value in self.names.values() {
            if self.depends(value, &changed) {
                self.names.forget(Thing::Value(value));
            }
        }
    }

    fn repeat(&mut self, id: VariableId, from: ValueId, to: ValueId, step: ValueId, body: BlockId) {
        let Declared { name, what } = &self.program.variables[id.0 as usize];
        let thing = Thing::Variable(id);
        let first = self.initialiser(from);
        // The bounds of a loop are those of the moment at which the loop begins.
        let changed = self.uses.assigned(body).clone();
        let moves = |on: VariableId| on == id || changed.contains(&on);
        for (value, name) in [(to, "end"), (step, "step")] {
            if self.depends(value, moves) {
                self.names.forget(Thing::Value(value));
                self.declare_value(value, name);
            }
        }
        let kept: Vec<_> = [to, step]
            .into_iter()
            .filter_map(|value| Some((value, self.names.get(Thing::Value(value))?.to_owned())))
            .collect();
        self.names.open();
        let declared = self.names.get(thing).is_some();
        let name = match declared {
            true => self.name(thing),
            false => self.names.give(thing, name),
        };
        let ty = if declared { String::new() } else { format!("{} ", what.ascend_c()) };
        let bound =
            |printer: &mut Self, value, level| match kept.iter().find(|(id, _)| *id == value) {
                Some((_, name)) => name.clone(),
                None => printer.operand(value, level),
            };
        let end = bound(self, to, Level::Sum);
        let next = match self.is_plain(step, 1) {
            true => format!("++{name}"),
            false => {
                let step = self.without_widening(step);
                format!("{name} += {}", bound(self, step, Level::Any))
            }
        };
        self.outdated(|on| on == id || changed.contains(&on));
        self.text.open(&format!("for ({ty}{name} = {first}; {name} < {end}; {next})"));
        self.barriers.enter_loop(self.program, body);
        self.block(body.0 as usize);
        self.text.close("");
        self.names.close();
    }

    fn branch(&mut self, condition: ValueId, then: BlockId, otherwise: Option<BlockId>) {
        let program = self.program;
        let (mut condition, mut then, mut otherwise) = (condition, then, otherwise);
        let text = self.operand(condition, Level::Any);
        self.text.open(&format!("if ({text})"));
        loop {
            self.scope(then);
            let Some(other) = otherwise else { break };
            // A branch that is alone in an `else` becomes an `else if`.
            match program.blocks[other.0 as usize].as_slice() {
                [Node { step: Step::If { condition: c, then: t, otherwise: o }, .. }]
                    if self.uses.declared_at(other.0 as usize, 0).is_empty()
                        && self.heavy(*c).is_empty() =>
                {
                    (condition, then, otherwise) = (*c, *t, *o);
                    let text = self.operand(condition, Level::Any);
                    self.text.between(&format!("}} else if ({text}) {{"));
                }
                _ => {
                    self.text.between("} else {");
                    (then, otherwise) = (other, None);
                }
            }
        }
        self.text.close("");
    }
}
