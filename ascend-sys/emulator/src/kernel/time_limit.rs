//! The time limit of kernels whose launch sets none. It is a setting of the process.

use super::server::PATIENCE;
use crate::executor::TICK;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The setting in microseconds; 0 if there is none.
static MICROSECONDS: AtomicU64 = AtomicU64::new(0);

/// The unit of time limits. Every limit that was set is a multiple of it.
pub(crate) const STEP: Duration = TICK;

/// Sets the limit, rounded up to whole steps, and returns the effective limit. Zero removes the
/// setting, so that the emulator's own limit applies.
pub(crate) fn set(limit: Duration) -> Duration {
    let step = STEP.as_micros() as u64;
    let asked = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
    let held = asked.checked_next_multiple_of(step).unwrap_or(u64::MAX / step * step);
    MICROSECONDS.store(held, Ordering::Relaxed);
    now()
}

/// Returns the limit that was set, if there is one.
pub(super) fn given() -> Option<Duration> {
    let limit = MICROSECONDS.load(Ordering::Relaxed);
    (limit != 0).then(|| Duration::from_micros(limit))
}

/// Returns the effective limit.
pub(crate) fn now() -> Duration {
    given().unwrap_or(PATIENCE)
}
