//! Places in global memory.

use serde::{Deserialize, Serialize};

use crate::declared::{ClientId, ValueId};

/// A place in global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The memory that contains the place.
    pub base: Base,
    /// The offset from the start of that memory, in elements of the base. In the workspace and in
    /// windows it is in bytes.
    pub offset: ValueId,
}

/// Memory that a kernel receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Base {
    /// An argument, by number.
    Parameter(u32),
    /// The user's part of the workspace, as bytes.
    Workspace,
    /// The input window of a rank (`GetWindowsInAddr`), as bytes.
    WindowIn(ClientId, ValueId),
    /// The output window of a rank (`GetWindowsOutAddr`), as bytes.
    WindowOut(ClientId, ValueId),
}
