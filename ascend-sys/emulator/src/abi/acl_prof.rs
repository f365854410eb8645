//! Profiling: starting and stopping it begins and ends a timeline of the blocks whose devices the
//! configuration names. CANN's `acl_prof.h`.
//!
//! A block that records for the program already is left as it is, so its recording ends when the
//! program says so.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Named};
use super::entries::{Acl, answer, entries};
use crate::machine;
use crate::message::{Failure, fail};
use crate::slots::{self, HandleKind, Slots, Slotted};
use crate::timeline;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_BAD_ALLOC, ACL_ERROR_PROF_ALREADY_RUN, ACL_ERROR_PROF_NOT_RUN,
    ACL_ERROR_RT_PARAM_INVALID, aclprofAicoreEvents, aclprofAicoreMetrics, aclprofConfig,
};
use std::ptr::null_mut;
use std::sync::Mutex;
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
        if !INITIALISED.swap(false, Ordering::Relaxed) {
            return not_initialised();
        }
        CONFIGS.all().for_each(ProfilingConfig::stop);
        Ok(())
    }

    fn aclprofDestroyConfig(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        let found = config.required("profilerConfig")?.find()?;
        if !CONFIGS.retire(config.number()) {
            return Err(slots::unknown(HandleKind::ProfilingConfig, config.number()));
        }
        found.stop();
        CONFIGS.recycle(found.index);
        Ok(())
    }

    fn aclprofStart(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        initialised(config)?.start();
        Ok(())
    }

    fn aclprofStop(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        initialised(config)?.stop();
        Ok(())
    }
}

/// Between `aclprofInit` and `aclprofFinalize`.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Returns a configuration while the profiling is initialised.
fn initialised(
    config: Handle<ProfilingConfig, *const aclprofConfig>,
) -> Result<&'static ProfilingConfig, Failure> {
    let found = config.required("profilerConfig")?.find()?;
    if INITIALISED.load(Ordering::Relaxed) { Ok(found) } else { not_initialised() }
}

fn not_initialised<T>() -> Result<T, Failure> {
    fail!(ACL_ERROR_PROF_NOT_RUN, "the profiling is not initialised; call aclprofInit first")
}

/// A profiling configuration. Its metrics and masks change nothing.
struct ProfilingConfig {
    /// The index of its slot.
    index: u32,
    blocks: Mutex<ProfiledBlocks>,
}

#[derive(Default)]
struct ProfiledBlocks {
    /// The blocks of the devices in the list.
    named: Vec<u32>,
    /// The blocks whose timeline was begun and not ended.
    begun: Vec<u32>,
}

impl ProfilingConfig {
    fn start(&self) {
        let mut blocks = lock(&self.blocks);
        let ProfiledBlocks { named, begun } = &mut *blocks;
        for &block in named.iter() {
            // A block that is gone, or records already, is left out.
            let Ok(settings) = machine::block(block) else { continue };
            let devices = settings.first..settings.first + settings.count;
            if timeline::begin(block, devices).is_ok() {
                begun.push(block);
            }
        }
    }

    fn stop(&self) {
        for block in lock(&self.blocks).begun.drain(..) {
            // The program may have ended it, or the block.
            let _ = timeline::end(block);
        }
    }
}

static CONFIGS: Slots<ProfilingConfig> = Slots::new();

impl Slotted for ProfilingConfig {
    const KIND: HandleKind = HandleKind::ProfilingConfig;

    fn new(index: u32) -> ProfilingConfig {
        ProfilingConfig { index, blocks: Mutex::default() }
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
        let mut named = Vec::new();
        for at in 0..count as usize {
            // SAFETY: the list is not NULL, so as long as the caller says. A length that no list
            // has is refused at the first device.
            let id = unsafe { devices.add(at).read_unaligned() };
            let device = machine::find_device(i32::try_from(id).unwrap_or(i32::MAX))?;
            let block = device.block().filter(|block| !named.contains(block));
            named.extend(block);
            let most = machine::count_beside(device);
            if count > most {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "deviceNums is {count}, but device {id} is one of {most}"
                );
            }
        }
        let prepare = |config: &ProfilingConfig, _| {
            *lock(&config.blocks) = ProfiledBlocks { named, begun: Vec::new() };
        };
        match CONFIGS.take(prepare) {
            Some((_, handle)) => Ok(handle as *mut aclprofConfig),
            None => fail!(ACL_ERROR_BAD_ALLOC, "every configuration of the profiling is in use"),
        }
    })
}
