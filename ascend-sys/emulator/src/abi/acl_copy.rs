//! The entries for copies and fills, on the calling thread or in a stream.
//!
//! A copy of any form is planned first: its sizes and both pointers are checked. The plan is then
//! run on the calling thread or submitted to a stream.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_memory::resolve;
use super::arguments::Handle;
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::leaf::{Copy, Fill, WORD};
use crate::memory::{Bytes, MemoryPlace};
use crate::message::{Failure, fail};
use crate::profile::Product;
use crate::step::Step;
use crate::stream::Stream;
use crate::{capture, context, executor, ipc, machine, submit};
use ascend_sys::{ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyKind};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtMemcpy(
        dst: *mut c_void,
        dest_max: usize,
        src: *const c_void,
        count: usize,
        kind: aclrtMemcpyKind,
    ) {
        run(ENTRY, kind, |how| Planned::row(dst, dest_max, src, count, how))
    }

    fn aclrtMemcpyAsync(
        dst: *mut c_void,
        dest_max: usize,
        src: *const c_void,
        count: usize,
        kind: aclrtMemcpyKind,
        stream: Handle<Stream>,
    ) {
        enqueue(ENTRY, kind, stream, |how| Planned::row(dst, dest_max, src, count, how))
    }

    fn aclrtMemcpyAsyncWithCondition(
        dst: *mut c_void,
        dest_max: usize,
        src: *const c_void,
        count: usize,
        kind: aclrtMemcpyKind,
        stream: Handle<Stream>,
    ) {
        enqueue(ENTRY, kind, stream, |how| Planned::row(dst, dest_max, src, count, how))
    }

    fn aclrtMemcpy2d(
        dst: *mut c_void,
        dpitch: usize,
        src: *const c_void,
        spitch: usize,
        width: usize,
        height: usize,
        kind: aclrtMemcpyKind,
    ) {
        run(ENTRY, kind, |how| Planned::rows((dst, dpitch), (src, spitch), width, height, how))
    }

    fn aclrtMemcpy2dAsync(
        dst: *mut c_void,
        dpitch: usize,
        src: *const c_void,
        spitch: usize,
        width: usize,
        height: usize,
        kind: aclrtMemcpyKind,
        stream: Handle<Stream>,
    ) {
        enqueue(ENTRY, kind, stream, |how| {
            Planned::rows((dst, dpitch), (src, spitch), width, height, how)
        })
    }

    fn aclrtMemset(dev_ptr: *mut c_void, max_count: usize, value: i32, count: usize) {
        may_block()?;
        check_fill(dev_ptr, max_count, count)?;
        fill_now(ENTRY, dev_ptr, count, "devPtr", |to| Fill::new(to, value as u8, count))
    }

    fn aclrtMemsetAsync(
        dev_ptr: *mut c_void,
        max_count: usize,
        value: i32,
        count: usize,
        stream: Handle<Stream>,
    ) {
        check_fill(dev_ptr, max_count, count)?;
        fill_later(ENTRY, dev_ptr, count, "devPtr", stream, |to| Fill::new(to, value as u8, count))
    }

    fn aclrtMemsetD32(ptr: *mut c_void, mem_size: usize, value: u32, n: usize) {
        may_block()?;
        let bytes = words(ptr, mem_size, n)?;
        fill_now(ENTRY, ptr, bytes, "ptr", |to| Fill::words(to, value, bytes))
    }

    fn aclrtMemsetD32Async(
        ptr: *mut c_void,
        mem_size: usize,
        value: u32,
        n: usize,
        stream: Handle<Stream>,
    ) {
        let bytes = words(ptr, mem_size, n)?;
        fill_later(ENTRY, ptr, bytes, "ptr", stream, |to| Fill::words(to, value, bytes))
    }
}

/// Returns the number of bytes of `n` words. Returns an error if `ptr` is NULL, if `n` is 0, or if
/// the words do not fit into `mem_size` bytes.
fn words(ptr: *mut c_void, mem_size: usize, n: usize) -> Result<usize, Failure> {
    match n.checked_mul(WORD) {
        _ if ptr.is_null() => {
            fail!(ACL_ERROR_RT_PARAM_INVALID, "ptr is NULL; pass the address of the memory to fill")
        }
        Some(bytes) if bytes > 0 && bytes <= mem_size => Ok(bytes),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "N is {n} words of {WORD} bytes, but memSize is {mem_size} bytes; pass at least one \
             word, and no more words than fit"
        ),
    }
}

/// Runs a fill of `bytes` bytes on the calling thread.
fn fill_now(
    call: &'static str,
    start: *mut c_void,
    bytes: usize,
    argument: &str,
    fill: impl FnOnce(*mut u8) -> Fill,
) -> Result<(), Failure> {
    let current = context::current()?;
    capture::may_act_at_once()?;
    let mut fill = fill(resolve(start, bytes, argument)?.data);
    submit::at_once(current.device, call, || fill.touches());
    run_now(|| fill.poll())
}

