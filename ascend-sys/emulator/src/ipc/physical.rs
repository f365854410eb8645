//! Physical memory that another process has exported: pages that can be mapped at addresses of this
//! process. `virtual_memory` manages them here.

use super::ask::Imported;
use super::key::{ExportKey, ExportKind};
use super::memory::let_go;
use super::news::Granted;
use crate::memory::window::{self, HUGE_PAGE};
use crate::message::{Failure, fail};
use crate::processes::peer::{Home, Peer};
use ascend_sys::ACL_ERROR_RT_IPC_ERROR;
use std::io;
use std::sync::Arc;

/// Physical memory of another process; see the [module](self). When it is dropped, the exporter is
/// notified as soon as no queued task of this process reaches the memory.
pub(crate) struct ImportedPhysical {
    imported: Option<Imported>,
    peer: Arc<Peer>,
    number: u64,
    /// The number of the memory's device in the block of that device.
    pub(crate) card: u32,
    start: usize,
    pub(crate) bytes: usize,
}

impl ImportedPhysical {
    /// Requests the memory from the process that has exported it, and waits for the answer.
    pub(crate) fn want(peer: &Arc<Peer>, key: &ExportKey) -> Result<Self, Failure> {
        let process = key.home.process;
        let (imported, granted, _) = Imported::want(peer, ExportKind::Physical, key.number)
            .map_err(|text| Failure::new(ACL_ERROR_RT_IPC_ERROR, text))?;
        let Granted::Memory { card, start, bytes } = granted else {
            return fail!(
                ACL_ERROR_RT_IPC_ERROR,
                "process {process} sent an unexpected answer; use one version of the emulator in \
                 all processes"
            );
        };
        let is_whole = |number: usize| number.is_multiple_of(HUGE_PAGE);
        if bytes == 0 || !is_whole(start) || !is_whole(bytes) || peer.file(start, bytes).is_err() {
            return fail!(
                ACL_ERROR_RT_IPC_ERROR,
                "process {process} has sent an invalid range; use one version of the emulator in \
                 all processes"
            );
        }
        let (imported, peer) = (Some(imported), Arc::clone(peer));
        Ok(Self { imported, peer, number: key.number, card, start, bytes })
    }

    /// Maps the memory in place of an equally long range of data of this process. That range must
    /// not be in use.
    pub(crate) fn show(&self, data: usize) -> io::Result<()> {
        window::shown::show(data, self.bytes, self.peer.file(self.start, self.bytes)?, self.start)
    }

    /// Returns the id of the process that has exported the memory.
    pub(crate) fn process(&self) -> u32 {
        self.peer.home.process
    }

    /// Returns whether the memory is the export `number` of the process `home`.
    pub(crate) fn is(&self, home: &Home, number: u64) -> bool {
        self.peer.home == *home && self.number == number
    }
}

impl Drop for ImportedPhysical {
    fn drop(&mut self) {
        if let Some(imported) = self.imported.take() {
            let_go(imported);
        }
    }
}
