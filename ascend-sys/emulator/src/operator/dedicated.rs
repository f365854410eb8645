//! Dedicated threads, which the library keeps for its own purposes.
//!
//! A communicator has one thread that launches its kernels. A device has threads that order the
//! launches of all communicators of the process on that device. These communicators share the
//! ordering threads. Any of their threads may record the notifies of an ordering thread, and an
//! ordering thread may record the notifies of their threads. As long as the AI CPU has a block for
//! each communicator, launches need no order, and no ordering thread is made. The launching thread
//! of the graph engine exists only with that engine, which the emulator does not have.

use super::engine::OperatorEngine;
use super::resources::{StreamPlace, with_resources};
use super::thread::{Thread, ThreadOwner};
use crate::fabric::{Member, registry};
use crate::message::{Failure, refuse};
use ascend_sync::lock_std as lock;
use ascend_sys::HcclDedicatedThreadType as Purpose;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The number of blocks of the AI CPU. CANN does not publish the number of a real device. This is
/// the number that a kernel may request (`SetAicpuBlockDim`).
const AICPU_BLOCKS: usize = 6;

/// The threads of the devices, by the id of the device and by purpose.
static OF_DEVICES: Mutex<BTreeMap<(u32, i32), u64>> = Mutex::new(BTreeMap::new());

/// Returns the handle of the thread for a purpose, with at least `notifies` notifies; 0 if the
/// purpose needs no thread.
pub(crate) fn acquire(
    member: &Arc<Member>,
    purpose: Purpose,
    notifies: u32,
) -> Result<u64, Failure> {
    match purpose {
        Purpose::HCCL_DED_THREAD_TYPE_INVALID => {
            refuse!(HCCL_E_PARA, "useType is -1, which stands for no purpose; pass 0 to 5")
        }
        Purpose::HCCL_DED_THREAD_TYPE_AICPU_LAUNCH => of_communicator(member, notifies),
        Purpose::HCCL_DED_THREAD_TYPE_AICPU_LAUNCH_GE => Ok(0),
        Purpose::HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_OPBASE
        | Purpose::HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_ACLGRAPH
        | Purpose::HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_GE
        | Purpose::HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_DEVICE => {
            of_device(member, purpose, notifies)
        }
        Purpose(other) => {
            refuse!(
                HCCL_E_NOT_SUPPORT,
                "useType is {other}, which is not the number of a purpose; pass 0 to 5"
            )
        }
    }
}

fn of_communicator(member: &Arc<Member>, notifies: u32) -> Result<u64, Failure> {
    let place = StreamPlace::of(member)?;
    with_resources(member, |resources| {
        if let Some(handle) = resources.dedicated {
            Thread::named(handle)?.supplement(notifies);
            return Ok(handle);
        }
        let handle = create(&place, Some(Arc::clone(member)), 0, notifies)?;
        Ok(*resources.dedicated.insert(handle))
    })
}

fn of_device(member: &Member, purpose: Purpose, notifies: u32) -> Result<u64, Failure> {
    if registry::count_on(member.device) <= AICPU_BLOCKS {
        return Ok(0);
    }
    let place = StreamPlace::of(member)?;
    let mut of_devices = lock(&OF_DEVICES);
    let key = (member.device, purpose.0);
    if let Some(handle) = of_devices.get(&key) {
        match Thread::named(*handle) {
            Ok(thread) if thread.stream().is_ok() => {
                thread.supplement(notifies);
                return Ok(*handle);
            }
            // Its stream is gone, because the context was destroyed.
            _ => Thread::end(*handle),
        }
    }
    let handle = create(&place, None, purpose.0 as u32, notifies)?;
    Thread::named(handle)?.share();
    of_devices.insert(key, handle);
    Ok(handle)
}

fn create(
    place: &StreamPlace,
    member: Option<Arc<Member>>,
    number: u32,
    notifies: u32,
) -> Result<u64, Failure> {
    place.check_streams(1)?;
    let owner = ThreadOwner { member, number, engine: OperatorEngine::Cpu, wraps: false };
    Thread::create(place.stream()?, notifies, false, owner)
}

/// Ends the threads of devices that are removed. Their streams end with their contexts.
pub(crate) fn end_on(devices: &Range<u32>) {
    let mut of_devices = lock(&OF_DEVICES);
    let gone: Vec<_> = of_devices.keys().filter(|key| devices.contains(&key.0)).copied().collect();
    for handle in gone.iter().filter_map(|key| of_devices.remove(key)) {
        Thread::end(handle);
    }
}
