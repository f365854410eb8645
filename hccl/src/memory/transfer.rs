//! The copies between host and device, and between two places on a device.
//!
//! Invariant: both sides of a copy are stamped before the copy is enqueued. So until the copy is
//! complete, both ranges stay allocated, and the host does not access them. The host memory of a
//! copy is always an allocation with stamps, pinned or registered, and never an ordinary slice of
//! the caller.

use std::mem::MaybeUninit;

use ascend_sys::aclrtMemcpyKind;

use super::allocation::{Owned, Region};
use crate::device::state::handle;
use crate::device::{Stream, StreamState};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::order::issue::{Issued, Operation};
use crate::order::work::Work;

pub(super) fn check_length<T>(
    operation: &'static str,
    what: &'static str,
    expected: &Region<'_>,
    found: usize,
) -> Result<()> {
    let expected = expected.bytes() / size_of::<T>();
    if expected == found {
        Ok(())
    } else {
        Err(Error::WrongLength { operation, what, expected, found })
    }
}

#[inline]
fn enqueue<S: StreamState>(
    name: &'static str,
    source: (&Region<'_>, &'static str),
    destination: (&Region<'_>, &'static str),
    kind: aclrtMemcpyKind,
    stream: &Stream<S>,
) -> Result<S::Work> {
    handle(stream, enqueue_copy(name, source, destination, kind, stream), name)
}

#[inline(never)]
fn enqueue_copy<S: StreamState>(
    name: &'static str,
    (source, source_name): (&Region<'_>, &'static str),
    (destination, destination_name): (&Region<'_>, &'static str),
    kind: aclrtMemcpyKind,
    stream: &Stream<S>,
) -> Result<Issued> {
    let bytes = source.bytes();
    let touches = [source.read(source_name), destination.write(destination_name)];
    source.before_device_reads();
    S::issue(stream, Operation::new(name), &touches, |raw| {
        let mut at = 0;
        // CANN refuses to copy zero bytes. All bytes are one piece, unless one of the two regions
        // is registered memory.
        while at < bytes {
            let ((from, piece), (to, room)) = (source.piece(at), destination.piece(at));
            let piece = piece.min(room);
            // SAFETY: both regions are stamped (the invariant of the module) and have `bytes`
            // bytes. From these places on, both have at least `piece` bytes.
            unsafe { stream.table().copy(to, from.cast_const(), piece, kind, raw) }?;
            if at == 0 {
                // Noted after the first piece, so that it holds even if a later piece is refused.
                destination.device_writes();
            }
            at += piece;
        }
        Ok(())
    })
}

/// Copies between two regions of one device.
#[inline]
pub(crate) fn copy<T: Element, S: StreamState>(
    source: &Region<'_>,
    destination: &Region<'_>,
    stream: &Stream<S>,
) -> Result<S::Work> {
    let operation = "copy_from";
    check_length::<T>(operation, "the source", destination, source.bytes() / size_of::<T>())?;
    // Only foreign memory can overlap. The borrow checker rules out all other overlaps.
    let bytes = source.overlap(destination);
    if bytes != 0 {
        return Err(Error::Overlap { operation, bytes });
    }
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
    enqueue(operation, (source, "the source"), (destination, "the destination"), kind, stream)
}

/// Copies the caller's data to a device, through a pinned block, for the method `operation`.
pub(crate) fn upload<T: Element>(
    operation: &'static str,
    destination: &Region<'_>,
    data: &[T],
    stream: &Stream,
) -> Result<Work> {
    check_length::<T>(operation, "the data", destination, data.len())?;
    upload_with(operation, destination, stream, |block: *mut T| {
        // SAFETY: the block has room for the elements of the destination, which has as many as
        // `data`. The block does not overlap `data`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), block, data.len()) }
    })
}

