//! The checked blocks, and the hooks that report allocations and actions of the host to their
//! checkers.

use super::engine::Checker;
use super::finding::HOST_NAME;
use super::issuer::AsHost;
use super::reached;
use super::shadow::CheckedOperation;
use super::svg;
use crate::memory::pool::MemoryPool;
use crate::task::Touch;
use ascend_sync::lock_std as lock;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

struct Checked {
    block: u32,
    devices: Range<u32>,
    engine: Arc<Checker>,
}

static CHECKED: Mutex<Vec<Checked>> = Mutex::new(Vec::new());
/// The number of checked blocks, which is usually 0.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Begins to check the devices of a block.
pub(crate) fn open(block: u32, devices: Range<u32>) {
    let mut checked = lock(&CHECKED);
    checked.push(Checked { block, devices, engine: Arc::default() });
    COUNT.store(checked.len(), Ordering::Release);
}

/// Ends the checks of a block that is removed. Its findings are dropped.
pub(crate) fn close(block: u32) {
    let mut checked = lock(&CHECKED);
    checked.retain(|one| one.block != block);
    COUNT.store(checked.len(), Ordering::Release);
}

/// Returns whether any block is checked.
#[inline]
pub(crate) fn is_on() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Returns the checker of a device, if its block is checked.
#[inline]
pub(crate) fn engine(device: u32) -> Option<Arc<Checker>> {
    if is_on() { find(|one| one.devices.contains(&device)) } else { None }
}

/// Returns the checker of a block, if the block is checked.
pub(crate) fn engine_of_block(block: u32) -> Option<Arc<Checker>> {
    find(|one| one.block == block)
}

#[cold]
fn find(mut wanted: impl FnMut(&Checked) -> bool) -> Option<Arc<Checker>> {
    lock(&CHECKED).iter().find(|one| wanted(one)).map(|one| one.engine.clone())
}

/// Returns a finding as text or as a picture (SVG). Returns `None` if there is no finding with this
/// index.
pub(crate) fn tell(engine: &Checker, index: u32, picture: bool) -> Option<String> {
    let finding = engine.finding(index)?;
    Some(if picture { svg::draw(&finding) } else { finding.to_string() })
}

/// Makes an operation of the host itself. `what` describes it, and `call` is the function.
pub(super) fn by_host(what: String, call: &str, touches: Vec<Touch>) -> Arc<CheckedOperation> {
    let (place, issued) = (HOST_NAME.into(), issued(call));
    Arc::new(CheckedOperation { what, place, process: None, member: None, issued, touches })
}

/// Returns a description of the call: `aclrtMemcpyAsync on thread "main"`.
pub(super) fn issued(call: &str) -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) => format!("{call} on thread \"{name}\""),
        None => format!("{call} on thread {:?}", thread.id()),
    }
}

/// Reports an allocation to the checkers: memory of a device, or, with `pinned`, host memory for
/// this device.
#[inline]
pub(crate) fn allocated(device: u32, pool: &MemoryPool, start: usize, pinned: bool) {
    if is_on()
        && let Some((name, size)) = pool.name_of(start)
    {
        // The checker does not see the host's writes to its own memory.
        tell_allocated((!pinned).then_some(device), start..start + size, &name);
    }
}

/// Reports a new window for kernels to the checker of a device.
pub(crate) fn window_opened(device: u32, place: Range<usize>, name: impl FnOnce() -> String) {
    if let Some(engine) = engine(device) {
        engine.window_opened(place, &name());
    }
}

/// Reports to all checkers that other processes may write the memory at an address from now on,
/// without a report.
pub(crate) fn written_by_others(address: usize) {
    if is_on() {
        every_engine(None).iter().for_each(|engine| engine.lent(address));
    }
}

/// Reports to all checkers that host memory was registered.
#[inline]
pub(crate) fn registered(start: usize, size: usize) {
    if is_on() {
        let name = format!("registered host memory at {start:#x} ({size} bytes)");
        tell_allocated(None, start..start.saturating_add(size), &name);
    }
}

