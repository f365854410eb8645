//! The entries for limits of kernels: the number of cores, the sizes of stacks and print buffers,
//! and the time that a kernel may wait.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Out};
use super::entries::{Acl, entries};
use crate::context;
use crate::core_limits::{CoreKind, SizeLimits};
use crate::kernel::time_limit;
use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID, aclrtDevResLimitType,
    aclrtDeviceLimit,
};
use std::cell::Cell;
use std::time::Duration;

entries! {
    Acl;

    fn aclrtGetDeviceResLimit(device_id: i32, kind: aclrtDevResLimitType, value: Out<u32>) {
        let value = value.required("value")?;
        value.write(of_device(machine::find_device(device_id)?, core_kind(kind)?));
        Ok(())
    }

    fn aclrtSetDeviceResLimit(device_id: i32, kind: aclrtDevResLimitType, value: u32) {
        let device = machine::find_device(device_id)?;
        let kind = core_kind(kind)?;
        device.core_limits.set(kind, possible(device, kind, value)?);
        Ok(())
    }

    fn aclrtResetDeviceResLimit(device_id: i32) {
        machine::find_device(device_id)?.core_limits.clear();
        Ok(())
    }

    fn aclrtGetStreamResLimit(
        stream: Handle<Stream>,
        kind: aclrtDevResLimitType,
        value: Out<u32>,
    ) {
        let value = value.required("value")?;
        value.write(of_stream(stream.find()?, core_kind(kind)?));
        Ok(())
    }

    fn aclrtSetStreamResLimit(stream: Handle<Stream>, kind: aclrtDevResLimitType, value: u32) {
        let stream = stream.find()?;
        let kind = core_kind(kind)?;
        stream.core_limits.set(kind, possible(stream.device(), kind, value)?);
        Ok(())
    }

    fn aclrtResetStreamResLimit(stream: Handle<Stream>) {
        stream.find()?.core_limits.clear();
        Ok(())
    }

    fn aclrtUseStreamResInCurrentThread(stream: Handle<Stream>) {
        USED.set(stream.find()?.handle());
        Ok(())
    }

    fn aclrtUnuseStreamResInCurrentThread(stream: Handle<Stream>) {
        let stream = stream.find()?;
        if USED.get() == stream.handle() {
            USED.set(0);
        }
        Ok(())
    }

    fn aclrtGetResInCurrentThread(kind: aclrtDevResLimitType, value: Out<u32>) {
        let value = value.required("value")?;
        let kind = core_kind(kind)?;
        let (_, device) = context::current_device()?;
        // A stream that was destroyed, or that belongs to another device, is ignored.
        let used = Stream::named(USED.get()).ok().filter(|used| used.device_id() == device.id);
        value.write(match used {
            Some(stream) => of_stream(stream, kind),
            None => of_device(device, kind),
        });
        Ok(())
    }

    fn aclrtDeviceSetLimit(limit: aclrtDeviceLimit, value: usize) {
        let limit = size_limit(limit)?;
        let (_, device) = context::current_device()?;
        device.size_limits.set(limit, value);
        Ok(())
    }

    fn aclrtDeviceGetLimit(limit: aclrtDeviceLimit, value: Out<usize>) {
        let value = value.required("value")?;
        let limit = size_limit(limit)?;
        let (_, device) = context::current_device()?;
        match device.size_limits.get(limit) {
            Some(size) => {
                value.write(size);
                Ok(())
            }
            None => fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "limit {limit} of device {} was not set, and its value on an NPU is not known; call aclrtDeviceSetLimit first",
                machine::named(device.id)
            ),
        }
    }

    fn aclrtSetOpExecuteTimeOut(seconds: u32) {
        time_limit::set(Duration::from_secs(seconds.into()));
        Ok(())
    }

    fn aclrtSetOpExecuteTimeOutWithMs(milliseconds: u32) {
        time_limit::set(Duration::from_millis(milliseconds.into()));
        Ok(())
    }

    fn aclrtSetOpExecuteTimeOutV2(microseconds: u64, actual: Out<u64>) {
        let actual = actual.required("actualTimeout")?;
        actual.write(time_limit::set(Duration::from_micros(microseconds)).as_micros() as u64);
        Ok(())
    }

    fn aclrtGetOpExecuteTimeout(milliseconds: Out<u32>) {
        let milliseconds = milliseconds.required("timeoutMs")?;
        let whole = time_limit::now().as_micros().div_ceil(1000);
        milliseconds.write(u32::try_from(whole).unwrap_or(u32::MAX));
        Ok(())
    }

    fn aclrtGetOpTimeOutInterval(interval: Out<u64>) {
        interval.required("interval")?.write(time_limit::STEP.as_micros() as u64);
        Ok(())
    }
}

thread_local! {
    /// The handle of the stream whose limits apply in the thread; 0 if there is none.
    static USED: Cell<u64> = const { Cell::new(0) };
}

fn core_kind(kind: aclrtDevResLimitType) -> Result<CoreKind, Failure> {
    match kind {
        aclrtDevResLimitType::ACL_RT_DEV_RES_CUBE_CORE => Ok(CoreKind::Cube),
        aclrtDevResLimitType::ACL_RT_DEV_RES_VECTOR_CORE => Ok(CoreKind::Vector),
        other => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "type is {}; pass 0 (cube cores) or 1 (vector cores)",
            other.0
        ),
    }
}

fn size_limit(limit: aclrtDeviceLimit) -> Result<usize, Failure> {
    match limit.0 as usize {
        number @ 0..SizeLimits::COUNT => Ok(number),
        other => fail!(ACL_ERROR_RT_PARAM_INVALID, "limit is {other}; pass 0 to 4"),
    }
}

/// Returns the number of all cores of a kind that a device has.
fn all(device: &Device, kind: CoreKind) -> u32 {
    match kind {
        CoreKind::Cube => device.product().cube_cores(),
        CoreKind::Vector => device.product().vector_cores(),
    }
}

fn of_device(device: &Device, kind: CoreKind) -> u32 {
    device.core_limits.get(kind).unwrap_or_else(|| all(device, kind))
}

/// Returns the limit of a stream, or that of its device if the stream has none.
fn of_stream(stream: &Stream, kind: CoreKind) -> u32 {
    stream.core_limits.get(kind).unwrap_or_else(|| of_device(stream.device(), kind))
}

fn possible(device: &Device, kind: CoreKind, value: u32) -> Result<u32, Failure> {
    let most = all(device, kind);
    if !(1..=most).contains(&value) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "value is {value}; device {} has {most} of these cores, so pass 1 to {most}",
            machine::named(device.id)
        );
    }
    Ok(value)
}
