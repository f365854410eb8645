//! Profiling. The emulator has no profiler: a program may start and stop one, and nothing is
//! recorded. CANN's `acl_prof.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Named};
use super::entries::{Acl, answer, entries};
use crate::machine;
use crate::message::{Failure, fail};
use crate::slots::{self, HandleKind, Slots, Slotted};
use ascend_sys::{
    ACL_ERROR_BAD_ALLOC, ACL_ERROR_PROF_ALREADY_RUN, ACL_ERROR_PROF_NOT_RUN,
    ACL_ERROR_RT_PARAM_INVALID, aclprofAicoreEvents, aclprofAicoreMetrics, aclprofConfig,
};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

entries! {
    Acl;
    also { aclprofCreateConfig }

    fn aclprofInit(path: CText, _length: usize) {
        path.as_it_is("profilerResultPath")?;
        if INITIALISED.swap(true, Ordering::Relaxed) {
            return fail!(
                ACL_ERROR_PROF_ALREADY_RUN,
                "the profiling is initialised already; call aclprofFinalize first"
            );
        }
        Ok(())
    }

    fn aclprofFinalize() {
        if INITIALISED.swap(false, Ordering::Relaxed) { Ok(()) } else { not_initialised() }
    }

    fn aclprofDestroyConfig(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        let index = config.required("profilerConfig")?.find()?.0;
        if !CONFIGS.retire(config.number()) {
            return Err(slots::unknown(HandleKind::ProfilingConfig, config.number()));
        }
        CONFIGS.recycle(index);
        Ok(())
    }

    each _word in { aclprofStart: (), aclprofStop: () }
    fn (config: Handle<ProfilingConfig, *const aclprofConfig>) {
        config.required("profilerConfig")?.find()?;
        if INITIALISED.load(Ordering::Relaxed) { Ok(()) } else { not_initialised() }
    }
}

/// Between `aclprofInit` and `aclprofFinalize`.
static INITIALISED: AtomicBool = AtomicBool::new(false);

fn not_initialised() -> Result<(), Failure> {
    fail!(ACL_ERROR_PROF_NOT_RUN, "the profiling is not initialised; call aclprofInit first")
}

/// A profiling configuration. Its contents are checked and dropped; this is the index of its slot.
struct ProfilingConfig(u32);

static CONFIGS: Slots<ProfilingConfig> = Slots::new();

impl Slotted for ProfilingConfig {
    const KIND: HandleKind = HandleKind::ProfilingConfig;

    fn new(index: u32) -> ProfilingConfig {
        ProfilingConfig(index)
    }
}

impl Named for ProfilingConfig {
    type Found = &'static ProfilingConfig;

    fn find(handle: u64) -> Result<&'static ProfilingConfig, Failure> {
        CONFIGS.get(handle).ok_or_else(|| slots::unknown(HandleKind::ProfilingConfig, handle))
    }
}

unsafe extern "C" fn aclprofCreateConfig(
    devices: *mut u32,
    count: u32,
    _metrics: aclprofAicoreMetrics,
    _events: *const aclprofAicoreEvents,
    _data: u64,
) -> *mut aclprofConfig {
    answer::<Acl, _>("aclprofCreateConfig", null_mut(), || {
        if devices.is_null() && count != 0 {
            return Err(Failure::null("deviceIdList"));
        }
        for at in 0..count as usize {
            // SAFETY: the list is not NULL, so as long as the caller says. A length that no list
            // has is refused at the first device.
            let id = unsafe { devices.add(at).read_unaligned() };
            let device = machine::find_device(i32::try_from(id).unwrap_or(i32::MAX))?;
            let most = machine::count_beside(device);
            if count > most {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "deviceNums is {count}, but device {id} is one of {most}"
                );
            }
        }
        match CONFIGS.take(|_, _| ()) {
            Some((_, handle)) => Ok(handle as *mut aclprofConfig),
            None => fail!(ACL_ERROR_BAD_ALLOC, "every configuration of the profiling is in use"),
        }
    })
}
