//! The memory that an endpoint has imported from an endpoint of this or another process.
//!
//! Within a process, an import only refers to the memory, which keeps its address. Memory of
//! another process is mapped, and the import has the address of the mapping.

use super::channel::{Channel, Exchanged};
use super::endpoint::Endpoint;
use super::endpoint_channel;
use super::open::{self, Open, ReachableMemory};
use crate::fabric::processes::{self, is_this_process};
use crate::ipc::key::ExportKey;
use crate::ipc::news::RegisteredRange;
use crate::ipc::registered::{NotImported, RegisteredImport};
use crate::machine;
use crate::message::{Failure, refuse};
use crate::processes::peer::Home;
use ascend_sys::{CommProtocol, HcclResult};
use std::time::Duration;

/// Imported memory: see the [module](self).
pub(crate) struct MemoryImport {
    /// The number of imports of the memory that are not ended yet.
    times: u32,
    memory: Exchanged,
    of: Owner,
}

enum Owner {
    Here(Endpoint),
    Abroad(RegisteredImport),
}

/// The time limit for the first answer of another process.
const LIMIT: Duration = Duration::from_secs(20);

impl MemoryImport {
    /// Returns whether the memory was registered on this endpoint. `home` is the process that has
    /// exported the memory.
    fn is_of(&self, owner: &Endpoint, home: Home) -> bool {
        match (&self.of, owner.abroad) {
            (Owner::Here(endpoint), _) => endpoint == owner,
            (Owner::Abroad(import), Some(there)) => {
                (there.home, there.start, owner.protocol)
                    == (home, import.range.device_start, CommProtocol(import.range.protocol))
            }
            (Owner::Abroad(_), None) => false,
        }
    }

    fn reachable(&self) -> ReachableMemory {
        let Exchanged { on_host, start, bytes, .. } = self.memory;
        ReachableMemory { on_host, start, bytes: bytes as u64 }
    }

