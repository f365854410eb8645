//! Prints the functions that the kernel has called as functions of the source.
//!
//! The recorder turns a call into steps of the kernel. The printer writes them as the body of a
//! function. The parameters are the named parts that the body uses and the caller has declared. Two
//! calls share a function if their bodies differ only in names; names are compared by the order in
//! which they first occur.
//!
//! The steps of a call stay in place if C++ has no function for them. That is so if they return a
//! queue, a client, a product or more than one named part, and if the kernel ends when one of them
//! fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::names::{Thing, upper_camel};
use super::printer::{Function, Printer};
use super::text::Text;
use super::uses::{blocks_of, made_of, values_of, written};
use crate::declared::*;
use crate::step::*;

/// The greatest depth of functions that call functions. The steps of a deeper call stay in place.
const DEEPEST: usize = 32;

impl Printer<'_> {
    /// Prints a call of the function whose first step this is. Returns the index of the step after
    /// the call, or `None` if there is no function.
    pub(super) fn function_at(&mut self, block: usize, at: usize) -> Option<usize> {
        // If the steps of a call stay in place, a call within it may begin at the same step.
        while let Some((call, steps)) = self.call_at(block, at) {
            if self.call_function(block, &steps, call) {
                return Some(steps.end);
            }
        }
        None
    }

    /// Returns the outermost call that the current function made and that contains this step, with
    /// all steps of the call from here on.
    fn call_at(&self, block: usize, at: usize) -> Option<(u32, Range<usize>)> {
        let nodes = &self.program.blocks[block];
        let within = |node: &Node| {
            let around = self.program.calls_around(node.source.call).map(|(number, _)| number);
            around.take_while(|number| *number != self.call).collect::<Vec<_>>()
        };
        let outermost = within(&nodes[at]).into_iter().rev().find(|call| !self.stay.contains(call));
        let call = outermost?;
        let rest = nodes[at..].iter().take_while(|node| within(node).contains(&call));
        Some((call, at..at + rest.count()))
    }

    /// Prints the steps of a call as a function, and calls it. Returns false if the steps stay in
    /// place.
    fn call_function(&mut self, block: usize, steps: &Range<usize>, call: u32) -> bool {
        let depth = self.program.calls_around(call).take(DEEPEST + 1).count();
        let changed = self.changed(block, steps);
        let result = if depth > DEEPEST { None } else { self.result(block, steps, &changed) };
        let Some(result) = result else {
            self.stay.insert(call);
            return false;
        };
        // The caller declares the product, and also ends it.
        let products = self.products(block, steps);
        for (at, product) in &products {
            self.declare(*product, &self.program.blocks[block][*at].step);
        }
        let outer = self.names.clone();
        let text = std::mem::replace(&mut self.text, Text::indented(1));
        let around = std::mem::replace(&mut self.call, call);
        self.names.open();
        self.steps(block, steps.clone());
        let result = result.map(|thing| (thing, self.type_of(thing), self.name(thing)));
        if let Some((_, _, name)) = &result {
            self.text.line(&format!("return {name};"));
        }
        let given = self.names.opened();
        let mut body = std::mem::replace(&mut self.text, text);
        (self.names, self.call) = (outer, around);

        let mut inner = self.constants(&mut body);
        inner.extend(given.iter().map(|(_, name)| name.clone()));
        let (arguments, parameters) = self.parameters(&body, &inner, &changed);
        for (thing, name) in &given {
            inner.extend(self.plain(&mut body, *thing, name));
        }
        let ty = result.as_ref().map_or("void", |(_, ty, _)| ty).to_owned();
        let renamed: BTreeSet<&str> = inner.iter().chain(&arguments).map(String::as_str).collect();
        let types = parameters.iter().map(|(ty, _)| &**ty).collect::<Vec<_>>().join(", ");
        let says = format!("{ty}({types}) {}", numbered(&body, &renamed));
        let name = self.function(call, &ty, &parameters, says, body);
        self.outdated(|variable| changed.contains(&variable));
        let called = format!("{name}({})", arguments.join(", "));
        match result {
            Some((thing, ty, _)) => {
                let wanted = self.recorded_name(thing);
                let target = match thing {
                    Thing::Value(_) => {
                        let name = self.names.give(thing, &wanted);
                        format!("const {ty} {name}")
                    }
                    // The variable gets its only value later.
                    Thing::Variable(id) if !changed.contains(&id) => {
                        format!("{ty} {}", self.names.give(thing, &wanted))
                    }
                    _ => self.target(thing, &ty, &wanted),
                };
                self.text.line(&format!("{target} = {called};"));
            }
            None => self.text.line(&format!("{called};")),
        }
        for (_, product) in products {
            if self.uses.home(product).is_some_and(|home| steps.contains(&home.last)) {
                self.end(product);
            }
        }
        true
    }

    /// Returns the plain name of a named part inside a function, where only the parameters are
    /// visible. If a part is called `rows2` because the caller has `rows`, it is called `rows`
    /// there.
    fn plain(&self, body: &mut Text, thing: Thing, name: &str) -> Option<String> {
        let wanted = self.names.wanted(&self.recorded_name(thing));
        let names = |line: &str, of: &str| identifiers(line).any(|(_, name)| name == of);
        let is_free = name != wanted
            && name.starts_with(&wanted)
            && !self.names.is_reserved(&wanted)
            && !body.code().any(|code| names(code, &wanted));
        is_free.then(|| {
            body.rename(|line| replaced(line, |other| (other == name).then(|| wanted.clone())));
            wanted
        })
    }

    /// Returns the products whose first use is among the steps.
    fn products(&self, block: usize, steps: &Range<usize>) -> Vec<(usize, Thing)> {
        let declared = |at: usize| self.uses.declared_at(block, at).iter().map(move |it| (at, *it));
        let is_product = |(_, thing): &(usize, Thing)| {
            matches!(thing, Thing::Matmul(_)) && self.names.get(*thing).is_none()
        };
        steps.clone().flat_map(declared).filter(is_product).collect()
    }

    /// Returns the name of the function with this body. Adds the function if it does not exist yet.
    fn function(
        &mut self,
        call: u32,
        ty: &str,
        parameters: &[(String, String)],
        says: String,
        body: Text,
    ) -> String {
        let called = self.program.calls_around(call).next().map(|(_, call)| call.clone());
        let (function, doc) = called.map(|call| (call.function, call.doc)).unwrap_or_default();
        // The vendor's functions have names without the name of the kernel, so the two do not
        // collide.
        let wanted = format!("{}{}", upper_camel(&self.program.name), upper_camel(&function));
        let says = format!("{wanted} {says}");
        if let Some(known) = self.functions.iter().find(|known| known.says == says) {
            return known.name.clone();
        }
        let mut types = Text::default();
        self.types(&mut types);
        let mut taken = types.finish();
        taken.extend(self.program.tiling.as_ref().map(super::names::tiling_name));
        let is_taken = |name: &str| {
            taken.contains(name) || self.functions.iter().any(|known| known.name == name)
        };
        let numbers = (2_u64..).map(|number| format!("{wanted}{number}"));
        let mut names = std::iter::once(wanted.clone()).chain(numbers);
        let name = names.find(|name| !is_taken(name)).unwrap_or(wanted);
        let list = parameters.iter().map(|(ty, name)| format!("{ty} {name}")).collect::<Vec<_>>();
        let head = format!("__aicore__ inline {ty} {name}({})", list.join(", "));
        self.functions.push(Function { name: name.clone(), says, doc, head, body });
        name
    }

    /// Declares the constants of the caller that a body names before that body, because a compiler
    /// does not treat a parameter as a constant. Returns their names.
    fn constants(&mut self, body: &mut Text) -> Vec<String> {
        let named =
            |code: &str| identifiers(code).map(|(_, name)| name.to_owned()).collect::<Vec<_>>();
        let known = self.names.all().filter_map(|(name, thing)| match thing {
            Thing::Value(id) if self.is_constant(id) => Some((name.to_owned(), id)),
            _ => None,
        });
        let known: BTreeMap<String, ValueId> = known.collect();
        let mut open: Vec<String> = body.code().flat_map(named).collect();
        let mut needed = BTreeMap::new();
        while let Some(name) = open.pop() {
            let Some(id) = known.get(&name).filter(|id| !needed.contains_key(*id)) else {
                continue;
            };
            let names = self.names.clone();
            self.names.forget(Thing::Value(*id));
            let text = self.initialiser(*id);
            self.names = names;
            open.extend(named(&text));
            needed.insert(*id, (name, text));
        }
        let declared = needed.iter().map(|(id, (name, text))| {
            format!("constexpr {} {name} = {text};", self.type_of(Thing::Value(*id)))
        });
        body.put_first(1, declared.collect::<Vec<_>>());
        needed.into_values().map(|(name, _)| name).collect()
    }

    /// Returns the named parts of the caller that the body uses: their names, in order, and the
    /// types and names of the parameters.
    fn parameters(
        &self,
        body: &Text,
        inner: &[String],
        changed: &BTreeSet<VariableId>,
    ) -> (Vec<String>, Vec<(String, String)>) {
        let known: BTreeMap<&str, Thing> = self.names.all().collect();
        let (mut arguments, mut parameters) = (Vec::new(), Vec::new());
        for code in body.code() {
            for name in identifiers(code).map(|(_, name)| name) {
                if arguments.iter().any(|known| known == name)
                    || inner.iter().any(|own| own == name)
                {
                    continue;
                }
                let ty = match (known.get(name), name) {
                    (Some(Thing::Variable(id)), _) if changed.contains(id) => {
                        format!("{}&", self.type_of(Thing::Variable(*id)))
                    }
                    (Some(thing @ (Thing::Value(_) | Thing::Variable(_) | Thing::Task(_))), _) => {
                        format!("const {}", self.type_of(*thing))
                    }
                    (Some(thing @ Thing::Parameter(_)), _) => self.type_of(*thing),
                    (Some(thing), _) => format!("{}&", self.type_of(*thing)),
                    (None, "pipe") => "TPipe&".to_owned(),
                    (None, "userWorkspace" | "workspace" | "tiling") => "GM_ADDR".to_owned(),
                    (None, "tilingData") => match &self.program.tiling {
                        Some(tiling) => format!("const {}&", super::names::tiling_name(tiling)),
                        None => continue,
                    },
                    (None, _) => continue,
                };
                arguments.push(name.to_owned());
                parameters.push((ty, name.to_owned()));
            }
        }
        (arguments, parameters)
    }

    fn type_of(&self, thing: Thing) -> String {
        let program = self.program;
        let global = |number: crate::layout::Number| format!("GlobalTensor<{}>", number.ascend_c());
        match thing {
            Thing::Parameter(_) => "GM_ADDR".to_owned(),
            Thing::Global(at) => global(program.parameters[at as usize].number),
            Thing::View(at) => global(program.views[at as usize].what.number),
            Thing::Value(id) => program.values[id.0 as usize].number.ascend_c().to_owned(),
            Thing::Variable(id) => program.variables[id.0 as usize].what.ascend_c().to_owned(),
            Thing::Queue(id) => self.queue_type(id),
            Thing::Scratch(_) => "TBuf<TPosition::VECCALC>".to_owned(),
            Thing::Local(id) => {
                format!("LocalTensor<{}>", program.locals[id.0 as usize].what.ascend_c())
            }
            // The type of a parameter has all template arguments, which a variable can leave out.
            Thing::Client(id) => match self.client_type(id) {
                bare if !bare.contains('<') => format!("{bare}<>"),
                whole => whole,
            },
            Thing::Task(_) => "HcclHandle".to_owned(),
            Thing::Matmul(id) => self.matmul_type(id),
        }
    }

    fn recorded_name(&self, thing: Thing) -> String {
        let program = self.program;
        match thing {
            Thing::Value(id) => program.values[id.0 as usize].name.clone().unwrap_or_default(),
            Thing::Variable(id) => program.variables[id.0 as usize].name.clone(),
            Thing::Local(id) => program.locals[id.0 as usize].name.clone(),
            _ => String::new(),
        }
    }

    /// Returns the named part that the steps return, or `Some(None)` if they return nothing.
    /// Returns `None` if the steps must stay in place.
    #[expect(
        clippy::option_option,
        reason = "whether there is a function, and whether it returns something"
    )]
    fn result(
        &self,
        block: usize,
        steps: &Range<usize>,
        changed: &BTreeSet<VariableId>,
    ) -> Option<Option<Thing>> {
        let nodes = &self.program.blocks[block][steps.clone()];
        let ends = |step: &Step| {
            matches!(step, Step::Hccl(Hccl::Init(..) | Hccl::Configure(..) | Hccl::Prepare { .. }))
        };
        let is_silent = |node: &Node| matches!(node.step, Step::Name(_) | Step::Comment(_));
        if self.all(nodes).any(|node| ends(&node.step)) || self.keeps_product(nodes) {
            return None;
        }
        let mut given = Vec::new();
        for at in steps.clone() {
            for thing in self.uses.declared_at(block, at) {
                let leaves = self.uses.home(*thing).is_none_or(|home| home.last >= steps.end);
                match thing {
                    Thing::Matmul(_) => {}
                    Thing::Client(_) => return None,
                    Thing::Local(_) | Thing::Variable(_) if leaves => given.push(*thing),
                    _ if leaves => return None,
                    _ => {}
                }
            }
        }
        let named = nodes.iter().filter_map(|node| match node.step {
            // A variable has its own name, so it needs no other one.
            Step::Name(value) if self.variable(value).is_none() => Some(value),
            _ => None,
        });
        let named: BTreeSet<ValueId> = named.collect();
        if !named.is_empty() {
            let used = self.used_beyond(block, steps, &named);
            given.extend(named.intersection(&used).map(|value| Thing::Value(*value)));
        }
        match given[..] {
            [] if nodes.iter().all(is_silent) => None,
            [] => Some(None),
            [Thing::Value(value)]
                if self.is_constant(value) || self.depends(value, |on| changed.contains(&on)) =>
            {
                None
            }
            [one] => Some(Some(one)),
            _ => None,
        }
    }

    /// Returns whether a product is used in one inner block alone.
    fn keeps_product(&self, nodes: &[Node]) -> bool {
        let blocks = self.all(nodes).flat_map(|node| blocks_of(&node.step));
        let mut steps = blocks.flat_map(|block| {
            let block = block.0 as usize;
            (0..self.program.blocks[block].len()).map(move |at| (block, at))
        });
        steps.any(|(block, at)| {
            let declared = self.uses.declared_at(block, at);
            declared.iter().any(|thing| matches!(thing, Thing::Matmul(_)))
        })
    }

    /// Returns the values that other steps need.
    fn used_beyond(
        &self,
        block: usize,
        steps: &Range<usize>,
        named: &BTreeSet<ValueId>,
    ) -> BTreeSet<ValueId> {
        let mut open = Vec::new();
        for (other, nodes) in self.program.blocks.iter().enumerate() {
            let around = self.uses.step_around(other, block);
            if around.is_some_and(|step| steps.contains(&step)) {
                continue;
            }
            for (at, node) in nodes.iter().enumerate() {
                let is_within = other == block && steps.contains(&at);
                if !is_within && !matches!(node.step, Step::Name(_)) {
                    values_of(self.program, &node.step, &mut open);
                }
            }
        }
        // A value with a name is not made from its parts again.
        made_of(self.program, open, named)
    }

    /// Returns the variables to which the steps give a value.
    fn changed(&self, block: usize, steps: &Range<usize>) -> BTreeSet<VariableId> {
        let nodes = &self.program.blocks[block][steps.clone()];
        let written = self.all(nodes).flat_map(|node| written(&node.step));
        let variables = written.filter_map(|thing| match thing {
            Thing::Variable(variable) => Some(variable),
            _ => None,
        });
        variables.collect()
    }

    /// Returns the variable that a value reads.
    fn variable(&self, value: ValueId) -> Option<VariableId> {
        match self.program.values[value.0 as usize].of {
            Of::Variable(variable) => Some(variable),
            _ => None,
        }
    }

    /// Returns some steps, and the steps in their blocks.
    fn all<'n>(&'n self, nodes: &'n [Node]) -> impl Iterator<Item = &'n Node> {
        let mut open: Vec<&Node> = nodes.iter().collect();
        std::iter::from_fn(move || {
            let node = open.pop()?;
            for block in blocks_of(&node.step) {
                open.extend(&self.program.blocks[block.0 as usize]);
            }
            Some(node)
        })
    }
}

