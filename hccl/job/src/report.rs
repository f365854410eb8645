//! The failures that ranks have reported to the store.

/// A failure that a rank has reported, before it ended.
///
/// ```
/// use hccl_job::{Report, StoreServer};
///
/// let server = StoreServer::start(4, "a secret")?;
/// // ... the ranks have run, and some have failed ...
/// let reports: Vec<Report> = server.reports();
/// if let Some(first) = reports.iter().find(|report| !report.follows) {
///     eprintln!("rank {} failed first: {}", first.rank, first.text);
/// }
/// # Ok::<(), hccl_job::JobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of the rank.
    pub rank: u32,
    /// The text of the rank's error.
    pub text: String,
    /// Whether the rank failed because another rank was gone.
    pub follows: bool,
}
