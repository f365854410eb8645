//! The lookup of objects by the handles of the ABI, for each kind that several entries use.

use std::sync::Arc;

use super::arguments::Named;
use crate::count_notify::CountNotify;
use crate::event::Event;
use crate::fabric::{Member, registry};
use crate::kernel::binary::{self, Binary, KernelFunction};
use crate::message::Failure;
use crate::notify::Notify;
use crate::stream::Stream;

/// Looks up a rank of a communicator. NULL is an error.
impl Named for Member {
    type Found = Arc<Member>;

    #[inline]
    fn find(handle: u64) -> Result<Arc<Member>, Failure> {
        if handle == 0 { Err(Failure::null("comm")) } else { registry::member(handle) }
    }
}

/// Looks up a stream of the calling thread's context. NULL names the default stream.
impl Named for Stream {
    type Found = &'static Stream;

    #[inline]
    fn find(handle: u64) -> Result<&'static Stream, Failure> {
        Stream::of_current_context(handle)
    }
}

impl Named for Event {
    type Found = &'static Event;

    #[inline]
    fn find(handle: u64) -> Result<&'static Event, Failure> {
        Event::named(handle)
    }
}

impl Named for Notify {
    type Found = &'static Notify;

    #[inline]
    fn find(handle: u64) -> Result<&'static Notify, Failure> {
        Notify::named(handle)
    }
}

impl Named for CountNotify {
    type Found = &'static CountNotify;

    #[inline]
    fn find(handle: u64) -> Result<&'static CountNotify, Failure> {
        CountNotify::named(handle)
    }
}

/// Looks up a loaded binary.
impl Named for Binary {
    type Found = Arc<Binary>;

    #[inline]
    fn find(handle: u64) -> Result<Arc<Binary>, Failure> {
        binary::binary(handle)
    }
}

/// Looks up a function of a binary.
impl Named for KernelFunction {
    type Found = Arc<KernelFunction>;

    #[inline]
    fn find(handle: u64) -> Result<Arc<KernelFunction>, Failure> {
        binary::function(handle)
    }
}
