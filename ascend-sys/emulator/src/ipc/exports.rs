//! The exports of this process, each with the processes that may import the object and those that
//! have imported it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use super::key::{ExportKey, ExportKind};
use super::news::{Granted, IpcNews, say};
use super::shared_event::{PROCESSES, SharedEvent};
use super::shared_notify::SharedNotify;
use crate::check;
use crate::counted::CountedTable;
use crate::machine;
use crate::memory::pool::{HeldRange, MemoryPool};
use crate::message::{Failure, fail};
use crate::processes::listener::has_ended;
use crate::processes::peer::{Home, Peer, random};
use ascend_sys::{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID};

/// An object that this process has exported.
pub(crate) enum ExportedThing {
    Memory {
        device: u32,
        /// The number of its allocation.
        allocation: u64,
        granted: Granted,
    },
    Event(Arc<SharedEvent>),
    Notify(Arc<SharedNotify>),
    Registered {
        pool: &'static MemoryPool,
        /// The number of its allocation in the pool.
        allocation: u64,
        granted: Granted,
    },
    /// Registered memory that only this process can have, for this reason.
    OfThisProcess(String),
    /// Physical memory, independent of the addresses at which it is mapped.
    Physical {
        device: u32,
        granted: Granted,
    },
}

struct Export {
    thing: ExportedThing,
    /// The processes that may import the object; `None` means all processes.
    permitted: Option<BTreeSet<i32>>,
    importers: Vec<Importer>,
    /// Whether the creator has destroyed the object, or its device has ended. The export stays as
    /// long as it has importers.
    has_ended: bool,
    /// A reset device does not reuse the memory before this value is dropped.
    hold: Arc<()>,
}

struct Importer {
    peer: Arc<Peer>,
    import: u64,
    /// The index of the importer among the processes of an event.
    index: usize,
}

static EXPORTS: CountedTable<u64, Export> = CountedTable::new();

impl Export {
    fn kind(&self) -> ExportKind {
        match self.thing {
            ExportedThing::Memory { .. } => ExportKind::Memory,
            ExportedThing::Event(_) => ExportKind::Event,
            ExportedThing::Notify(_) => ExportKind::Notify,
            ExportedThing::Registered { .. } | ExportedThing::OfThisProcess(_) => {
                ExportKind::Registered
            }
            ExportedThing::Physical { .. } => ExportKind::Physical,
        }
    }

    /// Grants an import. The error says why the import is refused. With the grant, returns the file
    /// of the object's words, if it has words.
    fn grant(
        &mut self,
        to: &Arc<Peer>,
        import: u64,
    ) -> Result<(Granted, Option<Arc<OwnedFd>>), String> {
        if let Some(permitted) = &self.permitted
            && !permitted.contains(&to.process)
        {
            let listed: Vec<String> = permitted.iter().take(16).map(i32::to_string).collect();
            return Err(format!(
                "process {} may not import it; permitted are [{}]",
                to.process,
                listed.join(", ")
            ));
        }
        let index = match &self.thing {
            ExportedThing::Event(event) => self.free_index(event),
            _ => 0,
        };
        let granted = match &self.thing {
            ExportedThing::Memory { device, allocation, granted } => {
                // The device may have been reset between the lookup of the allocation and its
                // export.
                let (bytes, memory) = (granted.memory(), &machine::device_slot(*device).memory);
                let is_still = |it: Range<usize>| memory.is_still(*allocation, it.start, it.len());
                bytes.map_or(Ok(()), is_still)?;
                self.written_by_others();
                (granted.clone(), None)
            }
            ExportedThing::Registered { pool, allocation, granted } => {
                let is_still = |it: Range<usize>| pool.is_still(*allocation, it.start, it.len());
                granted.memory().map_or(Ok(()), is_still)?;
                self.written_by_others();
                (granted.clone(), None)
            }
            // The memory stays until its export has ended.
            ExportedThing::Physical { granted, .. } => {
                self.written_by_others();
                (granted.clone(), None)
            }
            // No other process can have this memory.
            ExportedThing::OfThisProcess(why) => {
                return Ok((Granted::OfItsProcess(why.clone()), None));
            }
            ExportedThing::Event(_) if index >= PROCESSES => {
                return Err(format!(
                    "{} processes have imported the event; destroy the event in one of them first",
                    PROCESSES - 1
                ));
            }
            ExportedThing::Event(event) => {
                let file = event.file().map_err(|e| e.to_string())?;
                (Granted::Event { index }, Some(file))
            }
            ExportedThing::Notify(notify) => {
                let file = notify.file().map_err(|e| e.to_string())?;
                (Granted::Notify, Some(file))
            }
        };
        self.importers.push(Importer { peer: Arc::clone(to), import, index });
        self.tell_importers();
        Ok(granted)
    }

    /// Returns the addresses of exported memory; `None` if the object is not memory.
    fn memory(&self) -> Option<Range<usize>> {
        match &self.thing {
            ExportedThing::Memory { granted, .. }
            | ExportedThing::Registered { granted, .. }
            | ExportedThing::Physical { granted, .. } => granted.memory(),
            _ => None,
        }
    }

