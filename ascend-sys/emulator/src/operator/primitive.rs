//! A primitive of a thread, once its arguments were checked.

use super::reduce::Reduce;
use super::signal::{Await, Signal};
use crate::leaf::Copy;
use crate::memory::{self, nominal};
use crate::message::{Failure, refuse};
use std::time::Duration;

/// A primitive whose arguments are right.
pub(crate) enum Primitive {
    Copy(Copy),
    Reduce(Reduce),
    Signal(Signal),
    Await(Await),
    /// A record of a notify of the runtime, by its handle.
    Record(u64),
    Wait(u64, Option<Duration>),
}

impl Primitive {
    /// Time has passed since its addresses were looked up: finds memory that was freed meanwhile.
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
                    "memory of a primitive must stay until it is complete: {text}"
                );
            }
        }
        Ok(())
    }
}
