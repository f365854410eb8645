//! Locks for sections that are short: a [spin lock](SpinLock), and one that is [biased](Biased) to its usual thread.

mod barrier;
mod biased;
mod spin;

pub(crate) use biased::Biased;
pub(crate) use spin::{Guard, SpinLock, pause, spin_until};
