//! Tests that need a process of their own. They count its threads, its memory or its allocations,
//! set its environment variables, or fork it. Or they set a device in a thread that runs host
//! functions, and such a thread counts as awake from then on.
//!
//! Each test starts this program once more for itself alone. The tests run one after the other.

mod addresses;
mod determinism_of_the_environment;
mod environment_of_hccl;
mod fast_path;
mod faults_of_the_environment;
mod fork;
mod host_functions;
mod initialisation;
mod kernel_time_limit;
mod kernels_damaged;
mod kernels_leak;
mod memory_of_mistakes;
mod opened_memory;
mod operator_fast_path;
mod picture;
mod rounds;
#[cfg(any(sanitizer = "address", sanitizer = "thread"))]
mod sanitized;
mod thousand;
mod workers;
