//! Objects that callers refer to by a handle: streams, events, contexts, notifies, communicators,
//! graphs, threads, channels.
//!
//! A handle is a slot number with a generation, packed into the pointer value. Its top bits differ
//! from those of every address that a program can map. So a stale or made-up handle is an error and
//! not a crash. Slots are in chunks that are never unmapped. So a reference stays valid for the
//! life of the process, even after the object in the slot has ended.

use crate::message::Failure;
use ascend_sys::ACL_ERROR_RT_INVALID_HANDLE;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const CHUNK: usize = 64;
const CHUNKS: usize = 4096;
/// The largest number of objects of one kind at a time.
pub(crate) const CAPACITY: usize = CHUNK * CHUNKS;

/// Defines the kinds of objects that a handle refers to. Each line is a kind: its first byte, which
/// no address has, and its name in messages.
macro_rules! handle_kinds {
    ($($kind:ident = $byte:literal, $name:literal;)*) => {
        /// The kind of object that a handle refers to, which is the first byte of the handle.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum HandleKind { $($kind = $byte),* }

        impl HandleKind {
            /// Returns the name of the object's kind in messages.
            pub(crate) fn name(self) -> &'static str {
                match self { $(HandleKind::$kind => $name),* }
            }

            /// Returns the kind in the first byte of a handle.
            fn of(handle: u64) -> Option<HandleKind> {
                match handle >> 56 {
                    $($byte => Some(HandleKind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

handle_kinds! {
    // Kinds in slots.
    Stream = 0xa1, "stream";
    Event = 0xa2, "event";
    Context = 0xa3, "context";
    Notify = 0xa4, "notify";
    Communicator = 0xa5, "communicator";
    Graph = 0xa6, "graph";
    TaskGroup = 0xa7, "task group";
    Wrapper = 0xa8, "binary";
    Binary = 0xa9, "loaded binary";
    Function = 0xaa, "function";
    Arguments = 0xab, "argument list";
    Thread = 0xac, "thread";
    Channel = 0xad, "channel";
    DataBuffer = 0xb7, "data buffer";
    ProfilingConfig = 0xb8, "configuration of the profiling";
    CountNotify = 0xb9, "counting notify";
    // Kinds of operators and kernels. Their handles are never used again.
    ChannelConfig = 0xae, "configuration of channels";
    Endpoint = 0xb0, "endpoint";
    RegisteredMemory = 0xb1, "registered memory";
    Team = 0xb2, "team";
    Window = 0xb3, "window";
    EndpointChannelConfig = 0xb4, "channel configuration";
    OpArgs = 0xb5, "argument object";
    ArgumentItem = 0xb6, "argument of a list";
    SymmetricWindow = 0xba, "symmetric window";
    PhysicalMemory = 0xc1, "physical memory";
    MemoryPool = 0xc2, "memory pool";
    GraphTask = 0xc3, "task of a graph";
}

impl HandleKind {
    /// Returns the first byte, at its place in a handle.
    pub(crate) const fn bits(self) -> u64 {
        (self as u64) << 56
    }

    /// Returns whether the first byte of a handle is that of this kind.
    pub(crate) const fn is_kind_of(self, handle: u64) -> bool {
        handle >> 56 == self as u64
    }
}

/// An object in a slot. Its index never changes. Its owner resets it when the slot is taken again.
pub(crate) trait Slotted: Sync + 'static {
    const KIND: HandleKind;
    fn new(index: u32) -> Self;
}

struct Slot<T> {
    /// Odd while the slot is taken.
    generation: AtomicU32,
    value: T,
}

pub(crate) struct Slots<T: Slotted> {
    chunks: [AtomicPtr<[Slot<T>; CHUNK]>; CHUNKS],
    high: AtomicU32,
    free: Mutex<BTreeSet<u32>>,
}

impl<T: Slotted> Slots<T> {
    pub(crate) const fn new() -> Slots<T> {
        Slots {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            high: AtomicU32::new(0),
            free: Mutex::new(BTreeSet::new()),
        }
    }

    /// Takes the lowest free slot. `prepare` makes the object ready before its handle can be found.
    /// Returns `None` if all slots are taken.
    pub(crate) fn take(
        &'static self,
        prepare: impl FnOnce(&'static T, u64),
    ) -> Option<(&'static T, u64)> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match free.pop_first() {
            Some(index) => index,
            None => {
                let index = self.high.load(Ordering::Relaxed);
                if index as usize == CAPACITY {
                    return None;
                }
                if (index as usize).is_multiple_of(CHUNK) {
                    let chunk: Box<[Slot<T>; CHUNK]> = Box::new(std::array::from_fn(|i| Slot {
                        generation: AtomicU32::new(0),
                        value: T::new(index + i as u32),
                    }));
                    self.chunks[index as usize / CHUNK].store(Box::leak(chunk), Ordering::Release);
                }
                self.high.store(index + 1, Ordering::Release);
                index
            }
        };
        let slot = self.slot(index)?;
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        let handle = pack(T::KIND, generation, index);
        prepare(&slot.value, handle);
        slot.generation.store(generation, Ordering::Release);
        Some((&slot.value, handle))
    }

    /// Makes the handle stale. Returns false if it was already stale, so that only one of two
    /// callers gets true.
    pub(crate) fn retire(&'static self, handle: u64) -> bool {
        let Some((generation, index)) = unpack(T::KIND, handle) else { return false };
        let Some(slot) = self.slot(index) else { return false };
        let next = generation.wrapping_add(1);
        generation & 1 == 1
            && slot
                .generation
                .compare_exchange(generation, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Releases a retired slot for reuse.
    pub(crate) fn recycle(&'static self, index: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).insert(index);
    }

    #[inline]
    pub(crate) fn get(&'static self, handle: u64) -> Option<&'static T> {
        let (generation, index) = unpack(T::KIND, handle)?;
        let slot = self.slot(index)?;
        (generation & 1 == 1 && slot.generation.load(Ordering::Acquire) == generation)
            .then_some(&slot.value)
    }

    /// Returns the object in a slot, whether the slot is taken or not.
    #[inline]
    pub(crate) fn at(&'static self, index: u32) -> Option<&'static T> {
        self.slot(index).map(|slot| &slot.value)
    }

    #[inline]
    fn slot(&'static self, index: u32) -> Option<&'static Slot<T>> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk pointer is null or a leaked, initialised chunk.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk[index as usize % CHUNK])
    }

    /// Returns every object in a taken slot.
    pub(crate) fn live(&'static self) -> impl Iterator<Item = &'static T> {
        (0..self.high.load(Ordering::Acquire))
            .filter_map(|index| self.slot(index))
            .filter(|slot| slot.generation.load(Ordering::Acquire) & 1 == 1)
            .map(|slot| &slot.value)
    }

    /// Returns every object in a taken slot, with its handle.
    pub(crate) fn live_handles(&'static self) -> impl Iterator<Item = (&'static T, u64)> {
        (0..self.high.load(Ordering::Acquire)).filter_map(|index| {
            let slot = self.slot(index)?;
            let generation = slot.generation.load(Ordering::Acquire);
            (generation & 1 == 1).then(|| (&slot.value, pack(T::KIND, generation, index)))
        })
    }

    /// Returns every object that was ever made, even in slots that are free now.
    pub(crate) fn all(&'static self) -> impl Iterator<Item = &'static T> {
        (0..self.high.load(Ordering::Acquire)).filter_map(|index| self.at(index))
    }
}

#[inline]
fn pack(kind: HandleKind, generation: u32, index: u32) -> u64 {
    kind.bits() | u64::from(generation) << 24 | u64::from(index)
}

#[inline]
fn unpack(kind: HandleKind, handle: u64) -> Option<(u32, u32)> {
    kind.is_kind_of(handle).then_some(((handle >> 24) as u32, handle as u32 & 0xff_ffff))
}

/// Returns the failure of a call that got an invalid handle.
#[cold]
pub(crate) fn unknown(kind: HandleKind, handle: u64) -> Failure {
    Failure::new(ACL_ERROR_RT_INVALID_HANDLE, complaint(kind, handle))
}

/// Describes what is wrong with a handle.
fn complaint(kind: HandleKind, handle: u64) -> String {
    let name = kind.name();
    match HandleKind::of(handle) {
        _ if handle == 0 => format!("the {name} is NULL; pass a handle"),
        None => format!(
            "{handle:#x} is not the handle of any {name} of this process; pass a handle that the \
             emulator returned"
        ),
        Some(what) if what == kind => {
            format!(
                "the {name} {handle:#x} was destroyed, by a call or with its device; make a new one"
            )
        }
        Some(what) => {
            let (what, name) = (with_article(what.name()), with_article(name));
            format!("{handle:#x} is the handle of {what}, not of {name}; pass a handle of {name}")
        }
    }
}

fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u32);
    impl Slotted for Thing {
        const KIND: HandleKind = HandleKind::Notify;
        fn new(index: u32) -> Thing {
            Thing(index)
        }
    }

    #[test]
    fn stale_and_foreign_handles_are_found_out() {
        static THINGS: Slots<Thing> = Slots::new();
        let (thing, handle) = THINGS.take(|_, _| ()).unwrap();
        assert_eq!(thing.0, 0);
        assert!(THINGS.get(handle).is_some());
        assert!(
            THINGS.get(0).is_none()
                && THINGS.get(handle + 1).is_none()
                && THINGS.get(0x7fff_0000_1000).is_none()
        );
        assert!(THINGS.retire(handle) && !THINGS.retire(handle));
        assert!(THINGS.get(handle).is_none());
        THINGS.recycle(0);
        let (again, second) = THINGS.take(|_, _| ()).unwrap();
        assert!(std::ptr::eq(again, thing));
        assert_ne!(second, handle);
        assert!(THINGS.get(handle).is_none());
        assert_eq!(THINGS.live().count(), 1);
    }
}
