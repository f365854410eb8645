//! Devices and contexts.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{abi_entry, limit, out};
use crate::callback::may_block;
use crate::message::{Failure, fail};
use crate::stream::STREAMS;
use crate::{capture, context, ending, executor, machine};
use ascend_sys::{
    ACL_ERROR_FEATURE_UNSUPPORTED, ACL_ERROR_RT_INVALID_DEVICEID, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
    Functions, aclError, aclrtContext, aclrtDeviceStatus, aclrtStream,
};
use std::time::{Duration, Instant};

pub(super) fn fill(table: &mut Functions) {
    table.aclrtSetDevice = Some(aclrtSetDevice);
    table.aclrtResetDevice = Some(aclrtResetDevice);
    table.aclrtResetDeviceForce = Some(aclrtResetDeviceForce);
    table.aclrtGetDevice = Some(aclrtGetDevice);
    table.aclrtGetDeviceCount = Some(aclrtGetDeviceCount);
    table.aclrtQueryDeviceStatus = Some(aclrtQueryDeviceStatus);
    table.aclrtSynchronizeDevice = Some(aclrtSynchronizeDevice);
    table.aclrtSynchronizeDeviceWithTimeout = Some(aclrtSynchronizeDeviceWithTimeout);
    table.aclrtDeviceCanAccessPeer = Some(aclrtDeviceCanAccessPeer);
    table.aclrtDeviceEnablePeerAccess = Some(aclrtDeviceEnablePeerAccess);
    table.aclrtDeviceDisablePeerAccess = Some(aclrtDeviceDisablePeerAccess);
    table.aclrtDevicePeerAccessStatus = Some(aclrtDevicePeerAccessStatus);
    table.aclrtCreateContext = Some(aclrtCreateContext);
    table.aclrtDestroyContext = Some(aclrtDestroyContext);
    table.aclrtSetCurrentContext = Some(aclrtSetCurrentContext);
    table.aclrtGetCurrentContext = Some(aclrtGetCurrentContext);
    table.aclrtCtxGetCurrentDefaultStream = Some(aclrtCtxGetCurrentDefaultStream);
}

unsafe extern "C" fn aclrtSetDevice(device_id: i32) -> aclError {
    abi_entry("aclrtSetDevice", || context::set_device(device_id))
}

unsafe extern "C" fn aclrtResetDevice(device_id: i32) -> aclError {
    abi_entry("aclrtResetDevice", || {
        may_block()?;
        ending::reset_device(device_id, false)
    })
}

unsafe extern "C" fn aclrtResetDeviceForce(device_id: i32) -> aclError {
    abi_entry("aclrtResetDeviceForce", || {
        may_block()?;
        ending::reset_device(device_id, true)
    })
}

unsafe extern "C" fn aclrtGetDevice(device_id: *mut i32) -> aclError {
    abi_entry("aclrtGetDevice", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(device_id, "deviceId") }?.write(context::current()?.device as i32);
        Ok(())
    })
}

unsafe extern "C" fn aclrtGetDeviceCount(count: *mut u32) -> aclError {
    abi_entry("aclrtGetDeviceCount", || {
        // SAFETY: null, or valid for a write by the C contract.
        let count = unsafe { out(count, "count") }?;
        let block = machine::default_block()
            .map_err(|text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text))?;
        count.write(block.count);
        Ok(())
    })
}

unsafe extern "C" fn aclrtQueryDeviceStatus(
    device_id: i32,
    status: *mut aclrtDeviceStatus,
) -> aclError {
    abi_entry("aclrtQueryDeviceStatus", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "deviceStatus") }?;
        machine::find_device(device_id)?;
        status.write(aclrtDeviceStatus::ACL_RT_DEVICE_STATUS_NORMAL);
        Ok(())
    })
}

unsafe extern "C" fn aclrtSynchronizeDevice() -> aclError {
    abi_entry("aclrtSynchronizeDevice", || synchronise(None))
}

unsafe extern "C" fn aclrtSynchronizeDeviceWithTimeout(timeout: i32) -> aclError {
    abi_entry("aclrtSynchronizeDeviceWithTimeout", || synchronise(limit(timeout)?))
}

