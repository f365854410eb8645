//! The names of cores, in findings and witnesses.

use std::fmt::{self, Display, Formatter};

use crate::declared::Core;
use crate::show;

/// The name of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CoreName {
    pub kind: Core,
    /// The index of the core among the cores of its kind.
    pub index: u32,
}

impl Display for CoreName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", show::kind(self.kind), self.index)
    }
}
