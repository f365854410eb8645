//! Memory of a device, exported to other processes and imported from them.
//!
//! Imported memory is an allocation of the same card in this process, at addresses of this
//! process's range of device memory. Copies, operators and errors treat it like any other
//! allocation. A program ends an import by its key.

use std::ops::Range;
use std::sync::Arc;

use super::ask::Imported;
use super::exports::{ExportedThing, export};
use super::key::{ExportKey, ExportKind};
use super::news::Granted;
use crate::counted::CountedTable;
use crate::later;
use crate::machine::foreign::{ForeignMemory, ForeignPlace, card_of, is_foreign, is_outside};
use crate::machine::{self, Device};
use crate::memory::pool::PAGE;
use crate::memory::{MemoryPlace, place_of, window};
use crate::message::{Failure, fail};
use crate::processes::peer::{Home, Peer};
use crate::progress::are_complete;
use crate::stream::unfinished_on;
use ascend_sys::{
    ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_INVALID_DEVICEID,
    ACL_ERROR_RT_IPC_ERROR, ACL_ERROR_RT_PARAM_INVALID,
};

/// Memory that this process has imported.
struct ImportedMemory {
    imported: Imported,
    memory: ForeignMemory,
    /// The device of this process that is the same card.
    device: &'static Device,
    /// The device that was current when the memory was imported.
    user: u32,
}

/// The imports, by exporter and number; `None` while an import is being made.
static IMPORTS: CountedTable<(Home, u64), Option<ImportedMemory>> = CountedTable::new();

/// Exports `size` bytes at an address. If `permitted` is true, only processes that were permitted
/// may import them.
pub(crate) fn export_memory(
    home: Home,
    address: usize,
    size: usize,
    permitted: bool,
) -> Result<ExportKey, Failure> {
    let invalid = |text: String| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text);
    let device = match place_of(address).map_err(invalid)? {
        MemoryPlace::Device(id) => machine::device_in_use(id)
            .map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("devPtr: {text}")))?,
        MemoryPlace::Pinned | MemoryPlace::Pageable => {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "devPtr: {address:#x} is not device memory; pass memory of aclrtMalloc"
            );
        }
    };
    let found = device.memory.find(address, size);
    let (start, end) = found.map_err(|text| invalid(format!("devPtr: {text}")))?;
    if is_foreign(address) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "devPtr: {address:#x} is imported; export it in the process that owns it"
        );
    }
    if is_outside(address) {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "devPtr: {address:#x} is memory that aclrtMapMem has mapped; export its physical \
             memory with aclrtMemExportToShareableHandle"
        );
    }
    if !address.is_multiple_of(PAGE) || end - start < PAGE {
        return fail!(
            ACL_ERROR_RT_ADDR_UNALIGNED,
            "devPtr is {address:#x}, in an allocation of {} bytes; pass memory that begins at a \
             page of {PAGE} bytes, as every allocation of at least a page does",
            end - start
        );
    }
    let allocation = device.memory.number_of(address, size).map_err(invalid)?;
    let first = device.settings().map_or(0, |settings| settings.first);
    let nominal = window::reserved().map_or(0, |windows| windows.nominal);
    let granted =
        Granted::Memory { card: device.id - first, start: address - nominal, bytes: size };
    let thing = ExportedThing::Memory { device: device.id, allocation, granted };
    Ok(export(home, thing, permitted))
}

/// Imports memory for a device, and waits for the answer of the exporter. Returns the address of
/// the memory, and the device of this process that is the same card.
pub(crate) fn import_memory(
    peer: &Arc<Peer>,
    key: &ExportKey,
    user: &'static Device,
) -> Result<(usize, &'static Device), Failure> {
    let name = (key.home, key.number);
    {
        let mut imports = IMPORTS.lock();
        if imports.contains_key(&name) {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "this process has imported it already; end that import with aclrtIpcMemClose"
            );
        }
        imports.insert(name, None);
    }
    let made = bring(peer, key, user);
    let mut imports = IMPORTS.lock();
    let is_wanted = imports.remove(&name).is_some();
    let found = made.map(|made| {
        let found = (made.memory.addresses().start, made.device);
        imports.insert(name, Some(made));
        found
    });
    drop(imports);
    if found.is_ok() && !is_wanted {
        withdrawn(peer, key.number);
        return fail!(
            ACL_ERROR_RT_IPC_ERROR,
            "the exporter withdrew the memory during the import; export it again"
        );
    }
    found
}

