//! One core at one step, as the rules see it.

use super::area::Area;
use super::finding::{CoreName, Report, Severity};
use super::space::{Space, Spaces};
use super::{Product, Setting};
use crate::declared::*;
use crate::flow::{Fault, Launch, Unknown, Walk};
use crate::program::Program;
use crate::show::Words;
use crate::step::{Base, Source};

/// What is the same for all cores.
pub(super) struct Ground<'a> {
    pub program: &'a Program,
    pub launch: &'a Launch,
    pub setting: &'a Setting,
    pub words: Words<'a>,
    pub spaces: Spaces,
}

/// One core at one step.
pub(super) struct View<'v, 'a> {
    pub ground: &'v Ground<'a>,
    pub walk: &'v Walk<'a>,
    pub core: CoreName,
    pub source: Source,
    pub report: &'v mut Report,
    /// What the step does to global memory.
    pub areas: Vec<Area>,
}

impl<'a> View<'_, 'a> {
    pub(super) fn product(&self) -> Product {
        self.ground.setting.product
    }

    pub(super) fn strict(&self) -> bool {
        !self.ground.setting.tolerant
    }

    pub(super) fn words(&self) -> &Words<'a> {
        &self.ground.words
    }

    /// What stops the kernel from being launched.
    pub(super) fn error(&mut self, rule: &'static str, message: String, help: impl Into<String>) {
        self.report
            .add(Severity::Error, rule, self.source, Some(self.core), || (message, help.into()));
    }

    /// What does not.
    pub(super) fn note(&mut self, rule: &'static str, message: String, help: impl Into<String>) {
        self.report
            .add(Severity::Note, rule, self.source, Some(self.core), || (message, help.into()));
    }

    /// What the product does not have.
    pub(super) fn lacks(&mut self, what: &str, instead: &str) {
        let product = self.product().name();
        self.error("product", format!("{product} has no {what}"), instead);
    }

    /// Which piece of memory a base is here, and how many bytes into it. None: that depends on data.
    pub(super) fn space(&self, base: Base) -> Option<(Space, u128)> {
        self.ground.spaces.of(base, self.walk)
    }

    /// A number of elements, turns or ranks. None has been reported.
    pub(super) fn count(&mut self, id: ValueId) -> Option<u64> {
        let found = self.walk.count(id);
        self.known(found)
    }

    /// Whatever was computed. None has been reported.
    pub(super) fn known<T>(&mut self, found: Result<T, Unknown>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(Unknown::Data) => {
                self.note(
                    "data",
                    "this depends on data that is not there yet, so it is not checked".into(),
                    "nothing to change; checked mode looks at it when it runs",
                );
                None
            }
            Err(Unknown::Fault(fault)) => {
                self.fault(&fault);
                None
            }
        }
    }

    pub(super) fn fault(&mut self, fault: &Fault) {
        let text = fault.text.clone();
        self.error("fault", text, "look at the numbers in the tiling of this launch");
    }

    /// A number in the tiling struct of this launch. None has been reported.
    pub(super) fn tiling(&mut self, offset: u64, number: crate::layout::Number) -> Option<u64> {
        let found = self.walk.tiling(offset, number).map_err(Unknown::from);
        self.known(found)
    }

    /// Rank and ranks of a client's group. None has been reported.
    pub(super) fn group(&mut self, client: ClientId) -> Option<(u32, u32)> {
        let group = self.ground.program.clients[client.0 as usize].what.group;
        let found = self.ground.launch.groups.get(group as usize).copied();
        if found.is_none() {
            let (name, given) = (self.words().client(client), self.ground.launch.groups.len());
            let message =
                format!("`{name}` is of group {group}, but the launch has {given} contexts");
            self.error("launch", message, "give the launch a communicator for each group");
        }
        found
    }
}

/// `1 buffer`, `2 buffers`.
pub(super) fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
