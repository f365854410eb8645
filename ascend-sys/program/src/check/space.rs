//! Which arguments share memory: two of them may be given overlapping buffers, and then they are one piece of memory to every rule
//! of who uses it when.

use super::Setting;
use crate::program::Program;
use crate::step::Base;

/// Bytes of a line of a core's cache, which begins at a multiple of as many.
pub(super) const LINE: u64 = 64;

/// Where each argument lies, then the workspace: in which piece of memory, and how many bytes into it.
pub(super) struct Spaces(Vec<(usize, u128)>);

impl Spaces {
    pub(super) fn new(program: &Program, setting: &Setting) -> Self {
        let count = program.parameters.len();
        let bytes = |at: usize| match at < count {
            true => setting.parameters.get(at).copied().flatten(),
            false => setting.workspace,
        };
        let address = |at: usize| setting.addresses.get(at).copied().flatten();
        // What is not known begins at a line and shares nothing.
        let mut spaces: Vec<_> = (0..=count).map(|at| (at, 0)).collect();
        let mut known: Vec<(u64, u64, usize)> =
            (0..=count).filter_map(|at| Some((address(at)?, bytes(at).unwrap_or(0), at))).collect();
        known.sort_unstable();
        // The piece of memory that is being gathered: its number, the line it begins with, and its end.
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
        Spaces(spaces)
    }

    /// None: the window of a rank, of which other ranks know who uses it when.
    pub(super) fn of(&self, base: Base) -> Option<(usize, u128)> {
        match base {
            Base::Parameter(at) => self.0.get(at as usize).copied(),
            Base::Workspace => self.0.last().copied(),
            Base::WindowIn(..) | Base::WindowOut(..) => None,
        }
    }
}
