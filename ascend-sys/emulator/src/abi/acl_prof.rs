//! The entries for profiling, as in CANN's `acl_prof.h`. A start begins a timeline of each block
//! whose devices the configuration names, and a stop ends it.
//!
//! A start does not change a block that the program already records, so the program itself ends
//! that recording. Each recording has a number (`timeline::begin`). A configuration ends only the
//! recordings whose numbers it has, but not a recording that began later.
//!
//! A start holds the lock of its configuration. It fails if the configuration or the profiling has
//! ended. A call that ends the configuration or the profiling takes the lock, too. So it finds
//! every recording that was begun.
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
        CONFIGS.all().for_each(|config| lock(&config.blocks).stop());
        Ok(())
    }

    fn aclprofDestroyConfig(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        let found = config.required("profilerConfig")?.find()?;
        if !CONFIGS.retire(config.number()) {
            return Err(slots::unknown(HandleKind::ProfilingConfig, config.number()));
        }
        found.destroy();
        CONFIGS.recycle(found.index);
        Ok(())
    }

    fn aclprofStart(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        let found = config.required("profilerConfig")?.find()?;
        found.while_profiling(config.number(), ProfiledBlocks::start)
    }

    fn aclprofStop(config: Handle<ProfilingConfig, *const aclprofConfig>) {
        let found = config.required("profilerConfig")?.find()?;
        found.while_profiling(config.number(), ProfiledBlocks::stop)
    }
}

/// Whether profiling is initialised: true between `aclprofInit` and `aclprofFinalize`.
static INITIALISED: AtomicBool = AtomicBool::new(false);

fn not_initialised<T>() -> Result<T, Failure> {
    fail!(ACL_ERROR_PROF_NOT_RUN, "the profiling is not initialised; call aclprofInit first")
}

/// A profiling configuration. Its metrics and masks have no effect.
struct ProfilingConfig {
    /// The index of its slot.
    index: u32,
    blocks: Mutex<ProfiledBlocks>,
}

#[derive(Default)]
struct ProfiledBlocks {
    /// The handle of the configuration; 0 once it is destroyed.
    handle: u64,
    /// The blocks of the devices in the list.
    named: Vec<u32>,
    /// The recordings that were begun and not ended, each as its block and its number.
    begun: Vec<(u32, u64)>,
}

impl ProfilingConfig {
    /// Calls `run` with the blocks of the configuration with this handle. Returns an error if the
    /// configuration or the profiling has ended. A call that ends either of them waits until `run`
    /// returns.
    fn while_profiling(
        &self,
        handle: u64,
        run: impl FnOnce(&mut ProfiledBlocks),
    ) -> Result<(), Failure> {
        let mut blocks = lock(&self.blocks);
        if blocks.handle != handle {
            return Err(slots::unknown(HandleKind::ProfilingConfig, handle));
        }
        if !INITIALISED.load(Ordering::Relaxed) {
            return not_initialised();
        }
        run(&mut blocks);
        Ok(())
    }

    fn destroy(&self) {
        let mut blocks = lock(&self.blocks);
        blocks.stop();
        blocks.handle = 0;
    }
}

impl ProfiledBlocks {
    fn start(&mut self) {
        for &block in &self.named {
            // A block that is gone, or that already records, is left out.
            let Ok(settings) = machine::block(block) else { continue };
            let devices = settings.first..settings.first + settings.count;
            self.begun.extend(timeline::begin(block, devices).map(|number| (block, number)));
        }
    }

    fn stop(&mut self) {
        for (block, number) in self.begun.drain(..) {
            // The program may have ended the recording or the block already.
            let _ = timeline::end(block, Some(number));
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
            // SAFETY: the list is not NULL, so by the C contract it has `count` elements. An
            // impossible count causes an error at the first device.
            let id = unsafe { devices.add(at).read_unaligned() };
            let device = machine::find_device(i32::try_from(id).unwrap_or(i32::MAX))?;
            let block = device.block().filter(|block| !named.contains(block));
            named.extend(block);
            let most = machine::count_beside(device);
            if count > most {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "deviceNums is {count}, but a program can name only {most} together with \
                     device {id}; pass each device once"
                );
            }
        }
        let prepare = |config: &ProfilingConfig, handle| {
            *lock(&config.blocks) = ProfiledBlocks { handle, named, begun: Vec::new() };
        };
        match CONFIGS.take(prepare) {
            Some((_, handle)) => Ok(handle as *mut aclprofConfig),
            None => fail!(
                ACL_ERROR_BAD_ALLOC,
                "every configuration of the profiling is in use; destroy one with \
                 aclprofDestroyConfig"
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ascend_sys::ACL_ERROR_RT_INVALID_HANDLE;

    fn code(result: Result<(), Failure>) -> i32 {
        result.map_or_else(|failure| failure.acl_code(), |()| 0)
    }

    /// Plays a race step by step: a start has found its configuration, and continues after the
    /// configuration or the profiling has ended.
    #[test]
    fn a_start_begins_nothing_when_its_configuration_or_the_profiling_has_ended() {
        let new = || {
            let metrics = aclprofAicoreMetrics::ACL_AICORE_NONE;
            // SAFETY: the list has no devices.
            let config = unsafe { aclprofCreateConfig(null_mut(), 0, metrics, null_mut(), 0) };
            (config, ProfilingConfig::find(config as u64).ok())
        };
        let (config, Some(found)) = new() else { panic!("no configuration") };
        let start = |handle: *mut aclprofConfig| {
            let mut starts = 0;
            let code = code(found.while_profiling(handle as u64, |_| starts += 1));
            (code, starts)
        };
        assert_eq!(start(config), (ACL_ERROR_PROF_NOT_RUN, 0));
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { aclprofInit(c"profile".as_ptr(), 7) }, 0);
        assert_eq!(start(config), (0, 1));
        // SAFETY: the function has no arguments.
        assert_eq!(unsafe { aclprofFinalize() }, 0);
        assert_eq!(start(config), (ACL_ERROR_PROF_NOT_RUN, 0));
        // SAFETY: as above.
        assert_eq!(unsafe { aclprofInit(c"profile".as_ptr(), 7) }, 0);
        assert_eq!(start(config), (0, 1));
        // SAFETY: the handle is valid.
        assert_eq!(unsafe { aclprofDestroyConfig(config) }, 0);
        assert_eq!(start(config), (ACL_ERROR_RT_INVALID_HANDLE, 0));
        // A start with the old handle also begins nothing for the configuration that uses the slot
        // now.
        let (next, again) = new();
        assert!(again.is_some_and(|again| std::ptr::eq(again, found)));
        assert_eq!(start(config), (ACL_ERROR_RT_INVALID_HANDLE, 0));
        assert_eq!(start(next), (0, 1));
        // SAFETY: the handle is valid, and the other function has no arguments.
        assert_eq!(unsafe { (aclprofDestroyConfig(next), aclprofFinalize()) }, (0, 0));
    }
}
