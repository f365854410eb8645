//! Faults that a test injects into an emulated device, to see how the program reacts.

#![forbid(unsafe_code)]

use std::time::Duration;

use ascend_sys::{AscendExtFault, AscendExtFaultKind as Kind};

use super::Runtime;
use crate::error::{Error, Result};

/// An injected fault, which makes operations or allocations fail or wait on one emulated device.
///
/// Each device counts its operations and its allocations from 1, from the start of the runtime.
/// Only operations of communicators are counted, for all communicators of the device together.
/// [`at`](Self::at) chooses the operation or allocation that the fault affects.
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

    /// Returns a fault that delays the start of an operation by `length`, rounded up to
    /// milliseconds: a slow rank. Without [`at`](Self::at), it delays every operation.
    pub fn delay(device: usize, length: Duration) -> Fault {
        Fault { length, ..Fault::new(device, Kind::ASCEND_EXT_FAULT_DELAY) }
    }

    /// Returns a fault that stops the streams of the device from an operation on: a rank that
    /// hangs. Without [`at`](Self::at), it stops them from the next operation on.
    ///
    /// The operations of peers fail at the time limit of the device ([`Error::Failed`], EI0002).
    /// The wait of the rank itself fails at its deadline ([`Error::Timeout`]). The queued
    /// operations of the device keep their memory and the runtime alive until
    /// [`Runtime::clear_faults`] lets the device continue.
    pub fn stop(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_STOP)
    }

    /// Returns a fault by which the rank is gone from an operation on, as if its process had died.
    /// Without [`at`](Self::at), the rank is gone from the next operation on.
    ///
    /// This operation and all later ones of the rank fail. The peers are notified at once (EI0012).
    pub fn leave(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_LEAVE)
    }

    /// Returns a fault by which an operation is issued with one element less than the program gave:
    /// a wrong argument. Without [`at`](Self::at), it affects every operation that has a count. All
    /// ranks get an error that names both counts (EI0005).
    pub fn wrong_count(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_WRONG_COUNT)
    }

    /// Returns a fault by which the device has no memory left from an allocation on
    /// ([`Error::OutOfMemory`]). Without [`at`](Self::at), no memory is left from the start.
    pub fn out_of_memory(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_OUT_OF_MEMORY)
    }

    /// Returns a fault by which an operation that makes links cannot reach its peers. The
    /// operation, and operations of peers that wait for the rank, fail after the connection
    /// time-out (EI0006). Without [`at`](Self::at), it affects the next operation that makes links.
    pub fn link_timeout(device: usize) -> Fault {
        Fault::new(device, Kind::ASCEND_EXT_FAULT_LINK_TIMEOUT)
    }

    /// Makes the fault affect only the operation with this number. A [`stop`](Self::stop) or an
    /// [`out_of_memory`](Self::out_of_memory) affects the operation or allocation with this number
    /// and all later ones. If `number` is 0, the fault behaves as if `at` was not called.
    #[must_use]
    pub fn at(self, number: u64) -> Fault {
        Fault { number, ..self }
    }

    /// Injects the fault into its device of the runtime.
    pub(super) fn start(&self, runtime: &Runtime) -> Result<()> {
        let Fault { device, kind, length, number } = self;
        let (index, count) = (*device, runtime.device_count());
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        let milliseconds = u32::try_from(length.as_micros().div_ceil(1000)).map_err(|_| {
            let problem = format!("a delay of {length:?}: give at most 49 days").into();
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
    /// Ends the [`Fault`]s of an emulated device. A stopped device continues. A rank that has left
    /// does not come back.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] for a device that does not exist. [`Error::MissingSymbol`] for a
    /// backend other than the emulator.
    pub fn clear_faults(&self, device: usize) -> Result<()> {
        let (index, count) = (device, self.device_count());
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        self.table().clear_faults(self.block(), index as u32)
    }
}