    /// Notes that another process can write the memory from now on.
    fn written_by_others(&self) {
        if let Some(memory) = self.memory() {
            check::written_by_others(memory.start);
        }
    }

    /// Returns an index for a new importer of an event. No importer has this index, and no importer
    /// that had it has ended. Returns [`PROCESSES`] if there is no such index.
    fn free_index(&self, event: &SharedEvent) -> usize {
        let is_free = |index: &usize| {
            !event.has_lost(*index) && self.importers.iter().all(|known| known.index != *index)
        };
        (1..PROCESSES).find(is_free).unwrap_or(PROCESSES)
    }

    fn tell_importers(&self) {
        if let ExportedThing::Event(event) = &self.thing {
            event.set_importers(self.importers.iter().map(|one| Arc::clone(&one.peer)).collect());
        }
    }

    /// Returns the processes that have imported the object and still run.
    fn living_importers(&self) -> Vec<u32> {
        let living = self.importers.iter().filter(|one| !has_ended(&one.peer));
        let all: BTreeSet<u32> = living.map(|one| one.peer.home.process).collect();
        all.into_iter().collect()
    }
}

/// Exports an object, from the process with the address `home`. If `permitted` is true, only
/// [permitted](permit) processes may import it.
pub(crate) fn export(home: Home, thing: ExportedThing, permitted: bool) -> ExportKey {
    let permitted = permitted.then(BTreeSet::new);
    let (importers, hold) = (Vec::new(), Arc::new(()));
    let export = Export { thing, permitted, importers, has_ended: false, hold };
    let mut exports = EXPORTS.lock();
    loop {
        let key = ExportKey::new(export.kind(), home, random());
        if let std::collections::btree_map::Entry::Vacant(place) = exports.entry(key.number) {
            place.insert(export);
            return key;
        }
    }
}

/// Permits processes to import an object. Returns an error if there is no export with this number.
pub(crate) fn permit(number: u64, processes: &[i32]) -> Result<(), Failure> {
    match EXPORTS.lock().get_mut(&number).filter(|export| !export.has_ended) {
        Some(export) => {
            // If all processes may import it, a list changes nothing.
            if let Some(permitted) = &mut export.permitted {
                permitted.extend(processes);
            }
            Ok(())
        }
        None => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "nothing is exported by this key any more; export the object again"
        ),
    }
}

/// Ends an export of memory. Returns an error if a process has imported the memory and still runs.
pub(crate) fn close_memory(number: u64) -> Result<(), Failure> {
    let mut exports = EXPORTS.lock();
    let Some(export) = exports.get(&number).filter(|export| !export.has_ended) else {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the export of this key has ended already: it was closed, or its device was reset; \
             close each export once"
        );
    };
    let importers = export.living_importers();
    if !importers.is_empty() {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the memory is imported by {}; let the importers close first",
            listed(&importers)
        );
    }
    exports.remove(&number);
    Ok(())
}

fn listed(processes: &[u32]) -> String {
    let listed: Vec<String> = processes.iter().map(u32::to_string).collect();
    format!("process {}", listed.join(", "))
}

/// Ends the exports of an allocation that is to be freed. If a process has imported the memory,
/// returns an error that names the importers.
pub(crate) fn end_of_allocation(
    device: u32,
    allocation: impl FnOnce() -> Option<u64>,
) -> Result<(), String> {
    if EXPORTS.is_empty() {
        return Ok(());
    }
    let Some(number) = allocation() else { return Ok(()) };
    let mut exports = EXPORTS.lock();
    let is_it = |export: &Export| {
        matches!(export.thing, ExportedThing::Memory { device: its, allocation, .. }
            if (its, allocation) == (device, number))
    };
    for export in exports.values().filter(|export| is_it(export)) {
        let importers = export.living_importers();
        if !importers.is_empty() {
            return Err(format!(
                "it is imported by {}; call aclrtIpcMemClose there first",
                listed(&importers)
            ));
        }
    }
    exports.retain(|_, export| !is_it(export));
    Ok(())
}

/// Ends the exports of memory and of physical memory of these devices, and notifies their
/// importers. An importer answers as soon as its operations do not reach the memory any more.
pub(crate) fn end_on(devices: &Range<u32>) {
    if EXPORTS.is_empty() {
        return;
    }
    let mut exports = EXPORTS.lock();
    for (number, export) in exports.iter_mut().filter(|(_, export)| !export.has_ended) {
        let is_on = matches!(
            &export.thing,
            ExportedThing::Memory { device, .. } | ExportedThing::Physical { device, .. }
                if devices.contains(device)
        );
        if is_on {
            export.has_ended = true;
            for Importer { peer, .. } in &export.importers {
                say(peer, IpcNews::Withdrawn { number: *number }, None);
            }
        }
    }
    exports.retain(|_, export| !(export.has_ended && export.importers.is_empty()));
}

/// Returns the exported allocations of a device, and all registered memory, that importers may
/// still reach.
pub(crate) fn held_on(device: u32) -> Vec<HeldRange> {
    held(|thing| match thing {
        ExportedThing::Memory { device: its, .. } => *its == device,
        // The addresses of registered memory show its device.
        thing => matches!(thing, ExportedThing::Registered { .. }),
    })
}