/// Returns the names in a line of code, each with its range. Names of members are left out.
fn identifiers(code: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + code[at..].find(is_part)?;
            let end =
                code[start..].find(|c| !is_part(c)).map_or(code.len(), |length| start + length);
            at = end;
            let before = code[..start].trim_end();
            let is_member =
                before.ends_with('.') || before.ends_with("->") || before.ends_with("::");
            if !is_member && !code[start..].starts_with(|c: char| c.is_ascii_digit()) {
                return Some((start..end, &code[start..end]));
            }
        }
    })
}

/// Returns a line in which other names replace some names.
fn replaced(line: &str, mut other: impl FnMut(&str) -> Option<String>) -> String {
    let (mut text, mut done) = (String::new(), 0);
    for (place, name) in identifiers(line) {
        if let Some(other) = other(name) {
            text.push_str(&line[done..place.start]);
            text.push_str(&other);
            done = place.end;
        }
    }
    text + &line[done..]
}

/// Returns a body in which each of these names is replaced by a number.
fn numbered(body: &Text, names: &BTreeSet<&str>) -> String {
    let mut numbers = BTreeMap::new();
    let mut number = |name: &str| {
        let next = numbers.len();
        let name = names.get(name)?;
        Some(format!("${}", numbers.entry(*name).or_insert(next)))
    };
    let lines: Vec<_> = body.code().map(|code| replaced(code, &mut number)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_members_and_numbers_are_no_identifiers() {
        let code = "x.get(tilingData.len, 0x1f, a->b, TPosition::VECIN, y2)";
        let found: Vec<_> = identifiers(code).map(|(_, name)| name).collect();
        assert_eq!(found, ["x", "tilingData", "a", "TPosition", "y2"]);
    }
}
