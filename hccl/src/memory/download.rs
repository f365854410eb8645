//! Downloads: copies of device memory to a `Vec` or a slice.

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

/// A copy to the host that has been enqueued. It is a future of the data; code that is not
/// asynchronous calls [`wait`](Self::wait).
///
/// The device writes to a pinned block of the runtime. The data is copied to a `Vec` when the
/// download is awaited. If you drop the download, the runtime reuses the block when the device has
/// finished the copy.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let x = device.upload(&[1, 2], &stream)?;
/// let download = x.to_vec(&stream); // the copy is on its way
/// // ... other work ...
/// assert_eq!(download.wait()?, [1, 2]); // or `.await`
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "the data is lost unless the download is awaited"]
pub struct Download<T: Element> {
    landing: Landing,
    len: usize,
    marker: PhantomData<fn() -> T>,
}

/// A copy to the caller's slice that has been enqueued. It is a future; code that is not
/// asynchronous calls [`wait`](Self::wait). See
/// [`DeviceBuffer::download_into`](super::DeviceBuffer::download_into).
///
/// The device writes to a pinned block of the runtime. The data is copied to the slice when the
/// download is awaited. After an error the slice is unchanged.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let x = device.upload(&[1, 2], &stream)?;
/// let mut host = [0; 4];
/// x.download_into(&mut host[2..], &stream).wait()?; // or `.await`
/// assert_eq!(host, [0, 0, 1, 2]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "the slice is left as it is unless the download is awaited"]
pub struct DownloadInto<'d, T: Element> {
    landing: Landing,
    destination: &'d mut [T],
}

/// A pinned block that a device writes to.
struct Landing {
    operation: &'static str,
    /// The copy and its block, or the error if the copy was refused. `Err(None)` after the outcome
    /// has been taken.
    state: Result<(Work, Owned), Option<Error>>,
}

impl<T: Element> Download<T> {
    /// Issues the copy for the method `operation`.
    pub(super) fn new(operation: &'static str, source: &Region<'_>, stream: &Stream) -> Self {
        let landing = Landing::new(operation, transfer::download(operation, source, stream));
        Self { landing, len: source.bytes() / size_of::<T>(), marker: PhantomData }
    }

    #[cfg(feature = "ndarray")]
    pub(super) fn refused(operation: &'static str, error: Error) -> Self {
        Self { landing: Landing::new(operation, Err(error)), len: 0, marker: PhantomData }
    }

    /// Blocks until the copy is complete, up to the runtime's deadline, and returns the data.
    pub fn wait(self) -> Result<Vec<T>> {
        Ok(transfer::read_block(&self.landing.wait()?, self.len))
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `limit`. After a timeout the data is
    /// lost.
    pub fn wait_timeout(self, limit: Duration) -> Result<Vec<T>> {
        Ok(transfer::read_block(&self.landing.wait_timeout(limit)?, self.len))
    }

    /// Returns whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.landing.is_done()
    }
}

impl<'d, T: Element> DownloadInto<'d, T> {
    pub(super) fn new(source: &Region<'_>, destination: &'d mut [T], stream: &Stream) -> Self {
        let operation = "download_into";
        let len = destination.len();
        let begun = transfer::check_length::<T>(operation, "the destination", source, len)
            .and_then(|()| transfer::download(operation, source, stream));
        Self { landing: Landing::new(operation, begun), destination }
    }

    /// Blocks until the copy is complete, up to the runtime's deadline, and writes the data to the
    /// slice.
    pub fn wait(self) -> Result<()> {
        transfer::read_block_into(&self.landing.wait()?, self.destination);
        Ok(())
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `limit`. After a timeout the data is
    /// lost, and the slice is unchanged.
    pub fn wait_timeout(self, limit: Duration) -> Result<()> {
        transfer::read_block_into(&self.landing.wait_timeout(limit)?, self.destination);
        Ok(())
    }

    /// Returns whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.landing.is_done()
    }
}

impl Landing {
    fn new(operation: &'static str, begun: Result<(Work, Owned)>) -> Self {
        Landing { operation, state: begun.map_err(Some) }
    }

    fn wait(self) -> Result<Owned> {
        let (work, block) = self.state.map_err(|error| taken(self.operation, error))?;
        work.wait()?;
        work.host_reads()?;
        Ok(block)
    }

    fn wait_timeout(self, limit: Duration) -> Result<Owned> {
        let (work, block) = self.state.map_err(|error| taken(self.operation, error))?;
        work.wait_timeout(limit)?;
        work.host_reads()?;
        Ok(block)
    }

    fn is_done(&self) -> bool {
        self.state.as_ref().map_or(true, |(work, _)| work.is_done())
    }

    /// Returns the block when the device has written it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Owned>> {
        let outcome = match &mut self.state {
            Ok((work, _)) => ready!(Pin::new(&mut *work).poll(cx)).and_then(|()| work.host_reads()),
            Err(_) => Ok(()),
        };
        let landed = std::mem::replace(&mut self.state, Err(None));
        Poll::Ready(outcome.and_then(|()| match landed {
            Ok((_, block)) => Ok(block),
            Err(error) => Err(taken(self.operation, error)),
        }))
    }
}

fn taken(operation: &'static str, error: Option<Error>) -> Error {
    error.unwrap_or(Error::Invalid {
        operation,
        problem:
            "the download was polled again after it had given its result: use the first result"
                .into(),
    })
}

impl<T: Element> Future for Download<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let block = ready!(self.landing.poll(cx));
        Poll::Ready(block.map(|block| transfer::read_block(&block, self.len)))
    }
}

impl<T: Element> Future for DownloadInto<'_, T> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let block = ready!(self.landing.poll(cx));
        Poll::Ready(block.map(|block| transfer::read_block_into(&block, self.destination)))
    }
}
