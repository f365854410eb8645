//! Ends contexts, devices and blocks, and all objects that a program has on them, in every module.

use crate::count_notify::CountNotify;
use crate::fabric::{cluster, registry};
use crate::kernel::binary;
use crate::machine::primary::{DeviceEnd, Reset};
use crate::machine::{self, TakenBlock};
use crate::message::Failure;
use crate::notify::Notify;
use crate::operator::{resources, task_cache};
use crate::slots::{HandleKind, unknown};
use crate::step::Reason;
use crate::stream::{STREAMS, unfinished_on};
use crate::{
    capture, check, context, executor, faults, ipc, later, operator, poll, stream_end, stream_pool,
    timeline, virtual_memory,
};
use ascend_sys::ACL_ERROR_RT_CONTEXT_RELEASE_ERROR;

/// Ends a context and its streams; queued tasks fail. Returns false if the context is already gone.
fn end_context(handle: u64) -> bool {
    context::destroy(handle, |stream| {
        stream_end::destroy(stream, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, Reason::Gone);
    })
}

/// `aclrtDestroyContext`: ends a context. Refuses the primary context.
pub(crate) fn destroy_context(handle: u64) -> Result<(), Failure> {
    context::is_not_primary(handle)?;
    if !end_context(handle) {
        return Err(unknown(HandleKind::Context, handle));
    }
    context::forget_current(|current| current.context == handle);
    Ok(())
}

/// `aclrtResetDevice` and `aclrtResetDeviceForce`: the last reset waits for the work of the primary
/// context, then ends all objects that the process has on the device. It does not wait for tasks
/// that a stopped stream holds back. If another thread sets the device meanwhile, the reset ends
/// nothing. With `force`, the first reset ends the objects without this wait.
pub(crate) fn reset_device(id: i32, force: bool) -> Result<(), Failure> {
    let device = machine::find_device(id)?;
    let end = match context::count_reset(device, force)? {
        Reset::Counted => None,
        Reset::Last { context, round } => {
            for stream in context::streams(context) {
                let last = stream.queue.submitted();
                // If the device was set again, this may be work of other threads, which a later
                // reset waits for.
                if !device.primary.is_in(round) {
                    return Ok(());
                }
                executor::wait_before_end(stream, last);
            }
            device.primary.end_of(device.id, round)
        }
        // There may be work that cannot finish, so this does not wait.
        Reset::Ends(end) => Some(end),
    };
    let by = if force { "aclrtResetDeviceForce" } else { "aclrtResetDevice" };
    if let Some(end) = end {
        device.end_settings();
        end_all(&end, by);
        context::forget_current(|current| current.device == device.id);
    }
    Ok(())
}

/// Releases a block. Its streams, contexts and memory are gone afterwards; queued tasks fail. Waits
/// only for the pieces of work that are running.
pub(crate) fn destroy_block(number: u32) -> Result<(), Failure> {
    let block = machine::withdraw_block(number)?;
    let contexts = block.ids().map(|id| &machine::device_slot(id).primary).collect();
    end_all(&DeviceEnd::of(block.ids(), contexts), "ascendExtBlockDestroy");
    check::close(number);
    timeline::forget(number);
    block.ids().for_each(|id| faults::forget(machine::device_slot(id)));
    // Another process may still reach memory of the block, and so may a task that cannot give up
    // yet.
    let is_used = |block: &TakenBlock| {
        let mut streams = STREAMS.all().filter(|stream| block.ids().contains(&stream.device_id()));
        streams.any(|stream| !stream.queue.is_idle())
            || block.ids().any(|id| machine::device_slot(id).memory.is_held())
    };
    if !is_used(&block) {
        return machine::reuse_block(block);
    }
    let mut block = Some(block);
    later::until_done(move || match block.take_if(|block| !is_used(block)) {
        // It was withdrawn, so no other thread has it.
        Some(block) => machine::reuse_block(block).is_ok(),
        None => block.is_none(),
    });
    Ok(())
}

/// Ends all objects on some devices, such as contexts, streams and allocations.
fn end_all(end: &DeviceEnd, by: &'static str) {
    let devices = end.devices();
    Notify::destroy_all(devices);
    CountNotify::destroy_all(devices);
    ipc::exports::end_on(devices);
    ipc::memory::end_imports_on(devices);
    operator::open::end_on(devices);
    operator::dedicated::end_on(devices);
    let why = format!("{by} ended its device");
    cluster::leave(devices, &why);
    registry::destroy_all(devices, &why);
    resources::end_threads(devices);
    task_cache::forget(devices);
    capture::destroy_all(devices);
    binary::unload_all(devices);
    end.forget_contexts();
    // First all streams refuse new tasks and give up, then each is waited for, because they may
    // wait for one another.
    let streams = STREAMS.live().filter(|stream| devices.contains(&stream.device_id()));
    poll::stop_together(streams, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, &Reason::Gone);
    for context in context::of_devices(devices) {
        end_context(context);
    }
    virtual_memory::end_on(devices, by);
    stream_pool::end_on(devices);
    for id in devices.clone() {
        let mut held = operator::abroad::held_on(id);
        held.extend(ipc::exports::held_on(id));
        machine::device_slot(id).free_all(by, unfinished_on, &held);
    }
}
