//! The objects that calls have made: handles by their type, and memory of devices.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The types that are handles.
pub const HANDLES: [&str; 29] = [
    "aclDataBuffer",
    "aclmdlRI",
    "aclmdlRITask",
    "aclprofConfig",
    "aclrtArgsHandle",
    "aclrtBinHandle",
    "aclrtBinary",
    "aclrtCntNotify",
    "aclrtContext",
    "aclrtDrvMemHandle",
    "aclrtEvent",
    "aclrtFuncHandle",
    "aclrtMemPool",
    "aclrtNotify",
    "aclrtParamHandle",
    "aclrtStream",
    "aclrtTaskGrp",
    "aclrtExceptionInfo",
    "ChannelHandle",
    "EndpointHandle",
    "HcclChannelConfig",
    "HcclComm",
    "HcclCommSymWindow",
    "HcclMemHandle",
    "HcommChannelConfig",
    "HcommMemHandle",
    "HcommTeamHandle",
    "HcommWindowHandle",
    "ThreadHandle",
];

/// Returns the kind of handle of an argument of this type, or `None` if the type is no handle. A
/// pointer to an opaque type has a kind, too.
pub fn kind_of(ty: &str) -> Option<&'static str> {
    let opaque = ty.trim_start_matches("*const ").trim_start_matches("*mut ");
    let is_pointer = opaque.len() < ty.len();
    HANDLES.into_iter().find(|kind| {
        let of_c = ["aclDataBuffer", "aclprofConfig", "aclrtExceptionInfo"].contains(kind);
        *kind == opaque && is_pointer == of_c
    })
}

/// Returns the kind of handle that a function writes to a place of this type, or `None` if it
/// writes no handle.
pub fn made_at(ty: &str) -> Option<&'static str> {
    kind_of(ty.strip_prefix("*mut ")?)
}

/// The handles and the memory of a process.
#[derive(Default)]
pub struct Objects(Mutex<Lists>);

/// A piece of memory.
#[derive(Clone, Copy)]
pub struct Piece {
    /// The address of the piece.
    pub at: u64,
    /// The number of bytes of the piece.
    pub bytes: u64,
    /// Whether it is pinned host memory.
    pub pinned: bool,
}

/// The lists in [`Objects`].
#[derive(Default)]
pub struct Lists {
    /// Live handles, by kind.
    pub live: BTreeMap<&'static str, Vec<u64>>,
    /// Handles of destroyed objects.
    pub gone: Vec<u64>,
    /// Memory of devices and pinned memory.
    pub memory: Vec<Piece>,
}

impl Objects {
    /// Locks the lists, for as long as the guard exists.
    pub fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a handle, unless it is 0 or already known.
    pub fn add(&self, kind: &'static str, handle: u64) {
        if handle != 0 {
            let mut lists = self.lists();
            let list = lists.live.entry(kind).or_default();
            if !list.contains(&handle) {
                list.push(handle);
            }
        }
    }

    /// Records that a handle has become invalid.
    pub fn remove(&self, kind: &str, handle: u64) {
        let mut lists = self.lists();
        if let Some(list) = lists.live.get_mut(kind)
            && let Some(at) = list.iter().position(|&other| other == handle)
        {
            list.remove(at);
            lists.gone.push(handle);
        }
    }

    /// Records memory, unless its address is 0.
    pub fn add_memory(&self, at: u64, bytes: u64, pinned: bool) {
        if at != 0 {
            self.lists().memory.push(Piece { at, bytes, pinned });
        }
    }

    /// Records that memory was freed.
    pub fn remove_memory(&self, at: u64) {
        let mut lists = self.lists();
        if let Some(index) = lists.memory.iter().position(|piece| piece.at == at) {
            lists.memory.remove(index);
            lists.gone.push(at);
        }
    }
}
