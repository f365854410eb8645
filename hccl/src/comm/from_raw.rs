//! Communicators that somebody else made.

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
    /// Takes a communicator that somebody else made, for example a training framework. It is never
    /// destroyed here. Does not block.
    ///
    /// CANN gives its rank and size (`HcclGetRankId`, `HcclGetRankSize`). Operations are numbered
    /// from 1 as if there had been none before, so the numbers in errors count those that were
    /// issued here.
    ///
    /// Its drop tells the peers nothing, since the owner may go on: they are told when the owner
    /// ends it, where the backend can tell them. An [abort](AbortHandle) ends it for everybody, the
    /// owner too.
    ///
    /// # Safety
    ///
    /// * `raw` was made by the library behind the runtime of `device`, for that device.
    /// * It stays alive until this `Communicator`, and each one made of it by
    ///   [`split`](Self::split) or [`subset`](Self::subset), is dropped, with every
    ///   [`Graph`](crate::Graph) that captured them, and every operation that was issued with them
    ///   is complete: a dropped [`Work`](crate::Work) is no proof, a wait or a synchronise is.
    /// * Meanwhile nobody else issues operations on it or destroys it, or they are ordered with
    ///   those issued here, on the host (one call at a time, the same order on all ranks) and on
    ///   the device (events between the streams).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a null pointer, else the error of CANN.
    pub unsafe fn from_raw(device: &Device, raw: HcclComm) -> Result<Self> {
        if raw.is_null() {
            let problem = "the HcclComm is null".into();
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
