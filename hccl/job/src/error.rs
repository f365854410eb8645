//! The errors of a job.

use std::time::Duration;

/// The longest key of a store, in bytes.
pub const MAX_KEY: usize = 256;

/// The longest value of a store, in bytes: 64 KiB.
pub const MAX_VALUE: usize = 64 << 10;

/// The largest number of bytes that a store holds: 64 MiB. Keys, values, counters and reports of
/// failures count.
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
    /// A variable of the launcher has an impossible value.
    #[error("the environment variable {name} is \"{value}\", but {rule}")]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// The value of the variable.
        value: String,
        /// The rule that the value breaks, and the remedy.
        rule: String,
    },
    /// A variable that belongs to another variable is not set.
    #[error("the environment variable {name} is not set, but {why}")]
    Unset {
        /// The name of the variable.
        name: &'static str,
        /// The reason why the variable is needed, and the remedy.
        why: String,
    },
    /// The store could not be reached in time.
    #[error(
        "rank {rank} cannot reach the store of its job at {place} within {after:?}: {why}. {host}"
    )]
    Unreachable {
        /// The number of this rank.
        rank: u32,
        /// The addresses of the store.
        place: String,
        /// The time for which this rank has tried.
        after: Duration,
        /// The text of the last error.
        why: String,
        /// A sentence that names the process which serves the store, and says what to check.
        host: &'static str,
    },
    /// This process cannot serve the store.
    #[error(
        "the store of the job cannot be served at {place}: {why}; check that this address belongs \
         to this machine and is free"
    )]
    NotServed {
        /// The address.
        place: String,
        /// The reason.
        why: String,
    },
    /// The store has refused this rank.
    #[error("the store of the job at {place} has refused rank {rank}: {why}")]
    Refused {
        /// The number of this rank.
        rank: u32,
        /// The address of the store.
        place: String,
        /// The reason that the store gave.
        why: String,
    },
    /// A value or a generation did not come in time.
    #[error("{what} did not happen within {after:?}; {}", came(.missing))]
    Late {
        /// The awaited event, for example "the meeting of all ranks".
        what: String,
        /// The time limit of the wait.
        after: Duration,
        /// The ranks that have not come: to the meeting that is awaited, or to the store.
        missing: Vec<u32>,
    },
    /// A rank that this rank waits for is gone or done, or the job is done.
    #[error(
        "rank {rank} is gone ({why}), so {what} cannot happen; see the output of rank {rank} for \
         the cause"
    )]
    Gone {
        /// The awaited event, for example "the meeting of all ranks".
        what: String,
        /// The number of the rank that is gone.
        rank: u32,
        /// The reason why the rank is gone.
        why: String,
    },
    /// The connection to the store has ended, or an answer was late or did not fit its request.
    #[error("the store of the job does not answer any more: {why}; start the job again")]
    Lost {
        /// The reason of the failure.
        why: String,
    },
    /// A key or a value is too large, or the store is full.
    #[error(
        "the store cannot hold {what} of {bytes} bytes: the limit is {most} bytes; store less, and \
         send large data with a communicator"
    )]
    TooLarge {
        /// The kind of data that is too large: a key, a value or a total.
        what: &'static str,
        /// The size of the data in bytes.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
}

fn came(missing: &[u32]) -> String {
    match missing {
        [] => "all ranks have come to the store of the job; check that they make the same calls"
            .into(),
        [_] => format!(
            "{} not come; check that it has started and makes the same calls, or raise the time \
             limit",
            have(missing)
        ),
        _ => format!(
            "{} not come; check that they have started and make the same calls, or raise the time \
             limit",
            have(missing)
        ),
    }
}

/// Returns ranks with the verb: "rank 1 has", "ranks 1, 3 have".
pub(crate) fn have(ranks: &[u32]) -> String {
    match ranks {
        [one] => format!("rank {one} has"),
        many => format!("{} have", list(many)),
    }
}

/// Returns the ranks as text. Cuts a long list.
fn list(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = match ranks.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("ranks {}{more}", shown.join(", "))
}