/// Submits a fill of `bytes` bytes. The memory must be device memory or pinned.
fn fill_later(
    call: &'static str,
    start: *mut c_void,
    bytes: usize,
    argument: &str,
    stream: Handle<Stream>,
    fill: impl FnOnce(*mut u8) -> Fill,
) -> Result<(), Failure> {
    let stream = stream.find()?;
    let to = resolve(start, bytes, argument)?;
    if to.place == MemoryPlace::Pageable {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{argument} is pageable host memory; use device memory (aclrtMalloc) or pinned memory \
             (aclrtMallocHost)"
        );
    }
    may_reach(stream, to.place)?;
    submit::submit(stream, call, fill(to.data)).map(drop)
}

/// The properties of the call that makes a copy.
#[derive(Clone, Copy)]
pub(super) struct CopyManner {
    /// Whether the kind of the copy is from device to device.
    is_between_devices: bool,
    /// Whether the copy runs on the calling thread, without a stream.
    at_once: bool,
}

impl CopyManner {
    #[inline]
    pub(super) fn new(kind: aclrtMemcpyKind, at_once: bool) -> Self {
        let is_between_devices = matches!(
            kind,
            aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE
                | aclrtMemcpyKind::ACL_MEMCPY_INNER_DEVICE_TO_DEVICE
                | aclrtMemcpyKind::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE
        );
        Self { is_between_devices, at_once }
    }
}

/// A copy whose arguments were checked.
pub(super) struct Planned {
    pub(super) copy: Copy,
    pub(super) to: MemoryPlace,
    pub(super) from: MemoryPlace,
}

impl Planned {
    /// Returns whether the copy uses pageable host memory. The program may free that memory when
    /// the call returns.
    #[inline]
    pub(super) fn is_pageable(&self) -> bool {
        self.to == MemoryPlace::Pageable || self.from == MemoryPlace::Pageable
    }

    /// Checks that the copy may be a task of a stream.
    #[inline]
    pub(super) fn may_run_in(&self, stream: &Stream) -> Result<(), Failure> {
        may_reach(stream, self.to)?;
        may_reach(stream, self.from)
    }

    /// Plans a copy of `count` bytes. Returns `None` if source and destination are the same.
    #[inline]
    pub(super) fn row(
        dst: *mut c_void,
        most: usize,
        src: *const c_void,
        count: usize,
        how: CopyManner,
    ) -> Result<Option<Planned>, Failure> {
        check_sizes(dst, most, src, count)?;
        if dst.cast_const() == src {
            return Ok(None);
        }
        Planned::checked((dst, count), (src, count), how, |to, from| Copy::new(to, from, count))
            .map(Some)
    }

    /// Plans a copy of `height` rows of `width` bytes. The pitches are the distances in bytes
    /// between the starts of two rows.
    fn rows(
        (dst, dpitch): (*mut c_void, usize),
        (src, spitch): (*const c_void, usize),
        width: usize,
        height: usize,
        how: CopyManner,
    ) -> Result<Option<Planned>, Failure> {
        if dst.is_null() || src.is_null() || width == 0 || height == 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "dst is {dst:?}, src is {src:?}, width is {width} and height is {height}; pass two \
                 addresses, and sizes of at least 1"
            );
        }
        if width > dpitch || width > spitch || width > MOST_WIDTH || height > MOST_HEIGHT {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "width is {width}, dpitch {dpitch}, spitch {spitch} and height {height}; pass a \
                 width of at most {MOST_WIDTH} and of at most both pitches, and a height of at \
                 most {MOST_HEIGHT}"
            );
        }
        let extent =
            |pitch: usize| pitch.checked_mul(height - 1).and_then(|most| most.checked_add(width));
        let (Some(to), Some(from)) = (extent(dpitch), extent(spitch)) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "dpitch {dpitch} or spitch {spitch} times height {height} is beyond all addresses; \
                 pass smaller values"
            );
        };
        Planned::checked((dst, to), (src, from), how, |to, from| {
            Copy::new(to, from, width).rows(height, dpitch, spitch)
        })
        .map(Some)
    }

    #[inline]
    fn checked(
        (dst, written): (*mut c_void, usize),
        (src, read): (*const c_void, usize),
        how: CopyManner,
        copy: impl FnOnce(*mut u8, *mut u8) -> Copy,
    ) -> Result<Planned, Failure> {
        let (to, from) = (resolve(dst, written, "dst")?, resolve(src, read, "src")?);
        check_devices(to, from)?;
        let ends = ((dst.addr(), to.place), (src.addr(), from.place));
        ipc::memory::may_copy(ends.0, ends.1, how.is_between_devices, how.at_once)?;
        Ok(Planned { copy: copy(to.data, from.data), to: to.place, from: from.place })
    }
}