/// Reports new memory to the checkers. Actions on host memory are reported to all checkers:
/// allocations, frees and accesses by the host.
#[cold]
fn tell_allocated(device: Option<u32>, place: Range<usize>, name: &str) {
    let pinned = device.is_none();
    every_engine(device).iter().for_each(|engine| engine.allocated(place.clone(), name, pinned));
}

/// Reports to the checkers that the function `call` is about to free memory. Pinned memory may be
/// reported to several checkers.
#[inline]
pub(crate) fn freed(device: Option<u32>, start: usize, call: &'static str) {
    if is_on() {
        tell_freed(device, start, call, false);
    }
}

/// Reports that the function `call` unregisters host memory. The function has waited for all work
/// on the memory.
#[inline]
pub(crate) fn unregistered(start: usize, call: &'static str) {
    if is_on() {
        tell_freed(None, start, call, true);
    }
}

#[cold]
fn tell_freed(device: Option<u32>, start: usize, call: &'static str, has_waited: bool) {
    let operation = by_host("free".into(), call, Vec::new());
    every_engine(device).iter().for_each(|engine| engine.freed(start, &operation, has_waited));
}

/// Returns the checker of a device, or all checkers for memory of the host.
fn every_engine(device: Option<u32>) -> Vec<Arc<Checker>> {
    lock(&CHECKED)
        .iter()
        .filter(|one| device.is_none_or(|device| one.devices.contains(&device)))
        .map(|one| one.engine.clone())
        .collect()
}

/// Reports that the host has accessed pinned memory outside of any call.
#[inline]
pub(crate) fn host_accessed(start: usize, bytes: usize, write: bool) {
    if is_on() {
        let touch = if write { Touch::write } else { Touch::read };
        let what = format!("access to {bytes} bytes");
        let operation = by_host(what, "by itself", vec![touch(start, bytes)]);
        for engine in every_engine(None) {
            engine.host_touches(&operation);
        }
    }
}

/// Reports that all memory of a device is gone.
pub(crate) fn forget(device: u32, addresses: impl FnOnce() -> Range<usize>) {
    if let Some(engine) = engine(device) {
        engine.forget(addresses());
    }
}

/// Reports that the host touches memory in the function `call`. `describe` returns the description
/// and the accesses.
#[inline]
pub(crate) fn host_touches(
    device: u32,
    call: &'static str,
    describe: impl FnOnce() -> (String, Vec<Touch>),
) {
    if let Some(engine) = engine(device) {
        let _host = AsHost::begin(&engine);
        let (what, touches) = describe();
        let operation = by_host(what, call, touches);
        let at = engine.host_touches(&operation);
        reached::tell_touches(&engine, at, &operation);
    }
}

/// Reports that the host sets a signal in the function `call`.
#[inline]
pub(crate) fn host_sets(device: u32, signal: u64, name: impl FnOnce() -> String, call: &str) {
    if let Some(engine) = engine(device) {
        let _host = AsHost::begin(&engine);
        let name = name();
        let operation = by_host(format!("record of {name}"), call, Vec::new());
        engine.host_sets(signal, &name, &operation);
    }
}

/// Reports that the host has waited for a signal in the function `call`, and has taken it.
#[inline]
pub(crate) fn host_takes(device: u32, signal: u64, name: impl FnOnce() -> String, call: &str) {
    if let Some(engine) = engine(device) {
        let _host = AsHost::begin(&engine);
        engine.host_takes(signal, &by_host(format!("wait for {}", name()), call, Vec::new()));
    }
}

/// Reports that the host has received data or a signal from another process, in a call that does
/// not belong to a device.
pub(crate) fn host_is_told_by_others() {
    if is_on() {
        every_engine(None).iter().for_each(|engine| engine.host_is_told());
    }
}

/// Reports that the host has received data or a signal from a process that sends nothing to
/// checkers.
#[cold]
pub(crate) fn host_is_told(device: u32) {
    if let Some(engine) = engine(device) {
        engine.host_is_told();
    }
}
