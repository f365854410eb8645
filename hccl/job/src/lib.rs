//! This crate lets the processes of one job find one another. The crate `hccl` uses it in
//! `Rank::from_env` and `Runtime::run_job`. Use this crate directly to start jobs in another way
//! than with `hcclrun`, or to pass values between ranks before they have a communicator.
//!
//! A *launcher* starts one process per rank: `hcclrun`, `torchrun`, `mpirun`, `srun`. It sets
//! variables, and [`JobEnv`] reads them: the number of this rank, the number of ranks, and the
//! place where the ranks meet. The ranks meet at a [`Store`], a small server of keys and values
//! that records which ranks have come and which are gone. `hcclrun` serves the store; under other
//! launchers rank 0 serves it.
//!
//! ```
//! use std::time::Duration;
//! use hccl_job::{JobEnv, Store, StoreServer};
//!
//! # fn main() -> Result<(), hccl_job::JobError> {
//! let server = StoreServer::start(1, "a secret")?;
//! let env = JobEnv::from_variables(|name| match name {
//!     "RANK" => Some("0".into()),
//!     "WORLD_SIZE" => Some("1".into()),
//!     "MASTER_ADDR" => Some("127.0.0.1".into()),
//!     "MASTER_PORT" => Some(server.port().to_string()),
//!     "HCCL_JOB_SECRET" => Some("a secret".into()),
//!     "HCCL_JOB_SERVED" => Some("1".into()),
//!     _ => None,
//! })?
//! .expect("RANK is set");
//! let mut store = Store::join(&env, Duration::from_secs(10))?;
//! store.set("greeting", b"hello")?;
//! assert_eq!(store.get("greeting", Duration::from_secs(10))?, b"hello");
//! # Ok(())
//! # }
//! ```

mod address;
mod client;
mod env;
mod error;
/// Fuzz targets: see the directory `fuzz`.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod hall;
mod message;
mod report;
mod server;

pub use client::{Generation, Store};
pub use env::{JobEnv, Launcher, Meeting, variables};
pub use error::{JobError, MAX_KEY, MAX_STORED, MAX_VALUE};
pub use report::Report;
pub use server::StoreServer;
