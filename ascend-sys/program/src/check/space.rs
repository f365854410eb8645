//! Finds the arguments that share memory. If two arguments have overlapping buffers, every rule
//! about the order of uses treats them as one piece of memory. A window of a rank is a piece of
//! memory too.

use super::Setting;
use crate::declared::ClientId;
use crate::flow::Walk;
use crate::program::Program;
use crate::step::Base;

/// The size of a line of a core's cache, in bytes. A line begins at a multiple of this number.
pub(super) const LINE: u64 = 64;

/// A piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    /// The memory of an argument, and of the arguments that share memory with it. The number is
    /// that of the first of these arguments.
    Arguments(usize),
    /// A window: the group, the rank that owns the window, and whether it is the window for output.
    /// The accesses of other ranks to it are not known here.
    Window(u32, u64, bool),
}

/// The piece of memory of each argument and then of the workspace, each with the offset in that
/// piece, in bytes. Windows are separate pieces.
pub(super) struct Spaces {
    arguments: Vec<(usize, u128)>,
    /// The group of each client.
    groups: Vec<u32>,
}

impl Spaces {
    pub(super) fn new(program: &Program, setting: &Setting) -> Self {
        let count = program.parameters.len();
        let bytes = |at: usize| match at < count {
            true => setting.parameters.get(at).copied().flatten(),
            false => setting.workspace,
        };
        let address = |at: usize| setting.addresses.get(at).copied().flatten();
        // A buffer with an unknown address begins at a line and shares no memory.
        let mut spaces: Vec<_> = (0..=count).map(|at| (at, 0)).collect();
        let mut known: Vec<(u64, u64, usize)> =
            (0..=count).filter_map(|at| Some((address(at)?, bytes(at).unwrap_or(0), at))).collect();
        known.sort_unstable();
        // The piece of memory that is being collected: its number, the start of its first line, and
        // its end.
        let mut open: Option<(usize, u64, u64)> = None;
        for (start, bytes, at) in known {
            let end = start.saturating_add(bytes);
            let (space, first, last) = match open {
                Some((space, first, last)) if start < last => (space, first, last.max(end)),
                _ => (at, start - start % LINE, end),
            };
            spaces[at] = (space, u128::from(start - first));
            open = Some((space, first, last));
        }
        let groups = program.clients.iter().map(|client| client.what.group).collect();
        Spaces { arguments: spaces, groups }
    }

    /// Returns the piece of memory of an argument.
    pub(super) fn argument(&self, at: usize) -> Option<Space> {
        self.arguments.get(at).map(|(space, _)| Space::Arguments(*space))
    }

    /// Returns the workspace, unless it shares memory with an argument.
    pub(super) fn workspace(&self) -> Option<Space> {
        let (at, _) = *self.arguments.last()?;
        let others = &self.arguments[..self.arguments.len() - 1];
        let alone = at == others.len() && others.iter().all(|(other, _)| *other != at);
        alone.then_some(Space::Arguments(at))
    }

    /// Returns the piece of memory that a base stands for on this core, and the offset in it, in
    /// bytes. Returns `None` if that depends on data.
    pub(super) fn of(&self, base: Base, walk: &Walk<'_>) -> Option<(Space, u128)> {
        let arguments = |(space, start): &(usize, u128)| (Space::Arguments(*space), *start);
        let window = |client: ClientId, rank, output| {
            let (group, rank) = (*self.groups.get(client.0 as usize)?, walk.count(rank).ok()?);
            Some((Space::Window(group, rank, output), 0))
        };
        match base {
            Base::Parameter(at) => self.arguments.get(at as usize).map(arguments),
            Base::Workspace => self.arguments.last().map(arguments),
            Base::WindowIn(client, rank) => window(client, rank, false),
            Base::WindowOut(client, rank) => window(client, rank, true),
        }
    }
}