    /// Ends the import of an endpoint. `channels` are the endpoint's channels, which no longer
    /// reach the memory.
    pub(super) fn end(self, channels: &[&'static Channel]) {
        let Owner::Abroad(import) = self.of else { return };
        let channels = channels.to_vec();
        // A call that has found the import earlier may still be about to queue its task.
        let are_over = move || channels.iter().all(|channel| channel.reaches.are_over());
        import.end("the end of its import", are_over);
    }
}

/// Returns the memory that an endpoint has imported from another endpoint.
pub(super) fn imported_from(handle: u64, owner: &Endpoint) -> Vec<Exchanged> {
    let found = open::with(handle, |open| {
        let all = open.imports.iter();
        let of_owner = all.filter(|((home, _), import)| import.is_of(owner, *home));
        let found = of_owner.map(|((_, number), import)| (*number, import.memory.clone()));
        Ok(found.collect::<Vec<_>>())
    });
    let mut found = found.unwrap_or_default();
    if owner.abroad.is_none() {
        // An import within a process does not keep the memory, so the memory may no longer be
        // registered.
        found.retain(|(number, _)| open::is_exported(*number));
    }
    found.into_iter().map(|(_, memory)| memory).collect()
}

/// Imports memory of another endpoint on this endpoint. If that endpoint is in another process,
/// waits for the answer of that process.
pub(crate) fn import(handle: u64, key: &ExportKey) -> Result<ReachableMemory, Failure> {
    let own = open::with(handle, |open| Ok(open.endpoint))?;
    let name = (key.home, key.number);
    let here = match is_this_process(&key.home) {
        true => Some(open::exported(key)?),
        false => None,
    };
    if let Some((_, theirs)) = &here {
        check_place(&own, theirs)?;
    }
    if let Some(known) = open::with(handle, |open| Ok(open.import_again(name)))? {
        return Ok(known);
    }
    let (memory, of) = match here {
        Some((memory, theirs)) => (memory, Owner::Here(theirs)),
        None => {
            let import = bring(key, &own)?;
            let RegisteredRange { on_host, bytes, .. } = import.range;
            let tag = format!("memory of process {}", key.home.process);
            let start = import.address();
            (Exchanged { tag, on_host, start, bytes }, Owner::Abroad(import))
        }
    };
    let import = MemoryImport { times: 1, memory: memory.clone(), of };
    let reachable = import.reachable();
    let mut new = Some(import);
    let met = open::with(handle, |open| {
        // Another thread may have imported the memory in the meantime.
        let known = open.import_again(name);
        if known.is_none() {
            open.imports.extend(new.take().map(|import| (name, import)));
        }
        Ok(known)
    });
    if let Some(unused) = new {
        unused.end(&endpoint_channel::on(handle));
    }
    if let Some(known) = met? {
        return Ok(known);
    }
    admit(handle, name, &memory);
    let is_withdrawn = open::with(handle, |open| {
        Ok(open.imports.get(&name).is_some_and(|import| match &import.of {
            Owner::Abroad(import) => import.is_withdrawn(),
            Owner::Here(_) => false,
        }))
    })?;
    if is_withdrawn {
        withdrawn(key.home, key.number);
        return refuse!(
            HCCL_E_NOT_FOUND,
            "the memory of this description is no longer registered: process {} has unregistered \
             it in the meantime; register and export it there again",
            key.home.process
        );
    }
    Ok(reachable)
}

impl Open {
    /// Counts one more import of memory that is imported already, and returns the memory. `None` if
    /// the memory is not imported.
    fn import_again(&mut self, name: (Home, u64)) -> Option<ReachableMemory> {
        let known = self.imports.get_mut(&name)?;
        known.times += 1;
        Some(known.reachable())
    }
}

fn check_place(own: &Endpoint, theirs: &Endpoint) -> Result<(), Failure> {
    if theirs.place.block != own.place.block {
        return refuse!(
            HCCL_E_PARA,
            "devices {} and {} belong to different blocks, which cannot reach each other's \
             memory; use devices of one block",
            own.place.device,
            theirs.place.device
        );
    }
    check_protocol(own, theirs.protocol.0)
}

fn check_protocol(own: &Endpoint, theirs: i32) -> Result<(), Failure> {
    if theirs == own.protocol.0 {
        return Ok(());
    }
    refuse!(
        HCCL_E_PARA,
        "the memory was registered on an endpoint of the protocol {theirs}, but this endpoint has \
         the protocol {}; import it on an endpoint of the same protocol",
        own.protocol.0
    )
}

/// Imports memory of another process, for an endpoint of this process.
fn bring(key: &ExportKey, own: &Endpoint) -> Result<RegisteredImport, Failure> {
    let process = key.home.process;
    let failed = |text: String| Failure::new(HcclResult::HCCL_E_REMOTE, format!("EI0012: {text}"));
    let peer = processes::reach(&key.home, LIMIT).map_err(failed)?;
    let user = machine::device_slot(own.place.device);
    let import = match RegisteredImport::new(&peer, key.number, user, withdrawn) {
        Ok(import) => import,
        Err(NotImported::OfItsProcess(why)) => {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "the memory of this description cannot be imported from process {process}: {why}"
            );
        }
        Err(NotImported::Refused(text)) if peer.gone().is_none() => {
            return refuse!(
                HCCL_E_NOT_FOUND,
                "the memory of this description is no longer registered: {text}; register and \
                 export it again"
            );
        }
        Err(NotImported::Refused(text) | NotImported::Failed(text)) => return Err(failed(text)),
    };
    match check_protocol(own, import.range.protocol) {
        Ok(()) => Ok(import),
        Err(failure) => {
            import.end("an import that was refused", || true);
            Err(failure)
        }
    }
}

/// Makes imported memory reachable over the channels from an endpoint to the owner of the memory.
fn admit(handle: u64, (home, number): (Home, u64), memory: &Exchanged) {
    let leads_there = |to: &Endpoint| {
        let found = open::with(handle, |open| {
            let import = open.imports.get(&(home, number));
            Ok(import.is_some_and(|import| import.is_of(to, home)))
        });
        found.unwrap_or_default()
    };
    endpoint_channel::admit(handle, leads_there, memory, true);
}

/// Ends one import of memory. The memory stays reachable until all imports of it on this endpoint
/// are ended.
pub(crate) fn unimport(handle: u64, key: &ExportKey) -> Result<(), Failure> {
    let name = (key.home, key.number);
    let gone = open::with(handle, |open| {
        let Some(import) = open.imports.get_mut(&name) else {
            return refuse!(
                HCCL_E_NOT_FOUND,
                "the memory of this description was not imported on this endpoint; call \
                 HcommMemUnimport once for each HcommMemImport"
            );
        };
        import.times -= 1;
        // A later import of the same memory makes a new entry.
        Ok(if import.times == 0 { open.imports.remove(&name) } else { None })
    })?;
    if let Some(import) = gone {
        let is_of = |to: &Endpoint| import.is_of(to, key.home);
        endpoint_channel::admit(handle, is_of, &import.memory, false);
        import.end(&endpoint_channel::on(handle));
    }
    Ok(())
}

/// Ends the imports of memory that another process no longer registers.
fn withdrawn(home: Home, number: u64) {
    for (endpoint, import) in open::take_imports((home, number)) {
        endpoint_channel::admit(endpoint, |to| import.is_of(to, home), &import.memory, false);
        import.end(&endpoint_channel::on(endpoint));
    }
}