/// Runs a copy on the calling thread, without a stream.
fn run(
    call: &'static str,
    kind: aclrtMemcpyKind,
    plan: impl FnOnce(CopyManner) -> Result<Option<Planned>, Failure>,
) -> Result<(), Failure> {
    may_block()?;
    check_kind(kind)?;
    let current = context::current()?;
    capture::may_act_at_once()?;
    match plan(CopyManner::new(kind, true))? {
        Some(Planned { mut copy, .. }) => {
            submit::at_once(current.device, call, || copy.touches());
            run_now(|| copy.poll())
        }
        None => Ok(()),
    }
}

/// Submits a copy. A copy of pageable host memory is complete when the call returns.
#[inline]
fn enqueue(
    call: &'static str,
    kind: aclrtMemcpyKind,
    stream: Handle<Stream>,
    plan: impl FnOnce(CopyManner) -> Result<Option<Planned>, Failure>,
) -> Result<(), Failure> {
    check_kind(kind)?;
    if kind == aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "there is no asynchronous copy from host to host; use aclrtMemcpy"
        );
    }
    let stream = stream.find()?;
    let Some(planned) = plan(CopyManner::new(kind, false))? else {
        return Ok(());
    };
    planned.may_run_in(stream)?;
    let pageable = planned.is_pageable();
    if pageable {
        may_block()?;
        capture::may_copy_pageable(stream)?;
    }
    let ticket = submit::submit(stream, call, planned.copy)?;
    if pageable {
        executor::wait(stream, ticket, None);
    }
    Ok(())
}

/// The largest width in bytes of a pitched copy.
const MOST_WIDTH: usize = 5_000_000;
const MOST_HEIGHT: usize = 5 << 20;

#[inline]
pub(super) fn check_sizes(
    dst: *const c_void,
    most: usize,
    src: *const c_void,
    count: usize,
) -> Result<(), Failure> {
    check_arguments([(dst, "dst"), (src, "src")], count, (most, "destMax"))
}

#[inline]
fn check_fill(start: *const c_void, most: usize, count: usize) -> Result<(), Failure> {
    check_arguments([(start, "devPtr")], count, (most, "maxCount"))
}

/// Returns an error if a pointer is null, or if the count is 0 or more than `most`. Each value is
/// passed with the name of its argument.
#[inline]
pub(super) fn check_arguments<const N: usize>(
    pointers: [(*const c_void, &str); N],
    count: usize,
    most: (usize, &str),
) -> Result<(), Failure> {
    if pointers.iter().any(|(pointer, _)| pointer.is_null()) || count == 0 || count > most.0 {
        return bad_sizes(&pointers, count, most);
    }
    Ok(())
}

#[cold]
fn bad_sizes(
    pointers: &[(*const c_void, &str)],
    count: usize,
    (most, name): (usize, &str),
) -> Result<(), Failure> {
    let what = match pointers.iter().find(|(pointer, _)| pointer.is_null()) {
        Some((_, pointer)) => format!("{pointer} is NULL; pass the address of memory"),
        None if count == 0 => "count is 0; pass at least 1".to_string(),
        None => format!(
            "count is {count}, but {name} is only {most}; pass a smaller count or a larger {name}"
        ),
    };
    fail!(ACL_ERROR_RT_PARAM_INVALID, "{what}")
}

fn check_kind(kind: aclrtMemcpyKind) -> Result<(), Failure> {
    if kind.0 > aclrtMemcpyKind::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE.0 {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "kind is {}, which is not an aclrtMemcpyKind; pass 0 to 7",
            kind.0
        );
    }
    Ok(())
}

/// Checks that a task of a stream may access memory. Host memory and memory of the stream's own
/// device are always possible. Memory of another device is possible if both devices belong to one
/// block, and either the product is A3 or one of the two has enabled access to the other.
#[inline]
pub(super) fn may_reach(stream: &Stream, place: MemoryPlace) -> Result<(), Failure> {
    match place {
        MemoryPlace::Device(id) if id != stream.device_id() => check_peers(id, stream.device_id()),
        _ => Ok(()),
    }
}

/// Checks that a copy may go between the devices of `dst` and `src`.
#[inline]
pub(super) fn check_devices(dst: Bytes, src: Bytes) -> Result<(), Failure> {
    match (dst.place, src.place) {
        (MemoryPlace::Device(to), MemoryPlace::Device(from)) if to != from => check_peers(to, from),
        _ => Ok(()),
    }
}

#[cold]
fn check_peers(to: u32, from: u32) -> Result<(), Failure> {
    let (a, b) = (machine::device_slot(to), machine::device_slot(from));
    if a.block() != b.block() {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "devices {from} and {to} belong to different blocks; use memory of devices of one block"
        );
    }
    if a.product() != Product::A3 && !a.peers().contains(&from) && !b.peers().contains(&to) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "no access between devices {from} and {to}; call aclrtDeviceEnablePeerAccess first"
        );
    }
    Ok(())
}

/// Runs a task on the calling thread until it is done.
pub(super) fn run_now(mut poll: impl FnMut() -> Step) -> Result<(), Failure> {
    loop {
        if let Step::Done(result) = poll() {
            return result;
        }
    }
}
