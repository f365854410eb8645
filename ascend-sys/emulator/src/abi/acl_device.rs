//! Devices and contexts.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Milliseconds, Out};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::message::{Failure, fail};
use crate::stream::STREAMS;
use crate::{capture, context, ending, executor, machine};
use ascend_sys::{
    ACL_ERROR_FEATURE_UNSUPPORTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_INVALID_DEVICEID,
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtContext, aclrtDevAttr, aclrtDeviceStatus, aclrtStream,
};
use std::time::{Duration, Instant};

entries! {
    Acl;

    fn aclrtSetDevice(device_id: i32) {
        context::set_device(device_id)
    }

    fn aclrtGetDevice(device_id: Out<i32>) {
        device_id.required("deviceId")?.write(context::current()?.device as i32);
        Ok(())
    }

    fn aclrtGetDeviceCount(count: Out<u32>) {
        let count = count.required("count")?;
        let block = machine::default_block()
            .map_err(|text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text))?;
        count.write(block.count);
        Ok(())
    }

    fn aclrtGetDeviceInfo(device_id: u32, attr: aclrtDevAttr, value: Out<i64>) {
        let value = value.required("value")?;
        let id = i32::try_from(device_id).unwrap_or(i32::MAX);
        let product = machine::find_device(id)?.product();
        let number = match attr {
            // A core of the AI kind is a cube core with its vector cores.
            aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM
            | aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM => product.cube_cores(),
            aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM => product.vector_cores(),
            other => {
                return fail!(
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "attr is {}; an emulated device tells its numbers of cores",
                    other.0
                );
            }
        };
        value.write(number.into());
        Ok(())
    }

    fn aclrtQueryDeviceStatus(device_id: i32, status: Out<aclrtDeviceStatus>) {
        let status = status.required("deviceStatus")?;
        machine::find_device(device_id)?;
        status.write(aclrtDeviceStatus::ACL_RT_DEVICE_STATUS_NORMAL);
        Ok(())
    }

    fn aclrtSynchronizeDevice() {
        synchronise(None)
    }

    fn aclrtSynchronizeDeviceWithTimeout(timeout: Milliseconds) {
        synchronise(timeout.limit()?)
    }

    fn aclrtDeviceCanAccessPeer(can_access: Out<i32>, device_id: i32, peer_id: i32) {
        let can_access = can_access.required("canAccessPeer")?;
        pair(device_id, peer_id)?;
        can_access.write(1);
        Ok(())
    }

    fn aclrtDeviceEnablePeerAccess(peer_id: i32, flags: u32) {
        let current = context::current()?;
        let (device, peer) = pair(current.device as i32, peer_id)?;
        if flags != 0 {
            return fail!(ACL_ERROR_FEATURE_UNSUPPORTED, "flags is {flags}; it must be 0");
        }
        machine::device_slot(device).peers().insert(peer);
        Ok(())
    }

    fn aclrtDeviceDisablePeerAccess(peer_id: i32) {
        let current = context::current()?;
        let (device, peer) = pair(current.device as i32, peer_id)?;
        machine::device_slot(device).peers().remove(&peer);
        Ok(())
    }

    fn aclrtDevicePeerAccessStatus(device_id: i32, peer_id: i32, status: Out<i32>) {
        let status = status.required("status")?;
        let (device, peer) = pair(device_id, peer_id)?;
        status.write(machine::device_slot(device).peers().contains(&peer).into());
        Ok(())
    }

    fn aclrtCreateContext(context: Out<aclrtContext>, device_id: i32) {
        let context = context.required("context")?;
        context.write(context::create_context(device_id)? as aclrtContext);
        Ok(())
    }

    fn aclrtDestroyContext(context: aclrtContext) {
        may_block()?;
        ending::destroy_context(context as u64)
    }

    fn aclrtSetCurrentContext(context: aclrtContext) {
        context::set_current(context as u64)
    }

    fn aclrtGetCurrentContext(context: Out<aclrtContext>) {
        context.required("context")?.write(context::current()?.context as aclrtContext);
        Ok(())
    }

    fn aclrtCtxGetCurrentDefaultStream(stream: Out<aclrtStream>) {
        let stream = stream.required("stream")?;
        stream.write(context::default_stream(context::current()?)? as aclrtStream);
        Ok(())
    }

    each force in { aclrtResetDevice: false, aclrtResetDeviceForce: true }
    fn (device_id: i32) {
        may_block()?;
        ending::reset_device(device_id, force)
    }
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
                machine::named(device.id),
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
            machine::named(device.id)
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
