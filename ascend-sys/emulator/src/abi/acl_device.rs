//! The entries for devices and contexts.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Milliseconds, Out};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::fabric::topology::linked_by;
use crate::machine::Device;
use crate::message::{Failure, fail};
use crate::state_hooks::{tell_abort, tell_device};
use crate::stream::STREAMS;
use crate::{capture, context, ending, executor, machine, stream_end};
use ascend_sys::{
    ACL_ERROR_FEATURE_UNSUPPORTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_INVALID_DEVICEID,
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_RT_DEVS_TOPOLOGY_HCCS,
    CommProtocol, aclDeviceInfo, aclrtContext, aclrtDevAttr, aclrtDeviceState, aclrtDeviceStatus,
    aclrtDeviceTaskAbortStage, aclrtStream,
};
use std::time::{Duration, Instant};

entries! {
    Acl;

    fn aclrtSetDevice(device_id: i32) {
        machine::find_device(device_id)?;
        tell_device(device_id, aclrtDeviceState::ACL_RT_DEVICE_STATE_SET_PRE)?;
        context::set_device(device_id)?;
        tell_device(device_id, aclrtDeviceState::ACL_RT_DEVICE_STATE_SET_POST)
    }

    fn aclrtGetDevice(device_id: Out<i32>) {
        device_id.required("deviceId")?.write(machine::number_of(context::current()?.device) as i32);
        Ok(())
    }

    fn aclrtDeviceGetBareTgid(pid: Out<i32>) {
        let pid = pid.required("pid")?;
        context::current_device()?;
        pid.write(std::process::id().cast_signed());
        Ok(())
    }

    fn aclrtGetDeviceCount(count: Out<u32>) {
        let count = count.required("count")?;
        let visible = machine::visible_count()
            .map_err(|text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text))?;
        count.write(visible);
        Ok(())
    }

    fn aclrtGetDeviceInfo(device_id: u32, attr: aclrtDevAttr, value: Out<i64>) {
        tell(device_id, value, ("attr", attr.0), |device| match attr {
            // An AI core is a cube core with its vector cores.
            aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM
            | aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM => Some(device.product().cube_cores().into()),
            aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM => {
                Some(device.product().vector_cores().into())
            }
            aclrtDevAttr::ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE => {
                device.product().bytes_of_a_vector_core()
            }
            aclrtDevAttr::ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE => Some(device.memory.usage().1),
            aclrtDevAttr::ACL_DEV_ATTR_L2_CACHE_SIZE => device.product().l2_bytes(),
            _ => None,
        })
    }

    fn aclGetDeviceCapability(device_id: u32, info: aclDeviceInfo, value: Out<i64>) {
        tell(device_id, value, ("deviceInfo", info.0), |device| match info {
            aclDeviceInfo::ACL_DEVICE_INFO_AI_CORE_NUM => Some(device.product().cube_cores().into()),
            aclDeviceInfo::ACL_DEVICE_INFO_VECTOR_CORE_NUM => {
                Some(device.product().vector_cores().into())
            }
            aclDeviceInfo::ACL_DEVICE_INFO_L2_SIZE => device.product().l2_bytes(),
            _ => None,
        })
    }

    fn aclrtGetDevicesTopo(device_id: u32, other_id: u32, value: Out<u64>) {
        let value = value.required("value")?;
        let (device, other) = pair(signed(device_id), signed(other_id))?;
        let (device, other) = (machine::device_slot(device), machine::device_slot(other));
        match linked_by(device, other) {
            Some(CommProtocol::COMM_PROTOCOL_HCCS) => {
                value.write(ACL_RT_DEVS_TOPOLOGY_HCCS);
                Ok(())
            }
            _ => fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "devices {} and {} of {} are not linked by HCCS, and this function cannot name \
                 their link; use HcclRankGraphGetLinks",
                machine::named(device.id),
                machine::named(other.id),
                device.product()
            ),
        }
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

    fn aclrtDeviceTaskAbort(device_id: i32, timeout: u32) {
        may_block()?;
        let device = machine::find_device(device_id)?;
        if timeout > LONGEST_ABORT {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "timeout is {timeout}; it must be 0 (no limit) or at most {LONGEST_ABORT} milliseconds"
            );
        }
        let limit = (timeout != 0).then(|| Duration::from_millis(timeout.into()));
        tell_abort(device_id, aclrtDeviceTaskAbortStage::ACL_RT_DEVICE_TASK_ABORT_PRE, timeout)?;
        stream_end::abort_all(device.id, limit);
        tell_abort(device_id, aclrtDeviceTaskAbortStage::ACL_RT_DEVICE_TASK_ABORT_POST, timeout)
    }

    fn aclrtDeviceCanAccessPeer(can_access: Out<i32>, device_id: i32, peer_id: i32) {
        let can_access = can_access.required("canAccessPeer")?;
        pair(device_id, peer_id)?;
        can_access.write(1);
        Ok(())
    }

    fn aclrtDeviceEnablePeerAccess(peer_id: i32, flags: u32) {
        let current = context::current()?;
        let (device, peer) = pair(machine::number_of(current.device) as i32, peer_id)?;
        if flags != 0 {
            return fail!(ACL_ERROR_FEATURE_UNSUPPORTED, "flags is {flags}; it must be 0");
        }
        machine::device_slot(device).peers().insert(peer);
        Ok(())
    }

    fn aclrtDeviceDisablePeerAccess(peer_id: i32) {
        let current = context::current()?;
        let (device, peer) = pair(machine::number_of(current.device) as i32, peer_id)?;
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
        machine::find_device(device_id)?;
        tell_device(device_id, aclrtDeviceState::ACL_RT_DEVICE_STATE_RESET_PRE)?;
        ending::reset_device(device_id, force)?;
        tell_device(device_id, aclrtDeviceState::ACL_RT_DEVICE_STATE_RESET_POST)
    }

    // The user number of a device is its position in ASCEND_RT_VISIBLE_DEVICES. The logical and the
    // physical number are both that of the machine.
    each result in {
        aclrtGetLogicDevIdByUserDevId: "logicDevId",
        aclrtGetPhyDevIdByUserDevId: "phyDevId",
    }
    fn (device_id: i32, number: Out<i32>) {
        let number = number.required(result)?;
        number.write(machine::find_device(device_id)?.id as i32);
        Ok(())
    }

    each result in {
        aclrtGetUserDevIdByLogicDevId: "userDevid",
        aclrtGetUserDevIdByPhyDevId: "userDevId",
    }
    fn (device_id: i32, number: Out<i32>) {
        let number = number.required(result)?;
        number.write(machine::number_of(machine::on_machine(device_id, true)?) as i32);
        Ok(())
    }

    each result in {
        aclrtGetLogicDevIdByPhyDevId: "logicDevId",
        aclrtGetPhyDevIdByLogicDevId: "phyDevId",
    }
    fn (device_id: i32, number: Out<i32>) {
        let number = number.required(result)?;
        number.write(machine::on_machine(device_id, false)? as i32);
        Ok(())
    }
}

