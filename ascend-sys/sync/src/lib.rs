//! The locks that `hccl` and the emulator share, and their atomics: those of std or, under `--cfg
//! loom`, those of loom.
//!
//! | lock | for |
//! | --- | --- |
//! | [`SpinLock`] | sections of a few dozen instructions, taken by any thread |
//! | [`Biased`] | the same, when nearly always one thread takes it |
//! | [`TryLock`] | work that one thread does and every other thread leaves to it |
//! | [`lock_std`] | anything longer: a mutex that survives a panic |

mod barrier;
mod biased;
mod modelled;
mod spin;
mod try_lock;

pub use biased::Biased;
pub use modelled::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Thread,
    UnsafeCell, current_thread, fence, lock, lock_std, park_timeout, try_lock,
};
pub use spin::{Guard, SpinLock, pause, spin_until};
pub use try_lock::{TryLock, TryLockGuard};
