//! Faults: what an emulated device is told to do wrong, so that a test sees what the program does
//! about it.

#![forbid(unsafe_code)]

use std::time::Duration;

use ascend_sys::{AscendExtFault, AscendExtFaultKind as Kind};

use super::Runtime;
use crate::error::{Error, Result};

/// An injected fault: something that goes wrong on one emulated device.
///
/// Operations and allocations are counted from 1, each device by itself, from the start of the
/// runtime; operations are those of communicators, all of the device together. [`at`](Self::at)
/// chooses the one that the fault concerns.
///
/// ```
/// use hccl::prelude::*;
/// use hccl::Fault;
///
/// let runtime = Runtime::emulator_builder().devices(2).fault(Fault::wrong_count(1).at(2)).build()?;
/// let failed = runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut x = rank.device().upload(&[1.0f32; 8], &stream)?;
///     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
///     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait() // the second
/// });
/// assert!(failed.unwrap_err().to_string().contains("the counts differ"));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    device: usize,
    kind: Kind,
    length: Duration,
    number: u64,
}

impl Fault {
    fn new(device: usize, kind: Kind) -> Fault {
        Fault { device, kind, length: Duration::ZERO, number: 0 }
    }

    /// An operation begins later by so much (rounded up to milliseconds): a slow rank. Without
    /// [`at`](Self::at), every one.
    pub fn delay(device: usize, length: Duration) -> Fault {
        Fault { length, ..Fault::new(device, Kind::ASCEND_EXT_FAULT_DELAY) }
    }

    /// From an operation on, the streams of the device make no progress: a rank that hangs. Without
    /// [`at`](Self::at), from the next one on.
    ///
    /// Peers run into the time limit of the device ([`Error::Failed`], EI0002), the rank itself
    /// into the deadline of the call it waits in ([`Error::Timeout`]). The queued operations of the
    /// device stay, with their memory and the runtime, until [`Runtime::clear_faults`] lets it go
    /// on.
    pub fn stop(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_STOP)
    }

    /// With an operation the rank is gone, as if its process had died. Without [`at`](Self::at),
    /// with the next one.
    ///
    /// The operation and all further ones of the rank are errors; its peers learn of it at once
    /// (EI0012).
    pub fn leave(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_LEAVE)
    }

    /// An operation is issued with one element less than was asked for: a wrong argument. Without
    /// [`at`](Self::at), every one that has a count. All ranks are told both sides (EI0005).
    pub fn wrong_count(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_WRONG_COUNT)
    }

    /// From an allocation on, the device has no memory left ([`Error::OutOfMemory`]). Without
    /// [`at`](Self::at), from the start.
    pub fn out_of_memory(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_OUT_OF_MEMORY)
    }

    /// An operation that meets peers for the first time reaches none of them: it, and those of its
    /// peers that wait for the rank, fail after the connect time-out (EI0006). Without
    /// [`at`](Self::at), the next one that has to meet.
    pub fn link_timeout(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_LINK_TIMEOUT)
    }

    /// Concerns the operation of this number only, or for [`stop`](Self::stop) and
    /// [`out_of_memory`](Self::out_of_memory) the operation or allocation of this number and all
    /// further ones. Zero is as if nothing was said.
    #[must_use]
    pub fn at(self, number: u64) -> Fault {
        Fault { number, ..self }
    }

    /// Has the runtime's devices fail.
    pub(super) fn start(&self, runtime: &Runtime) -> Result<()> {
        let Fault { device, kind, length, number } = self;
        let (index, count) = (*device, runtime.device_count());
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        let milliseconds = u32::try_from(length.as_micros().div_ceil(1000)).map_err(|_| {
            let problem = format!("a delay of {length:?}; at most 49 days are possible").into();
            Error::Invalid { operation: "emulator", problem }
        })?;
        let fault = AscendExtFault {
            size: size_of::<AscendExtFault>() as u32,
            kind: kind.0,
            device: index as u32,
            milliseconds,
            number: *number,
        };
        runtime.table().set_fault(runtime.block(), &fault)
    }
}

impl Runtime {
    /// Ends the [`Fault`]s of an emulated device. A stopped device goes on; a rank that has left
    /// does not come back.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], and [`Error::MissingSymbol`] for a backend other than the emulator.
    pub fn clear_faults(&self, device: usize) -> Result<()> {
        let (index, count) = (device, self.device_count());
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        self.table().clear_faults(self.block(), index as u32)
    }
}
