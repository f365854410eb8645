//! Checked mode: accesses to memory that nothing orders, found whether or not they met this time.
//!
//! A block of devices that is checked has an [`Engine`], which keeps happens-before: a vector clock for each
//! stream and one for the host ([`clock`]), and for every byte who wrote it and who has read it since ([`shadow`]). What is
//! wrong is a [`finding::Finding`], told once on standard error and kept with the block.
//!
//! The engine hears of an operation from a [`Note`]: a task of its own, which goes into the stream before the operation, says
//! what that will touch, and carries what the host knew when it issued it. So other tasks know nothing of all this, and a block
//! that is not checked pays one load and one branch for each call.
//!
//! # Which edges there are
//!
//! | from | to |
//! |---|---|
//! | a task | the next task of its stream |
//! | a call of the host | the work that is enqueued by that call and by later ones |
//! | the record of an event | a stream that has waited for it; the host, when a call says that it is complete |
//! | the record of a notify | the wait that it ended |
//! | all work of a stream | the host, after a synchronise, a query that says complete, or a call that waited for it |
//! | the work before a host function | the host, when the function runs; and what the host knows when it returns, to the work behind it |
//! | the work before a collective, on every rank | the work behind it on every rank that needs that rank's data |
//! | the work before a send and its receive | the work behind the other one |
//!
//! The threads of the host count as one: what one of them was told, all know. They have ways to tell each other that cannot be
//! seen here, and a finding must never be wrong. The progress line of a stream (`ascendExtStreamProgress`) could tell the host
//! something without a call, so a checked block gives none.

mod clock;
mod engine;
mod finding;
mod note;
mod operations;
mod shadow;
mod svg;

pub(crate) use clock::Lane;
pub(crate) use engine::Engine;
pub(crate) use note::{
    Note, begins, event_passed, host_saw, host_saw_everything, host_saw_mark, marks,
    notify_cleared, notify_set, notify_taken, returns_to_stream, runs_on_host, was_done,
    will_be_done,
};
pub(crate) use operations::{Batch, collective, touches};
pub(crate) use shadow::{Operation, Touch};

use crate::memory;
use crate::sync::lock_std as lock;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the lane of the host is called.
const HOST_NAME: &str = "the host";

struct Checked {
    block: u32,
    devices: Range<u32>,
    engine: Arc<Engine>,
}

static CHECKED: Mutex<Vec<Checked>> = Mutex::new(Vec::new());
/// How many blocks are checked: the rule is none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Begins to watch the devices of a block.
pub(crate) fn open(block: u32, devices: Range<u32>) {
    let mut checked = lock(&CHECKED);
    checked.push(Checked { block, devices, engine: Arc::default() });
    COUNT.store(checked.len(), Ordering::Release);
}

/// The block is gone, and with it its findings.
pub(crate) fn close(block: u32) {
    let mut checked = lock(&CHECKED);
    checked.retain(|one| one.block != block);
    COUNT.store(checked.len(), Ordering::Release);
}

/// Whether any block is checked.
#[inline]
pub(crate) fn is_on() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// The engine of a device, if its block is checked.
#[inline]
pub(crate) fn engine(device: u32) -> Option<Arc<Engine>> {
    if is_on() { find(|one| one.devices.contains(&device)) } else { None }
}

/// The engine of a block, if it is checked.
pub(crate) fn engine_of_block(block: u32) -> Option<Arc<Engine>> {
    find(|one| one.block == block)
}

#[cold]
fn find(mut wanted: impl FnMut(&Checked) -> bool) -> Option<Arc<Engine>> {
    lock(&CHECKED).iter().find(|one| wanted(one)).map(|one| one.engine.clone())
}

/// A finding as text or as a picture.
pub(crate) fn tell(engine: &Engine, index: u32, picture: bool) -> Option<String> {
    let finding = engine.finding(index)?;
    Some(if picture { svg::draw(&finding) } else { finding.to_string() })
}

/// An operation of the host itself: `what` it does in the function `call`.
fn by_host(what: String, call: &str, touches: Vec<Touch>) -> Arc<Operation> {
    let (place, issued) = (HOST_NAME.into(), issued(call));
    Arc::new(Operation { what, place, member: None, issued, touches })
}

/// "aclrtMemcpyAsync on thread "main"".
fn issued(call: &str) -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) => format!("{call} on thread \"{name}\""),
        None => format!("{call} on thread {:?}", thread.id()),
    }
}

/// Memory of a device or of the host was allocated.
#[inline]
pub(crate) fn allocated(device: u32, pool: &memory::pool::Pool, start: usize, pinned: bool) {
    if let Some(engine) = engine(device)
        && let Some((name, size)) = pool.name_of(start)
    {
        // What the host writes to its own memory is seen nowhere.
        engine.allocated(start..start + size, &name, pinned);
    }
}

/// Host memory was registered.
#[inline]
pub(crate) fn registered(device: u32, start: usize, size: usize) {
    if let Some(engine) = engine(device) {
        let name = format!("registered host memory at {start:#x} ({size} bytes)");
        engine.allocated(start..start.saturating_add(size), &name, true);
    }
}

/// Memory is about to be freed, by the function `call`. Pinned memory may be known to several blocks.
#[inline]
pub(crate) fn freed(device: Option<u32>, start: usize, call: &'static str) {
    if is_on() {
        tell_freed(device, start, call);
    }
}

#[cold]
fn tell_freed(device: Option<u32>, start: usize, call: &'static str) {
    let operation = by_host("free".into(), call, Vec::new());
    every_engine(device).iter().for_each(|engine| engine.freed(start, &operation));
}

/// Those that may know memory of a device, or of the host.
fn every_engine(device: Option<u32>) -> Vec<Arc<Engine>> {
    lock(&CHECKED)
        .iter()
        .filter(|one| device.is_none_or(|device| one.devices.contains(&device)))
        .map(|one| one.engine.clone())
        .collect()
}

/// The host has touched pinned memory in no call.
#[inline]
pub(crate) fn host_accessed(start: usize, bytes: usize, write: bool) {
    if is_on() {
        let touch = if write { Touch::write } else { Touch::read };
        let what = format!("access to {bytes} bytes");
        let operation = by_host(what, "by itself", vec![touch(start, bytes)]);
        every_engine(None).iter().for_each(|engine| engine.host_touches(&operation));
    }
}

/// All memory of a device is gone.
pub(crate) fn forget(device: u32, addresses: Range<usize>) {
    if let Some(engine) = engine(device) {
        engine.forget(addresses);
    }
}

/// The host touches memory in the function `call`: `what` and which bytes.
#[inline]
pub(crate) fn host_touches(
    device: u32,
    call: &'static str,
    describe: impl FnOnce() -> (String, Vec<Touch>),
) {
    if let Some(engine) = engine(device) {
        let (what, touches) = describe();
        engine.host_touches(&by_host(what, call, touches));
    }
}
