//! Device memory on its way to a `Vec`.

#![forbid(unsafe_code)]

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::allocation::{Owned, Region};
use super::transfer;
use crate::device::Stream;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::order::work::Work;

/// A copy to the host that has been enqueued: a future, and [`wait`](Self::wait) for code that is not asynchronous.
///
/// The device writes to a pinned block of the runtime; the data moves to a `Vec` when the download is awaited. Dropping it
/// gives the block back when the device is done with it.
#[must_use = "the data is lost unless the download is awaited"]
pub struct Download<T: Element> {
    state: Result<(Work, Owned), Option<Error>>,
    len: usize,
    marker: PhantomData<fn() -> T>,
}

impl<T: Element> Download<T> {
    pub(super) fn new(source: &Region<'_>, stream: &Stream) -> Self {
        let state = transfer::download(source, stream).map_err(Some);
        Self { state, len: source.bytes() / size_of::<T>(), marker: PhantomData }
    }

    #[cfg(feature = "ndarray")]
    pub(super) fn refused(error: Error) -> Self {
        Self { state: Err(Some(error)), len: 0, marker: PhantomData }
    }

    /// Waits for the data, up to the runtime's deadline.
    pub fn wait(self) -> Result<Vec<T>> {
        let (work, block) = self.state.map_err(taken)?;
        work.wait()?;
        Ok(transfer::read_block(&block, self.len))
    }

    /// Waits for the data, up to `limit`. After a timeout the download is gone.
    pub fn wait_timeout(self, limit: Duration) -> Result<Vec<T>> {
        let (work, block) = self.state.map_err(taken)?;
        work.wait_timeout(limit)?;
        Ok(transfer::read_block(&block, self.len))
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.state.as_ref().map_or(true, |(work, _)| work.is_done())
    }
}

fn taken(error: Option<Error>) -> Error {
    error.unwrap_or(Error::Invalid {
        operation: "to_vec",
        problem: "the download was polled again after it had given its result".into(),
    })
}

impl<T: Element> Future for Download<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let len = self.len;
        let result = match &mut self.state {
            Ok((work, block)) => {
                ready!(Pin::new(work).poll(cx)).map(|()| transfer::read_block(block, len))
            }
            Err(error) => Err(taken(error.take())),
        };
        self.state = Err(None);
        Poll::Ready(result)
    }
}
