//! The future that a group returns.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::order::work::Work;

/// A future of the outcome of all operations of an issued [`group`](super::group).
///
/// Wait for it as a whole, or iterate over it to get one [`Work`] for each communicator. Like a
/// `Work`, it only watches the operations, and may be dropped.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// # let devices = [runtime.device(0)?, runtime.device(1)?];
/// # let streams = [devices[0].stream()?, devices[1].stream()?];
/// # let mut comms = Communicator::init_all(&devices).wait()?;
/// # let mut xs = [devices[0].zeros::<f32>(4, &streams[0])?, devices[1].zeros(4, &streams[1])?];
/// let work = hccl::group(|group| {
///     for ((comm, stream), x) in comms.iter_mut().zip(&streams).zip(&mut xs) {
///         group.on(comm, stream).all_reduce_in_place(x, Sum);
///     }
///     Ok(())
/// })?;
/// for (rank, work) in work.into_iter().enumerate() {
///     println!("rank {rank}: {:?}", work.wait()); // or `work.wait()?` on the whole
/// }
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub struct GroupWork(pub(super) Vec<Work>);

impl GroupWork {
    /// Blocks until all operations are complete. The runtime's deadline limits the wait for each
    /// communicator. Returns the first error in the order of the communicators.
    pub fn wait(&self) -> Result<()> {
        self.0.iter().map(Work::wait).fold(Ok(()), Result::and)
    }

    /// Blocks as [`wait`](Self::wait) does, but for at most `limit` in total.
    pub fn wait_timeout(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        let left = || limit.saturating_sub(start.elapsed());
        self.0.iter().map(|work| work.wait_timeout(left())).fold(Ok(()), Result::and)
    }

    /// Returns whether all operations are complete. Does not block.
    pub fn is_done(&self) -> bool {
        self.0.iter().all(Work::is_done)
    }
}

impl Future for GroupWork {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut outcome = Ok(());
        for work in &mut self.0 {
            match Pin::new(work).poll(cx) {
                // This `Work` wakes the task, and the next poll continues with the next `Work`. A
                // complete `Work` may be polled again.
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ended) => outcome = outcome.and(ended),
            }
        }
        Poll::Ready(outcome)
    }
}

/// Iterates over one [`Work`] for each communicator that has operations in the group, in the order
/// of the calls of [`Group::on`](super::Group::on).
impl IntoIterator for GroupWork {
    type Item = Work;
    type IntoIter = std::vec::IntoIter<Work>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
