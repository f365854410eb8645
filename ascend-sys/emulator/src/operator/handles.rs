//! Objects of operators that callers name by a handle: endpoints, registered memory,
//! configurations, teams and windows.
//!
//! A handle is a number that is never used again. Its first byte is that of its [kind](HandleKind),
//! and no address begins with that byte. So a stale or invented handle causes the error
//! `HCCL_E_PARA` instead of a crash. For objects in [slots](crate::slots), the error has the code
//! of the runtime.

use crate::message::{Failure, refuse};
use crate::slots::HandleKind;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// All objects of a kind.
pub(crate) struct Handles<T> {
    kind: HandleKind,
    objects: Mutex<Objects<T>>,
}

struct Objects<T> {
    made: u64,
    live: BTreeMap<u64, T>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(kind: HandleKind) -> Self {
        let objects = Mutex::new(Objects { made: 0, live: BTreeMap::new() });
        Self { kind, objects }
    }

    fn objects(&self) -> MutexGuard<'_, Objects<T>> {
        lock(&self.objects)
    }

    /// Adds an object and returns its handle.
    pub(crate) fn add(&self, object: T) -> u64 {
        let mut objects = self.objects();
        objects.made += 1;
        let handle = self.kind.bits() | objects.made;
        objects.live.insert(handle, object);
        handle
    }

    /// Calls `use_it` with the object of a handle.
    pub(crate) fn with<R>(
        &self,
        handle: u64,
        use_it: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        match self.objects().live.get_mut(&handle) {
            Some(object) => use_it(object),
            None => self.stale(handle),
        }
    }

    /// Takes the object of a handle. The handle is stale from now on.
    pub(crate) fn take(&self, handle: u64) -> Result<T, Failure> {
        match self.objects().live.remove(&handle) {
            Some(object) => Ok(object),
            None => self.stale(handle),
        }
    }

    /// Takes all objects for which `gone` returns true, with their handles.
    pub(crate) fn take_all(&self, gone: impl Fn(&T) -> bool) -> Vec<(u64, T)> {
        let mut objects = self.objects();
        let live = objects.live.iter().filter(|(_, object)| gone(object));
        let handles: Vec<u64> = live.map(|(handle, _)| *handle).collect();
        let take = |handle| objects.live.remove(&handle).map(|object| (handle, object));
        handles.into_iter().filter_map(take).collect()
    }

    /// Calls `use_it` with each object.
    pub(crate) fn for_all(&self, mut use_it: impl FnMut(u64, &mut T)) {
        let mut objects = self.objects();
        objects.live.iter_mut().for_each(|(handle, object)| use_it(*handle, object));
    }

    /// Returns the first result of `ask` that is not `None`.
    pub(crate) fn find<R>(&self, ask: impl Fn(u64, &T) -> Option<R>) -> Option<R> {
        self.objects().live.iter().find_map(|(handle, object)| ask(*handle, object))
    }

    fn stale<R>(&self, handle: u64) -> Result<R, Failure> {
        let name = self.kind.name();
        if self.kind.is_kind_of(handle) {
            return refuse!(
                HCCL_E_PARA,
                "the {name} {handle:#x} is gone; do not use its handle any more"
            );
        }
        refuse!(HCCL_E_PARA, "{handle:#x} is not the handle of any {name} of this process")
    }
}
