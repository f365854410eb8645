//! Primitives of threads, after the check of their arguments.

use super::reduce::Reduce;
use super::signal::{Await, Signal};
use crate::leaf::Copy;
use crate::memory::{self, nominal};
use crate::message::{Failure, refuse};
use std::time::Duration;

/// A primitive whose arguments are valid.
pub(crate) enum Primitive {
    Copy(Copy),
    Reduce(Reduce),
    Signal(Signal),
    Await(Await),
    /// A record of a notify of the runtime, given by its handle.
    Record(u64),
    Wait(u64, Option<Duration>),
}

impl Primitive {
    /// Checks that the memory of the primitive was not freed since its addresses were resolved.
    pub(super) fn check_again(&mut self) -> Result<(), Failure> {
        let sides = match self {
            Primitive::Copy(copy) => [(copy.to.cast_const(), copy.bytes), (copy.from, copy.bytes)],
            Primitive::Reduce(reduce) => reduce.touched(),
            _ => return Ok(()),
        };
        for (data, bytes) in sides {
            if let Err(text) = memory::resolve(nominal(data), bytes) {
                return refuse!(
                    HCCL_E_PARA,
                    "memory of a primitive must not be freed before the primitive is complete: \
                     {text}. Wait for the primitive first"
                );
            }
        }
        Ok(())
    }
}