fn bring(
    peer: &Arc<Peer>,
    key: &ExportKey,
    user: &'static Device,
) -> Result<ImportedMemory, Failure> {
    let failed = |text: String| Failure::new(ACL_ERROR_RT_IPC_ERROR, text);
    let process = key.home.process;
    let (imported, granted, _) =
        Imported::want(peer, ExportKind::Memory, key.number).map_err(failed)?;
    let Granted::Memory { card, start, bytes } = granted else {
        return fail!(
            ACL_ERROR_RT_IPC_ERROR,
            "process {process} sent an unexpected answer; use one version of the emulator in all \
             processes"
        );
    };
    let device =
        card_of(user, card).map_err(|text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text))?;
    if bytes == 0 || !start.is_multiple_of(PAGE) {
        return fail!(
            ACL_ERROR_RT_IPC_ERROR,
            "process {process} has sent an invalid range; use one version of the emulator in all \
             processes"
        );
    }
    let file = peer.file(start, bytes).map_err(|e| failed(format!("process {process}: {e}")))?;
    let place = ForeignPlace::Device(device);
    let memory =
        ForeignMemory::new(place, (file, start), bytes, process, "aclrtIpcMemImportByKey")?;
    Ok(ImportedMemory { imported, memory, device, user: user.id })
}

/// Ends an import of this process, and waits until the exporter has confirmed the end. Returns
/// `None` if there is no import by this key, or if the import is still being made.
pub(crate) fn close_import(key: &ExportKey) -> Option<Result<(), Failure>> {
    let found = {
        let mut imports = IMPORTS.lock();
        let name = (key.home, key.number);
        // An import that is still being made stays in the table.
        imports.get(&name)?.as_ref()?;
        let found = imports.remove(&name).flatten();
        found?
    };
    let imported = found.end("aclrtIpcMemClose");
    let peer = Arc::clone(&imported.peer);
    match imported.close() {
        Ok(()) => Some(Ok(())),
        // The exporter is gone, so it need not be notified.
        Err(_) if peer.gone().is_some() => Some(Ok(())),
        Err(why) => Some(fail!(ACL_ERROR_RT_IPC_ERROR, "the import is closed here, but {why}")),
    }
}

impl ImportedMemory {
    /// Ends the import: no new operation reaches the memory. The caller notifies the exporter by
    /// the returned value.
    fn end(self, by: &'static str) -> Imported {
        self.memory.end(by);
        self.imported
    }
}

/// Handles the report of an exporter that memory has ended.
pub(super) fn withdrawn(from: &Arc<Peer>, number: u64) {
    let mut imports = IMPORTS.lock();
    let found = imports.remove(&(from.home, number)).flatten();
    drop(imports);
    if let Some(found) = found {
        let_go(found.end("the process that exported it, whose device was reset"));
    }
}

/// Notifies the exporter of the end as soon as no queued task of this process reaches the memory.
/// Then the exporter reuses the memory.
pub(super) fn let_go(imported: Imported) {
    let (mut until, mut imported) = (unfinished_on(0..u32::MAX), Some(imported));
    later::until_done(move || {
        let is_done = are_complete(&mut until);
        if is_done {
            drop(imported.take());
        }
        is_done
    });
}

/// Ends the imports of devices that end, and the imports from their cards.
pub(crate) fn end_imports_on(devices: &Range<u32>) {
    if IMPORTS.is_empty() {
        return;
    }
    let mut imports = IMPORTS.lock();
    let is_on = |import: &ImportedMemory| {
        devices.contains(&import.device.id) || devices.contains(&import.user)
    };
    let names: Vec<(Home, u64)> = imports
        .iter()
        .filter(|(_, import)| import.as_ref().is_some_and(is_on))
        .map(|(name, _)| *name)
        .collect();
    let ended: Vec<_> = names.iter().filter_map(|name| imports.remove(name).flatten()).collect();
    drop(imports);
    ended.into_iter().for_each(|found| let_go(found.end("the end of its device")));
}

fn with_import<T>(address: usize, found: impl FnOnce(&ImportedMemory) -> T) -> Option<T> {
    if IMPORTS.is_empty() {
        return None;
    }
    let imports = IMPORTS.lock();
    let mut all = imports.values().flatten();
    all.find(|import| import.memory.addresses().contains(&address)).map(found)
}

/// Returns whether an address is in memory that was imported from another card.
#[inline]
pub(crate) fn is_across(address: usize) -> bool {
    with_import(address, |import| import.device.id != import.user) == Some(true)
}

/// Returns an error for a copy that is not possible with memory of another card. `to` and `from`
/// are the two ends with their places. `is_between_devices` is true if the kind of the copy is
/// device to device. `at_once` is true if the copy runs on the calling thread, without a stream.
pub(crate) fn may_copy(
    to: (usize, MemoryPlace),
    from: (usize, MemoryPlace),
    is_between_devices: bool,
    at_once: bool,
) -> Result<(), Failure> {
    if IMPORTS.is_empty() || !(is_across(to.0) || is_across(from.0)) {
        return Ok(());
    }
    let is_device = |place| matches!(place, MemoryPlace::Device(_));
    let what = match () {
        () if !(is_device(to.1) && is_device(from.1)) => "there is no copy between it and the host",
        () if !is_between_devices => "the direction is not inferred from its address",
        () if at_once && to.1 == from.1 => {
            "a copy within its card is done in a stream, by the asynchronous call"
        }
        () => return Ok(()),
    };
    fail!(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the memory was imported from another card, and {what}; copy it to memory of your own \
         device, with the kind ACL_MEMCPY_DEVICE_TO_DEVICE"
    )
}
