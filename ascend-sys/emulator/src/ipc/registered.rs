//! The imports of memory that is registered on an endpoint of another process.
//!
//! An import ends when the importer ends it or the exporter withdraws the memory. The memory stays
//! mapped until no queued task of this process reaches it. Then the exporter is notified, and may
//! reuse the memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::ask::Imported;
use super::key::ExportKind;
use super::news::{Granted, RegisteredRange};
use crate::later;
use crate::machine::Device;
use crate::machine::foreign::{ForeignMemory, ForeignPlace, card_of};
use crate::memory::pool::PAGE;
use crate::processes::peer::{Home, Peer};
use crate::progress::are_complete;
use crate::stream::unfinished_on;
use ascend_sync::lock_std as lock;

/// An import of registered memory; see the [module](self).
pub(crate) struct RegisteredImport {
    imported: Imported,
    memory: ForeignMemory,
    pub(crate) range: RegisteredRange,
    /// Whether the exporter has withdrawn the memory.
    is_withdrawn: Arc<AtomicBool>,
}

/// The reason why there is no import.
pub(crate) enum NotImported {
    /// Only the exporter can have this memory, for this reason.
    OfItsProcess(String),
    /// The exporter has refused the import, or has not answered.
    Refused(String),
    /// The exporter has granted the import, but the memory cannot be mapped here.
    Failed(String),
}

/// The imports that exist or are being made, each with its export.
static LIVE: Mutex<Vec<(Home, u64, Weak<AtomicBool>)>> = Mutex::new(Vec::new());

/// The function that is called when an export was withdrawn.
static HEARS: OnceLock<fn(Home, u64)> = OnceLock::new();

const ENTRY: &str = "HcommMemImport";

impl RegisteredImport {
    /// Imports memory that another process has exported, for an endpoint of a device. Waits for the
    /// answer of that process. `hears` is called when the memory is withdrawn. It must be the same
    /// function in all calls.
    pub(crate) fn new(
        peer: &Arc<Peer>,
        number: u64,
        user: &Device,
        hears: fn(Home, u64),
    ) -> Result<Self, NotImported> {
        use NotImported::{Failed, OfItsProcess, Refused};
        let _ = HEARS.set(hears);
        let is_withdrawn = Arc::new(AtomicBool::new(false));
        let mut live = lock(&LIVE);
        live.retain(|(_, _, flag)| flag.strong_count() > 0);
        live.push((peer.home, number, Arc::downgrade(&is_withdrawn)));
        drop(live);
        let answer = Imported::want(peer, ExportKind::Registered, number);
        let (imported, granted, _) = answer.map_err(Refused)?;
        let process = peer.home.process;
        let range = match granted {
            Granted::Registered(range) => range,
            Granted::OfItsProcess(why) => return Err(OfItsProcess(why)),
            _ => {
                return Err(Failed(format!(
                    "process {process} sent an unexpected answer; use one version of the \
                     emulator in all processes"
                )));
            }
        };
        let RegisteredRange { on_host, card, start, bytes, .. } = range;
        let of_page = start % PAGE;
        let (first, all) = (start - of_page, bytes.checked_add(of_page));
        let Some(all) = all.filter(|_| bytes > 0) else {
            return Err(Failed(format!(
                "process {process} has sent an invalid range; use one version of the emulator in \
                 all processes"
            )));
        };
        let (place, file) = if on_host {
            (ForeignPlace::Host, peer.host_file(first, all))
        } else {
            (ForeignPlace::Device(card_of(user, card).map_err(Failed)?), peer.file(first, all))
        };
        let file = file.map_err(|e| Failed(format!("process {process}: {e}")))?;
        let memory = ForeignMemory::new(place, (file, first), all, process, ENTRY);
        let memory = memory.map_err(|failure| Failed(failure.text.to_string()))?;
        Ok(Self { imported, memory, range, is_withdrawn })
    }

    /// Returns the address of the memory in this process.
    pub(crate) fn address(&self) -> usize {
        self.memory.addresses().start + self.range.start % PAGE
    }

    /// Returns whether the exporter has withdrawn the memory.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Acquire)
    }

    /// Ends the import, so that new calls do not find it. `are_over` returns whether the calls that
    /// have found it are over.
    pub(crate) fn end(self, by: &'static str, are_over: impl Fn() -> bool + Send + 'static) {
        let Self { imported, memory, .. } = self;
        let (mut memory, mut imported) = (Some(memory), Some(imported));
        let mut until = None;
        later::until_done(move || {
            if until.is_none() && !are_over() {
                return false;
            }
            // The memory is removed first, so that operations that are queued later do not find it.
            if let Some(memory) = memory.take() {
                memory.end(by);
            }
            let is_done = are_complete(until.get_or_insert_with(|| unfinished_on(0..u32::MAX)));
            if is_done {
                drop(imported.take());
            }
            is_done
        });
    }
}

/// Handles the report of an exporter that memory is no longer registered.
pub(super) fn withdrawn(from: &Arc<Peer>, number: u64) {
    let mut is_any = false;
    for (home, known, flag) in lock(&LIVE).iter() {
        if (*home, *known) == (from.home, number)
            && let Some(flag) = flag.upgrade()
        {
            flag.store(true, Ordering::Release);
            is_any = true;
        }
    }
    if is_any && let Some(hears) = HEARS.get() {
        hears(from.home, number);
    }
}
