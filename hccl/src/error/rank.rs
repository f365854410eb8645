//! The error or panic that ended a rank of a run.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The error of the rank that failed first in [`Runtime::run_ranks`](crate::Runtime::run_ranks),
/// with its cause. Under a launcher, [`Runtime::run_job`](crate::Runtime::run_job) returns the
/// error of the rank of this process.
///
/// ```
/// use hccl::{Error, RankError, Runtime};
///
/// # let runtime = Runtime::emulator(2)?;
/// let outcome = runtime.run_ranks(2, |rank| match rank.index() {
///     1 => Err("no data for this rank"),
///     _ => Ok(()),
/// });
/// let Err(Error::Rank(error)) = outcome else { panic!("rank 1 has failed") };
/// let error: &RankError = &error;
/// assert_eq!((error.rank(), error.panicked()), (1, false));
/// println!("{}", error.cause());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct RankError {
    rank: u32,
    cause: Cause,
    /// The text of the cause. It is made only once, because other threads read it under a lock, and
    /// making it runs code of the program.
    text: Arc<str>,
}

pub(crate) type Cause = Arc<dyn StdError + Send + Sync>;

impl RankError {
    pub(crate) fn new(rank: u32, cause: Cause, text: Arc<str>) -> Self {
        RankError { rank, cause, text }
    }

    /// Returns the text of the cause.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the rank that failed.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the error of the rank's closure, or its panic.
    pub fn cause(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.cause
    }

    /// Returns whether the rank panicked.
    pub fn panicked(&self) -> bool {
        self.cause.is::<Panic>()
    }
}

impl fmt::Display for RankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.text)
    }
}

/// The text of this error includes the text of its [`cause`](RankError::cause). So `source` returns
/// the source of the cause, and a program that prints a chain of errors prints nothing twice.
impl StdError for RankError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.source()
    }
}

/// A panic as an error.
#[derive(Debug)]
pub(crate) struct Panic(String);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl StdError for Panic {}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        Panic(panic_text(payload))
    }
}

/// Returns the text of a panic.
pub(crate) fn panic_text(payload: Box<dyn std::any::Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    match text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) {
        Some(text) => text.to_owned(),
        None => {
            // Leaked, because dropping the payload may panic again.
            std::mem::forget(payload);
            "the panic payload is not a text".to_owned()
        }
    }
}