/// Returns the registered memory that importers may still reach. A free does not wait for the
/// importers. Instead, the bytes are not reused before the importers have released them.
pub(crate) fn held_registered() -> Vec<HeldRange> {
    held(|thing| matches!(thing, ExportedThing::Registered { .. }))
}

fn held(which: impl Fn(&ExportedThing) -> bool) -> Vec<HeldRange> {
    if EXPORTS.is_empty() {
        return Vec::new();
    }
    let exports = EXPORTS.lock();
    let held = exports.values().filter(|it| !it.importers.is_empty() && which(&it.thing));
    let range = |export: &Export| {
        Some(HeldRange { bytes: export.memory()?, hold: Arc::downgrade(&export.hold) })
    };
    held.filter_map(range).collect()
}

/// Ends the registration of memory, and notifies its importers. An importer answers as soon as its
/// operations do not reach the memory any more.
pub(crate) fn withdraw(number: u64) {
    let mut exports = EXPORTS.lock();
    let Some(export) = exports.get_mut(&number) else { return };
    export.has_ended = true;
    for Importer { peer, .. } in &export.importers {
        say(peer, IpcNews::Withdrawn { number }, None);
    }
    if export.importers.is_empty() {
        exports.remove(&number);
    }
}

/// Returns a reference that lives as long as an export, or an importer of it.
pub(crate) fn hold_of(number: u64) -> Weak<()> {
    EXPORTS.lock().get(&number).map_or_else(Weak::new, |export| Arc::downgrade(&export.hold))
}

/// Ends the export of an object that its creator has destroyed. The export stays as long as a
/// process has imported the object.
pub(crate) fn end(number: u64) {
    let mut exports = EXPORTS.lock();
    if let Some(export) = exports.get_mut(&number) {
        export.has_ended = true;
        if export.importers.is_empty() {
            exports.remove(&number);
        }
    }
}

impl SharedEvent {
    /// Returns the key by which other processes import the event, and exports the event first if it
    /// is not exported.
    pub(crate) fn export(self: &Arc<Self>, home: Home) -> Result<ExportKey, Failure> {
        if self.is_imported() {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "the event belongs to another process, and only that process can export it; call \
                 this function there"
            );
        }
        let new = || export(home, ExportedThing::Event(Arc::clone(self)), false);
        Ok(*self.key.get_or_init(new))
    }

    /// Ends this process's side of the event, whose handle is destroyed.
    pub(crate) fn close(&self) {
        if !self.is_imported() {
            self.set_closed();
        }
        if let Some(key) = self.key.get() {
            end(key.number);
        }
    }
}

/// Handles the request of a process to import an object.
pub(super) fn want(from: &Arc<Peer>, ask: u64, kind: ExportKind, number: u64) {
    let mut exports = EXPORTS.lock();
    let granted = match exports.get_mut(&number) {
        Some(export) if !export.has_ended && export.kind() == kind => export.grant(from, ask),
        _ => Err(format!("{} is not exported by this key any more; export it again", kind.name())),
    };
    drop(exports);
    let (answer, file) = match granted {
        Ok((granted, file)) => (Ok(granted), file),
        Err(why) => (Err(why), None),
    };
    say(from, IpcNews::Answer { ask, answer }, file);
}

/// Handles the request of a process to end an import.
pub(super) fn end_import(from: &Arc<Peer>, ask: u64, import: u64, number: u64) {
    leave(|known, importer| {
        known == number && importer.import == import && importer.peer.home == from.home
    });
    say(from, IpcNews::Answer { ask, answer: Ok(Granted::Ended) }, None);
}

/// Ends the imports of a process that is gone.
pub(super) fn lose(lost: &Arc<Peer>) {
    if !EXPORTS.is_empty() {
        let theirs = |importer: &Importer| importer.peer.home == lost.home;
        let mut events = Vec::new();
        for export in EXPORTS.lock().values() {
            if let ExportedThing::Event(event) = &export.thing {
                let lost = export.importers.iter().filter(|one| theirs(one));
                events.extend(lost.map(|importer| (Arc::clone(event), importer.index)));
            }
        }
        for (event, index) in events {
            event.lose(index, lost.home.process);
        }
        leave(|_, importer| theirs(importer));
    }
}

fn leave(goes: impl Fn(u64, &Importer) -> bool) {
    let mut exports = EXPORTS.lock();
    exports.retain(|number, export| {
        let before = export.importers.len();
        export.importers.retain(|importer| !goes(*number, importer));
        if export.importers.len() != before {
            export.tell_importers();
        }
        !(export.has_ended && export.importers.is_empty())
    });
}

/// Handles a ring of this process's doorbell: importers of its events may need to wake one another.
pub(super) fn relay() {
    if !EXPORTS.is_empty() {
        let events: Vec<Arc<SharedEvent>> = EXPORTS
            .lock()
            .values()
            .filter_map(|export| match &export.thing {
                ExportedThing::Event(event) => Some(Arc::clone(event)),
                _ => None,
            })
            .collect();
        events.iter().for_each(|event| event.relay());
    }
}
