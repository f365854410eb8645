//! The runtime: a backend and its devices. Every program begins by making a runtime. Use
//! [`Runtime::auto`] in programs and [`Runtime::emulator`] in tests. [`Runtime::cann`] and
//! [`Runtime::load_from`] are for programs that must not run on the emulator.
//!
//! [`Runtime::auto`] uses the installed CANN, or the emulator if CANN is not installed. So the same
//! program runs on a server and on a laptop. [`Runtime::emulator`] makes new emulated devices that
//! only the new runtime uses. Every object that is made from a runtime keeps the runtime alive.

#![forbid(unsafe_code)]

// The order of these modules is the order in which rustdoc lists the methods that they define.
mod choose;

mod queries;

mod findings;

#[cfg(feature = "emulator")]
mod faults;

mod shared;

mod handle;

pub use crate::error::finding::Finding;
pub use crate::error::product::Product;
#[cfg(feature = "emulator")]
pub use choose::{EmulatorOptions, EmulatorOptionsBuilder};
#[cfg(feature = "emulator")]
pub use faults::Fault;
pub use handle::Runtime;
pub(crate) use handle::WeakRuntime;
pub use shared::Backend;
