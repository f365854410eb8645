//! Helpers for captures: modes, states, and captured tasks.

use crate::common::{D2D, malloc};
use crate::{fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;

pub const GLOBAL: aclmdlRICaptureMode = aclmdlRICaptureMode(0);
pub const THREAD_LOCAL: aclmdlRICaptureMode = aclmdlRICaptureMode(1);
pub const RELAXED: aclmdlRICaptureMode = aclmdlRICaptureMode(2);

pub const NONE: u32 = 0;
pub const ACTIVE: u32 = 1;
pub const INVALIDATED: u32 = 2;

pub fn event() -> aclrtEvent {
    event_with(ACL_EVENT_SYNC)
}

pub fn event_with(flag: u32) -> aclrtEvent {
    let mut event = null_mut();
    ok!(aclrtCreateEventExWithFlag(&mut event, flag));
    event
}

pub fn status(stream: aclrtStream) -> (u32, aclmdlRI) {
    let (mut status, mut graph) = (aclmdlRICaptureStatus(7), null_mut());
    ok!(aclmdlRICaptureGetInfo(stream, &mut status, &mut graph));
    (status.0, graph)
}

pub fn end(stream: aclrtStream) -> aclmdlRI {
    let mut graph = null_mut();
    ok!(aclmdlRICaptureEnd(stream, &mut graph));
    assert!(!graph.is_null());
    graph
}

/// Calls an End that must fail with this code and a text that contains `piece`. The End must return
/// no graph.
pub fn end_fails(stream: aclrtStream, code: aclError, piece: &str) {
    let mut graph = std::ptr::dangling_mut();
    fails!(code, [piece], aclmdlRICaptureEnd(stream, &mut graph));
    assert!(graph.is_null());
}

/// Returns a buffer in which every byte is `value`.
pub fn filled(bytes: usize, value: i32) -> *mut c_void {
    let pointer = malloc(bytes);
    ok!(aclrtMemset(pointer, bytes, value, bytes));
    pointer
}

pub fn set(pointer: *mut c_void, bytes: usize, value: i32, stream: aclrtStream) {
    ok!(aclrtMemsetAsync(pointer, bytes, value, bytes, stream));
}

pub fn copy(to: *mut c_void, from: *const c_void, bytes: usize, stream: aclrtStream) {
    ok!(aclrtMemcpyAsync(to, bytes, from, bytes, D2D, stream));
}
