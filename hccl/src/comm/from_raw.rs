//! Communicators that code outside `hccl` made.

use ascend_sys::HcclComm;

#[cfg(doc)]
use super::AbortHandle;
use super::handle::Origin;
use super::{Communicator, making};
use crate::api::call;
use crate::device::Device;
use crate::error::{Error, Result};

const FROM_RAW: &str = "Communicator::from_raw";

impl Communicator {
    /// Wraps a communicator that other code made, for example a training framework. `hccl` never
    /// destroys it. Does not block.
    ///
    /// The rank and the number of ranks come from CANN (`HcclGetRankId`, `HcclGetRankSize`). The
    /// numbers in errors count only the operations that are issued on this `Communicator`, from 1.
    ///
    /// Dropping the `Communicator` does not notify the peers, because the owner of `raw` may
    /// continue to use it. If the backend can notify the peers, it does so when the owner destroys
    /// `raw`. An [abort](AbortHandle) takes effect for all users of `raw`, including the owner.
    ///
    /// # Safety
    ///
    /// * `raw` was made for `device`, by the library that the runtime of `device` uses.
    /// * `raw` is not destroyed before all of these are dropped: this `Communicator`, each
    ///   communicator that [`split`](Self::split) or [`subset`](Self::subset) made from it, and
    ///   every [`Graph`](crate::Graph) that captured one of them. It is also not destroyed before
    ///   every operation that was issued with them is complete. A dropped [`Work`](crate::Work)
    ///   does not prove that its operation is complete, but a wait or a synchronise does.
    /// * Until then, operations that other code issues on `raw` are ordered with the operations of
    ///   this `Communicator`. On the host, one call is made at a time, in the same order on all
    ///   ranks. On the device, events between the streams order the operations.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a null pointer, and otherwise the error of CANN.
    pub unsafe fn from_raw(device: &Device, raw: HcclComm) -> Result<Self> {
        if raw.is_null() {
            let problem =
                "the `HcclComm` is a null pointer: pass the handle of a live communicator".into();
            return Err(Error::Invalid { operation: FROM_RAW, problem });
        }
        let _bound = device.bind()?;
        let table = device.table();
        let (mut rank, mut world_size) = (0, 0);
        // SAFETY: the caller's promise that the communicator is alive; the out parameters are live
        // locals.
        unsafe {
            call!(table, HcclGetRankId, raw, &mut rank)
                .and_then(|()| call!(table, HcclGetRankSize, raw, &mut world_size))
        }
        .map_err(|error| error.in_operation(|| making(FROM_RAW, None)))?;
        // SAFETY: the caller's promise, and the rank and size are those that CANN has just
        // returned.
        unsafe {
            Self::from_parts(FROM_RAW, raw, device, (rank, world_size), None, Origin::Foreign)
        }
    }
}
