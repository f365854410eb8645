//! The time limit of kernels whose launch sets none: a setting of the process.

use super::server::PATIENCE;
use crate::executor::TICK;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The setting in microseconds; 0: none.
static MICROSECONDS: AtomicU64 = AtomicU64::new(0);

/// The step in which time limits pass.
pub(crate) const STEP: Duration = TICK;

/// Sets the limit, and returns the effective limit: in whole steps, rounded up. Zero removes the
/// setting, so that the emulator's own limit holds.
pub(crate) fn set(limit: Duration) -> Duration {
    let step = STEP.as_micros() as u64;
    let asked = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
    let held = asked.checked_next_multiple_of(step).unwrap_or(u64::MAX / step * step);
    MICROSECONDS.store(held, Ordering::Relaxed);
    now()
}

/// The limit that was set.
pub(super) fn given() -> Option<Duration> {
    let limit = MICROSECONDS.load(Ordering::Relaxed);
    (limit != 0).then(|| Duration::from_micros(limit))
}

/// The effective limit.
pub(crate) fn now() -> Duration {
    given().unwrap_or(PATIENCE)
}
