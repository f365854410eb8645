//! The C ABI of CANN (AscendCL, HCCL and HCOMM), and four ways to obtain it. The crate adds no
//! policy.
//!
//! Use this crate to call CANN's C functions directly, or to write a back end. All other programs
//! use `hccl`, which is safe.
//!
//! Types, constants and enums have CANN's names and are at the root of the crate. The functions are
//! fields of a table, [`Functions`]. With a table, a program also starts on a machine without CANN,
//! and a back end can be something other than CANN. An [`Api`] holds a table and its origin:
//!
//! | way | the functions come from |
//! |---|---|
//! | [`Api::load`] | the installed CANN |
//! | [`Api::load_from`] | libraries in one directory |
//! | `Api::linked` (feature `linked`) | libraries that the program is linked with |
//! | [`Api::from_table`] | the program itself |
//!
//! If a machine lacks something, the error names the places where it was looked for:
//!
//! ```
//! use ascend_sys::{Api, LoadError};
//!
//! match Api::load_from("/nowhere") {
//!     Ok(api) => println!("{}", api.availability("HcclAllReduce")),
//!     Err(error @ LoadError::Library { .. }) if error.is_absent() => {
//!         assert!(error.to_string().contains("/nowhere/libacl_rt.so: no such file"));
//!     }
//!     Err(error) => panic!("{error}"),
//! }
//! ```
//!
//! A back end is a literal of the table. Every function is optional, since no release of CANN has
//! all of them. A program checks once, at its start, that the functions it needs are there:
//!
//! ```
//! use ascend_sys::{ACL_ERROR_INVALID_PARAM, ACL_SUCCESS, Api, Functions, aclError};
//!
//! unsafe extern "C" fn device_count(count: *mut u32) -> aclError {
//!     if count.is_null() {
//!         return ACL_ERROR_INVALID_PARAM;
//!     }
//!     // SAFETY: `count` is not null, and the caller guarantees that it points to a `u32`.
//!     unsafe { *count = 8 };
//!     ACL_SUCCESS
//! }
//!
//! let functions = Functions {
//!     aclrtGetDeviceCount: Some(device_count),
//!     ..Functions::default()
//! };
//! // SAFETY: the only function of the table behaves as CANN documents it.
//! let api = unsafe { Api::from_table(functions) };
//! api.require(&["aclrtGetDeviceCount"])?;
//!
//! let mut count = 0;
//! if let Some(aclrtGetDeviceCount) = api.aclrtGetDeviceCount {
//!     // SAFETY: `count` lives through the call.
//!     assert_eq!(unsafe { aclrtGetDeviceCount(&mut count) }, ACL_SUCCESS);
//! }
//! assert_eq!(count, 8);
//! # Ok::<(), ascend_sys::LoadError>(())
//! ```
//!
//! C enums are newtypes. So an unknown value that a newer library returns is a valid value of the
//! type instead of undefined behaviour:
//!
//! ```
//! use ascend_sys::HcclResult;
//!
//! let code = HcclResult(77);
//! assert_ne!(code, HcclResult::HCCL_SUCCESS);
//! ```

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("hccl supports Linux on x86_64 and aarch64");

// On other systems the modules that call the system's loader are left out. Then the error above is
// the only one that the compiler reports.
#[cfg(target_os = "linux")]
mod api;
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "names are CANN's, and what the C headers leave without a comment has none here"
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
#[cfg(target_os = "linux")]
mod load;
mod symbol;
#[allow(non_camel_case_types, reason = "names are those of the system's header")]
mod system;
mod unset;

#[cfg(target_os = "linux")]
pub use api::{Api, Availability};
pub use bindings::*;
pub use error::{Attempt, LoadError, MissingSymbol};
pub use functions::{Functions, SYMBOLS};
pub use symbol::{Library, Symbol};
pub use system::{in_addr, in6_addr};