/// The longest time limit of an abort: 36 minutes, in milliseconds.
const LONGEST_ABORT: u32 = 36 * 60 * 1000;

/// Writes a property of a device. `of` returns the property; `None` if it is not known for the
/// product.
fn tell(
    device_id: u32,
    value: Out<i64>,
    (argument, asked): (&str, impl std::fmt::Display),
    of: impl FnOnce(&Device) -> Option<u64>,
) -> Result<(), Failure> {
    let value = value.required("value")?;
    let device = machine::find_device(signed(device_id))?;
    let Some(number) = of(device) else {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "{argument} is {asked}, a property that is not known for an emulated {}; use another \
             property, such as a number of cores",
            device.product()
        );
    };
    value.write(number.cast_signed());
    Ok(())
}

/// Converts an unsigned number of a device. A number that is too large becomes a number that no
/// device has.
fn signed(device_id: u32) -> i32 {
    i32::try_from(device_id).unwrap_or(i32::MAX)
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
                "device {} is not idle after {:?}: {}\nPass a longer timeout if the work only \
                 needs more time.",
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

/// Returns two devices that a program names together. They must differ and belong to the same
/// block.
fn pair(device: i32, peer: i32) -> Result<(u32, u32), Failure> {
    let (device, peer) = (machine::find_device(device)?, machine::find_device(peer)?);
    if device.id == peer.id {
        return fail!(
            ACL_ERROR_RT_INVALID_DEVICEID,
            "device {} and its peer are the same; pass two devices",
            machine::named(device.id)
        );
    }
    if device.block() != peer.block() {
        return fail!(
            ACL_ERROR_RT_INVALID_DEVICEID,
            "devices {} and {} belong to different blocks; pass two devices of one block",
            device.id,
            peer.id
        );
    }
    Ok((device.id, peer.id))
}
