//! The entries for properties and states of a device, and callbacks for state changes of devices
//! and streams.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Out};
use super::entries::{Acl, entries};
use crate::context;
use crate::machine;
use crate::message::fail;
use crate::state_hooks;
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID, aclrtDeviceStateCallback,
    aclrtDeviceTaskAbortCallback, aclrtFloatOverflowMode, aclrtStreamStateCallback, aclrtUuid,
};
use std::ffi::{c_char, c_void};

entries! {
    Acl;

    fn aclrtRegDeviceStateCallback(
        name: CText,
        callback: aclrtDeviceStateCallback,
        args: *mut c_void,
    ) {
        state_hooks::DEVICE.set(name.required("regName")?, callback, args)
    }

    fn aclrtRegStreamStateCallback(
        name: CText,
        callback: aclrtStreamStateCallback,
        args: *mut c_void,
    ) {
        state_hooks::STREAM.set(name.required("regName")?, callback, args)
    }

    fn aclrtSetDeviceTaskAbortCallback(
        name: CText,
        callback: aclrtDeviceTaskAbortCallback,
        args: *mut c_void,
    ) {
        state_hooks::ABORT.set(name.required("regName")?, callback, args)
    }

    fn aclrtSetDeviceSatMode(mode: aclrtFloatOverflowMode) {
        context::current_device()?;
        match mode {
            aclrtFloatOverflowMode::ACL_RT_OVERFLOW_MODE_INFNAN => Ok(()),
            aclrtFloatOverflowMode::ACL_RT_OVERFLOW_MODE_SATURATION => fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "mode is 0 (SATURATION), but floats of the emulator overflow to infinity; pass 1 \
                 (INFNAN)"
            ),
            other => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "mode is {}; pass 1 (INFNAN)",
                other.0
            ),
        }
    }

    fn aclrtGetDeviceSatMode(mode: Out<aclrtFloatOverflowMode>) {
        let mode = mode.required("mode")?;
        context::current_device()?;
        mode.write(aclrtFloatOverflowMode::ACL_RT_OVERFLOW_MODE_INFNAN);
        Ok(())
    }

    fn aclrtDeviceGetUuid(device_id: i32, uuid: Out<aclrtUuid>) {
        let uuid = uuid.required("uuid")?;
        let device = machine::find_device(device_id)?;
        // The id differs between the devices of the machine, and is the same in every process.
        let mut bytes = *b"ascend-emulatorX";
        bytes[12..].copy_from_slice(&device.id.to_be_bytes());
        uuid.write(aclrtUuid { bytes: bytes.map(|byte| byte as c_char) });
        Ok(())
    }

    fn aclrtDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        let least = least.required("leastPriority")?;
        let greatest = greatest.required("greatestPriority")?;
        context::current_device()?;
        // Streams have no order of priority.
        least.write(0);
        greatest.write(0);
        Ok(())
    }

    fn aclrtGetPrimaryCtxState(device_id: i32, flags: Out<u32>, active: Out<i32>) {
        let (flags, active) = (flags.required("flags")?, active.required("active")?);
        let device = machine::find_device(device_id)?;
        flags.write(0);
        active.write(i32::from(context::has_primary(device)));
        Ok(())
    }
}