/// Copies data to a device as [`upload`] does. `fill` writes exactly the destination's elements to
/// the pinned block.
pub(super) fn upload_with<T: Element>(
    operation: &'static str,
    destination: &Region<'_>,
    stream: &Stream,
    fill: impl FnOnce(*mut T),
) -> Result<Work> {
    let block = Owned::pinned(stream.device(), destination.bytes())?;
    block.host_touches(&(0..destination.bytes()), true);
    fill(block.pointer().cast());
    let source = block.region(0..destination.bytes());
    let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
    // The block is dropped here while it is in use. The pool keeps it until the copy is complete.
    let (from, to) = ((&source, "the pinned block"), (destination, "the destination"));
    enqueue(operation, from, to, kind, stream)
}

/// Copies device memory to a pinned block. The caller may read the block when the work is complete.
pub(crate) fn download(
    name: &'static str,
    source: &Region<'_>,
    stream: &Stream,
) -> Result<(Work, Owned)> {
    let block = Owned::pinned(stream.device(), source.bytes())?;
    let destination = block.region(0..source.bytes());
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
    let (from, to) = ((source, "the source"), (&destination, "the pinned block"));
    let work = enqueue(name, from, to, kind, stream)?;
    Ok((work, block))
}

/// Returns the first `len` elements of a pinned block. The download to the block is complete.
pub(crate) fn read_block<T: Element>(block: &Owned, len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    read_into(block, &mut values.spare_capacity_mut()[..len]);
    // SAFETY: all of them have been written.
    unsafe { values.set_len(len) };
    values
}

/// Copies the first elements of a pinned block to `places`. The download to the block is complete.
fn read_into<T: Element>(block: &Owned, places: &mut [MaybeUninit<T>]) {
    let bytes = size_of_val(places);
    debug_assert!(bytes <= block.bytes());
    block.host_touches(&(0..bytes), false);
    // SAFETY: the block holds this many elements (it was the target of a download of as many
    // bytes), it is aligned (to a page), and no device uses it any more. Any bits are a valid
    // element. The places are borrowed mutably.
    unsafe {
        let first = block.pointer().cast::<MaybeUninit<T>>();
        std::ptr::copy_nonoverlapping(first, places.as_mut_ptr(), places.len());
    }
}

/// Copies the first elements of a pinned block to a slice. The download to the block is complete.
pub(super) fn read_block_into<T: Element>(block: &Owned, destination: &mut [T]) {
    let (first, len) = (destination.as_mut_ptr().cast(), destination.len());
    // SAFETY: the elements are borrowed mutably, and only initialised ones are written to them.
    read_into::<T>(block, unsafe { std::slice::from_raw_parts_mut(first, len) });
}

pub(crate) fn copy_to_host<T: Element>(
    source: &Region<'_>,
    host: &Region<'_>,
    stream: &Stream,
) -> Result<Work> {
    check_length::<T>("copy_to", HOST, source, host.bytes() / size_of::<T>())?;
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
    enqueue("copy_to", (source, "the source"), (host, HOST), kind, stream)
}

pub(crate) fn copy_from_host<T: Element>(
    host: &Region<'_>,
    destination: &Region<'_>,
    stream: &Stream,
) -> Result<Work> {
    let operation = "copy_from_host";
    check_length::<T>(operation, HOST, destination, host.bytes() / size_of::<T>())?;
    let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
    enqueue(operation, (host, HOST), (destination, "the destination"), kind, stream)
}

const HOST: &str = "the host buffer";

#[inline]
pub(crate) fn fill_zero<S: StreamState>(
    destination: &Region<'_>,
    stream: &Stream<S>,
) -> Result<S::Work> {
    handle(stream, enqueue_zeros(destination, stream), FILL_ZERO)
}

const FILL_ZERO: &str = "fill_zero";

#[inline(never)]
fn enqueue_zeros<S: StreamState>(destination: &Region<'_>, stream: &Stream<S>) -> Result<Issued> {
    let touches = [destination.write("the destination")];
    S::issue(stream, Operation::new(FILL_ZERO), &touches, |raw| {
        // CANN refuses to fill zero bytes.
        if destination.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: the region is stamped (the invariant of the module).
        unsafe { stream.table().fill(destination.pointer(), 0, destination.bytes(), raw) }
    })
}
