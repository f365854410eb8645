//! The errors of a job.

use std::time::Duration;

/// The longest key of a store, in bytes.
pub const MAX_KEY: usize = 256;

/// The longest value of a store, in bytes: 64 KiB.
pub const MAX_VALUE: usize = 64 << 10;

/// The bytes that all keys and values of a store may have together: 64 MiB.
pub const MAX_STORED: usize = 64 << 20;

/// An error of reading the environment, or of the store.
///
/// ```
/// use hccl_job::{JobEnv, JobError};
///
/// let find = |name: &str| match name {
///     "RANK" => Some("three".into()),
///     "WORLD_SIZE" => Some("4".into()),
///     _ => None,
/// };
/// let error = JobEnv::from_variables(find).unwrap_err();
/// assert!(matches!(error, JobError::Variable { .. }));
/// eprintln!("{error}"); // the variable, its value, and the values that it can have
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A variable of the launcher has a value that it cannot have.
    #[error("the environment variable {name} is \"{value}\", but {rule}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it can have.
        rule: String,
    },
    /// A variable that belongs to another one is not set.
    #[error("the environment variable {name} is not set, but {why}")]
    Unset {
        /// The variable.
        name: &'static str,
        /// The reason why it is needed, and the remedy.
        why: String,
    },
    /// The store could not be reached in time.
    #[error(
        "rank {rank} cannot reach the store of its job at {place} within {after:?}: {why}. {host}"
    )]
    Unreachable {
        /// This rank.
        rank: u32,
        /// The place.
        place: String,
        /// The time for which this rank has tried.
        after: Duration,
        /// The last thing that went wrong.
        why: String,
        /// The process that serves the store, and the things to check, as a sentence.
        host: &'static str,
    },
    /// This process cannot serve the store.
    #[error("the store of the job cannot be served at {place}: {why}")]
    NotServed {
        /// The place.
        place: String,
        /// The reason.
        why: String,
    },
    /// The store has refused this rank.
    #[error("the store of the job at {place} has refused rank {rank}: {why}")]
    Refused {
        /// This rank.
        rank: u32,
        /// The place.
        place: String,
        /// The reason that the store gave.
        why: String,
    },
    /// A value or a generation did not come in time.
    #[error("{what} did not happen within {after:?}; {}", came(.missing))]
    Late {
        /// The thing that was waited for.
        what: String,
        /// The time that was waited.
        after: Duration,
        /// The ranks that have not come to the store.
        missing: Vec<u32>,
    },
    /// A rank that this rank waits for is gone.
    #[error("rank {rank} is gone ({why}), so {what} cannot happen")]
    Gone {
        /// The thing that was waited for.
        what: String,
        /// The rank.
        rank: u32,
        /// The reason why the rank is gone.
        why: String,
    },
    /// The connection to the store has ended, or an answer was late or did not fit its request.
    #[error("the store of the job does not answer any more: {why}")]
    Lost {
        /// The reason of the failure.
        why: String,
    },
    /// A key or a value is too large, or the store is full.
    #[error("the store cannot hold {what} of {bytes} bytes: the limit is {most} bytes")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// The size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

fn came(missing: &[u32]) -> String {
    match missing {
        [] => "all ranks have come to the store of the job".into(),
        [one] => format!("rank {one} has not come to the store of the job"),
        many => format!("{} have not come to the store of the job", list(many)),
    }
}

/// The ranks, as text. Long lists are cut.
fn list(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = match ranks.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("ranks {}{more}", shown.join(", "))
}
