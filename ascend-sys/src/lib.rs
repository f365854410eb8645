//! The C ABI of CANN (AscendCL, HCCL and HCOMM) and the ways to get hold of it. No policy.
//!
//! Types, constants and enums have CANN's names and stand at the root of the crate. The functions
//! are fields of a table, [`Functions`], because a program must start where no CANN is installed
//! and because a back end need not be CANN.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("hccl supports Linux on x86_64 and aarch64");

mod api;
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "names are CANN's, and what C headers leave without a comment has none here"
)]
#[allow(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated from C headers by bindgen"
)]
pub mod bindings;
mod error;
#[allow(non_snake_case, clippy::type_complexity, reason = "generated; field names are CANN's")]
mod functions;
mod load;
mod symbol;
#[allow(non_camel_case_types, reason = "names are those of the system's header")]
mod system;

pub use api::{Api, Availability};
pub use bindings::*;
pub use error::{Attempt, LoadError, MissingSymbol};
pub use functions::{Functions, SYMBOLS};
pub use symbol::{Library, Symbol};
pub use system::{in_addr, in6_addr};
