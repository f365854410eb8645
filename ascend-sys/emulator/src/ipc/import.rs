//! Events and notifies that are imported from other processes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::ask::Imported;
use super::key::ExportKey;
use super::news::Granted;
use super::shared_event::SharedEvent;
use super::shared_notify::SharedNotify;
use crate::message::Failure;
use crate::processes::peer::Peer;
use ascend_sys::ACL_ERROR_RT_IPC_ERROR;

pub(crate) fn import_event(peer: &Arc<Peer>, key: &ExportKey) -> Result<Arc<SharedEvent>, Failure> {
    import(peer, key, |granted, file, creator| match granted {
        Granted::Event { index } => SharedEvent::import(file, index, creator),
        _ => Err(io::Error::other(
            "it has sent an unexpected answer; use one version of the emulator in all processes",
        )),
    })
}

pub(crate) fn import_notify(
    peer: &Arc<Peer>,
    key: &ExportKey,
) -> Result<Arc<SharedNotify>, Failure> {
    import(peer, key, |granted, file, creator| match granted {
        Granted::Notify => SharedNotify::import(file, creator),
        _ => Err(io::Error::other(
            "it has sent an unexpected answer; use one version of the emulator in all processes",
        )),
    })
}

/// Requests an import, waits for the answer of the exporter, and makes this process's side of the
/// object.
fn import<T>(
    peer: &Arc<Peer>,
    key: &ExportKey,
    make: impl FnOnce(Granted, OwnedFd, Imported) -> io::Result<T>,
) -> Result<T, Failure> {
    let (imported, granted, file) = Imported::want(peer, key.kind, key.number)
        .map_err(|why| Failure::new(ACL_ERROR_RT_IPC_ERROR, why))?;
    let made = match file {
        Some(file) => make(granted, file, imported),
        None => Err(io::Error::other(
            "it has sent no shared memory; use one version of the emulator in all processes",
        )),
    };
    made.map_err(|e| {
        Failure::new(ACL_ERROR_RT_IPC_ERROR, format!("process {}: {e}", key.home.process))
    })
}