fn synchronise(limit: Option<Duration>) -> Result<(), Failure> {
    may_block()?;
    let (_, device) = context::current_device()?;
    capture::nothing_captured_on(device.id)?;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut result = Ok(());
    for stream in STREAMS.live().filter(|stream| stream.device_id() == device.id) {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if !executor::wait(stream, stream.queue.submitted(), left) {
            return fail!(
                ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                "device {} is not idle after {:?}: {}",
                device.id,
                limit.unwrap_or_default(),
                stream.waiting_for()
            );
        }
        if result.is_ok() {
            result = stream.take_unreported();
        }
    }
    result
}

/// Two devices that a program names together.
fn pair(device: i32, peer: i32) -> Result<(u32, u32), Failure> {
    let (device, peer) = (machine::find_device(device)?, machine::find_device(peer)?);
    if device.id == peer.id {
        return fail!(
            ACL_ERROR_RT_INVALID_DEVICEID,
            "device {} and its peer are the same",
            device.id
        );
    }
    if device.block() != peer.block() {
        return fail!(
            ACL_ERROR_RT_INVALID_DEVICEID,
            "devices {} and {} belong to different blocks",
            device.id,
            peer.id
        );
    }
    Ok((device.id, peer.id))
}

unsafe extern "C" fn aclrtDeviceCanAccessPeer(
    can_access: *mut i32,
    device_id: i32,
    peer_id: i32,
) -> aclError {
    abi_entry("aclrtDeviceCanAccessPeer", || {
        // SAFETY: null, or valid for a write by the C contract.
        let can_access = unsafe { out(can_access, "canAccessPeer") }?;
        pair(device_id, peer_id)?;
        can_access.write(1);
        Ok(())
    })
}

unsafe extern "C" fn aclrtDeviceEnablePeerAccess(peer_id: i32, flags: u32) -> aclError {
    abi_entry("aclrtDeviceEnablePeerAccess", || {
        let current = context::current()?;
        let (device, peer) = pair(current.device as i32, peer_id)?;
        if flags != 0 {
            return fail!(ACL_ERROR_FEATURE_UNSUPPORTED, "flags is {flags}; it must be 0");
        }
        machine::device_slot(device).peers().insert(peer);
        Ok(())
    })
}

unsafe extern "C" fn aclrtDeviceDisablePeerAccess(peer_id: i32) -> aclError {
    abi_entry("aclrtDeviceDisablePeerAccess", || {
        let current = context::current()?;
        let (device, peer) = pair(current.device as i32, peer_id)?;
        machine::device_slot(device).peers().remove(&peer);
        Ok(())
    })
}

unsafe extern "C" fn aclrtDevicePeerAccessStatus(
    device_id: i32,
    peer_id: i32,
    status: *mut i32,
) -> aclError {
    abi_entry("aclrtDevicePeerAccessStatus", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "status") }?;
        let (device, peer) = pair(device_id, peer_id)?;
        status.write(machine::device_slot(device).peers().contains(&peer).into());
        Ok(())
    })
}

unsafe extern "C" fn aclrtCreateContext(context: *mut aclrtContext, device_id: i32) -> aclError {
    abi_entry("aclrtCreateContext", || {
        // SAFETY: null, or valid for a write by the C contract.
        let context = unsafe { out(context, "context") }?;
        context.write(context::create_context(device_id)? as aclrtContext);
        Ok(())
    })
}

unsafe extern "C" fn aclrtDestroyContext(context: aclrtContext) -> aclError {
    abi_entry("aclrtDestroyContext", || {
        may_block()?;
        ending::destroy_context(context as u64)
    })
}

unsafe extern "C" fn aclrtSetCurrentContext(context: aclrtContext) -> aclError {
    abi_entry("aclrtSetCurrentContext", || context::set_current(context as u64))
}

unsafe extern "C" fn aclrtGetCurrentContext(context: *mut aclrtContext) -> aclError {
    abi_entry("aclrtGetCurrentContext", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(context, "context") }?.write(context::current()?.context as aclrtContext);
        Ok(())
    })
}

unsafe extern "C" fn aclrtCtxGetCurrentDefaultStream(stream: *mut aclrtStream) -> aclError {
    abi_entry("aclrtCtxGetCurrentDefaultStream", || {
        // SAFETY: null, or valid for a write by the C contract.
        let stream = unsafe { out(stream, "stream") }?;
        stream.write(context::default_stream(context::current()?)? as aclrtStream);
        Ok(())
    })
}
