//! Copies and fills, at once and in a stream.
//!
//! Whatever its form, a copy is planned first: its sizes and both pointers are checked, and what comes of that is either run
//! on the calling thread or submitted.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_memory::resolve;
use super::arguments::Handle;
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::leaf::{Copy, Fill};
use crate::memory::{Bytes, MemoryPlace};
use crate::message::{Failure, fail};
use crate::profile::Product;
use crate::step::Step;
use crate::stream::Stream;
use crate::{capture, context, executor, machine, submit};
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
        run(ENTRY, kind, || Planned::row(dst, dest_max, src, count))
    }

    fn aclrtMemcpyAsync(
        dst: *mut c_void,
        dest_max: usize,
        src: *const c_void,
        count: usize,
        kind: aclrtMemcpyKind,
        stream: Handle<Stream>,
    ) {
        enqueue(ENTRY, kind, stream, || Planned::row(dst, dest_max, src, count))
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
        run(ENTRY, kind, || Planned::rows((dst, dpitch), (src, spitch), width, height))
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
        enqueue(ENTRY, kind, stream, || {
            Planned::rows((dst, dpitch), (src, spitch), width, height)
        })
    }

    fn aclrtMemset(dev_ptr: *mut c_void, max_count: usize, value: i32, count: usize) {
        may_block()?;
        check_sizes(dev_ptr, max_count, dev_ptr, count)?;
        let current = context::current()?;
        capture::may_act_at_once()?;
        let mut fill = Fill::new(resolve(dev_ptr, count, "devPtr")?.data, value as u8, count);
        submit::at_once(current.device, ENTRY, || fill.touches());
        run_now(|| fill.poll())
    }

    fn aclrtMemsetAsync(
        dev_ptr: *mut c_void,
        max_count: usize,
        value: i32,
        count: usize,
        stream: Handle<Stream>,
    ) {
        check_sizes(dev_ptr, max_count, dev_ptr, count)?;
        let stream = stream.find()?;
        let to = resolve(dev_ptr, count, "devPtr")?;
        if to.place == MemoryPlace::Pageable {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "devPtr is pageable host memory");
        }
        let fill = Fill::new(to.data, value as u8, count);
        submit::submit(stream, ENTRY, fill).map(drop)
    }
}

/// A copy whose arguments are right.
struct Planned {
    copy: Copy,
    /// Nobody knows how long pageable host memory lives.
    pageable: bool,
}

impl Planned {
    /// A copy of `count` bytes; `None` if they are where they shall be.
    #[inline]
    fn row(
        dst: *mut c_void,
        most: usize,
        src: *const c_void,
        count: usize,
    ) -> Result<Option<Planned>, Failure> {
        check_sizes(dst, most, src, count)?;
        if dst.cast_const() == src {
            return Ok(None);
        }
        Planned::checked((dst, count), (src, count), |to, from| Copy::new(to, from, count))
            .map(Some)
    }

    /// A copy of `height` rows of `width` bytes, which begin a pitch apart.
    fn rows(
        (dst, dpitch): (*mut c_void, usize),
        (src, spitch): (*const c_void, usize),
        width: usize,
        height: usize,
    ) -> Result<Option<Planned>, Failure> {
        if dst.is_null() || src.is_null() || width == 0 || height == 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "dst or src is NULL, or width or height is 0"
            );
        }
        if width > dpitch || width > spitch || width > MOST_WIDTH || height > MOST_HEIGHT {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "width {width} with pitches {dpitch} and {spitch}, height {height}: the width must fit both pitches and \
                 {MOST_WIDTH}, the height {MOST_HEIGHT}"
            );
        }
        let extent =
            |pitch: usize| pitch.checked_mul(height - 1).and_then(|most| most.checked_add(width));
        let (Some(to), Some(from)) = (extent(dpitch), extent(spitch)) else {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "pitch times height overflows");
        };
        Planned::checked((dst, to), (src, from), |to, from| {
            Copy::new(to, from, width).rows(height, dpitch, spitch)
        })
        .map(Some)
    }

    #[inline]
    fn checked(
        (dst, written): (*mut c_void, usize),
        (src, read): (*const c_void, usize),
        copy: impl FnOnce(*mut u8, *mut u8) -> Copy,
    ) -> Result<Planned, Failure> {
        let (to, from) = (resolve(dst, written, "dst")?, resolve(src, read, "src")?);
        check_devices(to, from)?;
        let pageable = to.place == MemoryPlace::Pageable || from.place == MemoryPlace::Pageable;
        Ok(Planned { copy: copy(to.data, from.data), pageable })
    }
}

/// Runs a copy on the calling thread, in no stream.
fn run(
    call: &'static str,
    kind: aclrtMemcpyKind,
    plan: impl FnOnce() -> Result<Option<Planned>, Failure>,
) -> Result<(), Failure> {
    may_block()?;
    check_kind(kind)?;
    let current = context::current()?;
    capture::may_act_at_once()?;
    match plan()? {
        Some(Planned { mut copy, .. }) => {
            submit::at_once(current.device, call, || copy.touches());
            run_now(|| copy.poll())
        }
        None => Ok(()),
    }
}

/// Submits a copy. With pageable host memory it is done before the call returns.
#[inline]
fn enqueue(
    call: &'static str,
    kind: aclrtMemcpyKind,
    stream: Handle<Stream>,
    plan: impl FnOnce() -> Result<Option<Planned>, Failure>,
) -> Result<(), Failure> {
    check_kind(kind)?;
    if kind == aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "there is no asynchronous copy from host to host"
        );
    }
    let stream = stream.find()?;
    let Some(Planned { copy, pageable }) = plan()? else { return Ok(()) };
    if pageable {
        may_block()?;
        capture::may_copy_pageable(stream)?;
    }
    let ticket = submit::submit(stream, call, copy)?;
    if pageable {
        executor::wait(stream, ticket, None);
    }
    Ok(())
}

/// The size limits of pitched copies.
const MOST_WIDTH: usize = 5_000_000;
const MOST_HEIGHT: usize = 5 << 20;

#[inline]
fn check_sizes(
    dst: *const c_void,
    most: usize,
    src: *const c_void,
    count: usize,
) -> Result<(), Failure> {
    if dst.is_null() || src.is_null() || count == 0 || count > most {
        return bad_sizes(dst, most, src, count);
    }
    Ok(())
}

#[cold]
fn bad_sizes(
    dst: *const c_void,
    most: usize,
    src: *const c_void,
    count: usize,
) -> Result<(), Failure> {
    let what = match () {
        () if dst.is_null() => "dst is NULL".to_string(),
        () if src.is_null() => "src is NULL".to_string(),
        () if count == 0 => "count is 0".to_string(),
        () => format!("count is {count}, but destMax is only {most}"),
    };
    fail!(ACL_ERROR_RT_PARAM_INVALID, "{what}")
}

fn check_kind(kind: aclrtMemcpyKind) -> Result<(), Failure> {
    if kind.0 > aclrtMemcpyKind::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE.0 {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "kind is {}, which no aclrtMemcpyKind has",
            kind.0
        );
    }
    Ok(())
}

/// Whether one device may reach the memory of the other in a copy.
#[inline]
fn check_devices(dst: Bytes, src: Bytes) -> Result<(), Failure> {
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
            "devices {from} and {to} belong to different blocks"
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

/// Runs a task on the calling thread, in no stream.
fn run_now(mut poll: impl FnMut() -> Step) -> Result<(), Failure> {
    loop {
        if let Step::Done(result) = poll() {
            return result;
        }
    }
}
