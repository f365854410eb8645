//! The machine: devices, and the blocks in which they are taken and released.
//!
//! Devices 0 to 63 are the default block, which C programs see. Environment variables describe it,
//! and it is made at its first use. Every other block gets ids from 64 upwards, and the caller that
//! takes it describes it.

mod device;
pub(crate) mod foreign;
pub(crate) mod primary;
mod ranges;
mod request;
pub(crate) mod reserved;
mod shares;
mod visible;

pub(crate) use device::{Device, Settings};
pub(crate) use request::{
    BlockRequest, kernel_late_from_environment, kernel_seed_from_environment, late,
};

use crate::check;
use crate::core_limits::{CoreLimits, SizeLimits};
use crate::faults::asked::Faults;
use crate::later;
use crate::memory::pool::MemoryPool;
use crate::memory::window::{self, GRANULE};
use crate::message::{Failure, fail};
use crate::processes::line::own_user;
use crate::timeline;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_INVALID_DEVICEID, ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
};
use primary::PrimaryContext;
use ranges::BlockRanges;
pub(crate) use request::variable;
use request::{DEFAULT_IDS, faults_from_environment, request_from_environment};
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use visible::Visible;

/// The largest number of devices that one block can have.
pub(crate) const MAX_DEVICES: u32 = 4096;
const MAX_IDS: usize = 16 * 1024;
/// The divisor for a block that requests no size of memory: it gets at most all addresses divided
/// by this number. So with many devices each gets less memory, and all get less if other blocks
/// have left less.
const UNASKED_SHARE: u64 = 4;

static DEVICES: [AtomicPtr<Device>; MAX_IDS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_IDS];
/// The owner of each part of the device address range: the id of its device + 1, 0 for none so far,
/// or [`GONE`].
static GRANULES: [AtomicU32; MAX_GRANULES] = [const { AtomicU32::new(0) }; MAX_GRANULES];
const MAX_GRANULES: usize = window::DEVICE_BYTES / GRANULE;
/// The owner of a part that belonged to a block that is gone.
const GONE: u32 = u32::MAX;
/// The size of a share of the device address range, in bytes. Eight devices of the default size
/// take three of the 128 shares.
const SHARE: usize = window::DEVICE_BYTES / 128;

struct DeviceBlocks {
    next: u32,
    taken: BTreeMap<u32, TakenBlock>,
    ranges: BlockRanges,
}

/// A block that is in use.
pub(crate) struct TakenBlock {
    settings: Settings,
    address: usize,
    span: usize,
}

impl TakenBlock {
    /// Returns the ids of its devices.
    pub(crate) fn ids(&self) -> Range<u32> {
        self.settings.first..self.settings.first + self.settings.count
    }
}

fn blocks() -> Result<MutexGuard<'static, DeviceBlocks>, Failure> {
    static BLOCKS: OnceLock<Result<Mutex<DeviceBlocks>, String>> = OnceLock::new();
    let blocks = BLOCKS.get_or_init(|| {
        let windows = window::windows()?;
        let addresses = windows.nominal..windows.nominal + windows.device_bytes;
        let name = || format!("ascend-emulator-addresses-{}", own_user());
        let name = (windows.nominal == window::NOMINAL).then(name);
        let shares = Shares::new(addresses, SHARE, name);
        let ranges = BlockRanges::new(shares, DEFAULT_IDS..MAX_IDS as u32);
        Ok(Mutex::new(DeviceBlocks { next: 1, taken: BTreeMap::new(), ranges }))
    });
    match blocks {
        Ok(blocks) => Ok(lock(blocks)),
        Err(why) => fail!(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "{why}"),
    }
}

/// Takes a block of fresh devices.
pub(crate) fn create_block(request: &BlockRequest) -> Result<Settings, Failure> {
    // A block that another process has released returns its addresses here.
    later::look();
    let mut blocks = blocks()?;
    if !(1..=MAX_DEVICES).contains(&request.count) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the number of devices is {}; a block needs 1 to {MAX_DEVICES}",
            request.count
        );
    }
    let Some(first) = blocks.ranges.take_ids(request.count, "ascendExtBlockCreate") else {
        return fail!(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "all {MAX_IDS} device ids are in use; destroy a block first"
        );
    };
    let number = blocks.next;
    let made = blocks.settle(number, first, request);
    match made {
        Ok(settings) => {
            blocks.next += 1;
            Ok(settings)
        }
        Err(failure) => {
            blocks.ranges.free_ids(first, "ascendExtBlockCreate");
            Err(failure)
        }
    }
}

impl DeviceBlocks {
    /// Takes addresses for `count` devices with this much memory each. Returns the start of the
    /// first device's addresses, and the size of each device's addresses, in bytes.
    fn addresses_for(&mut self, count: u32, memory: u64) -> Option<(usize, usize)> {
        let memory = usize::try_from(memory).ok()?;
        // A device gets more addresses than memory, so that memory that is freed under a running
        // task need not be reused at once.
        let span = memory.checked_add(memory / 16)?.checked_next_multiple_of(GRANULE)?;
        let total = span.checked_mul(count as usize)?;
        let address = self.ranges.take_addresses(total, "ascendExtBlockCreate")?;
        Some((address, span))
    }

    fn settle(
        &mut self,
        number: u32,
        first: u32,
        request: &BlockRequest,
    ) -> Result<Settings, Failure> {
        let unasked = window::reserved().map_or(0, |w| w.device_bytes as u64) / UNASKED_SHARE;
        let fair = (unasked / u64::from(request.count)).min(request.product.default_memory());
        let is_asked = request.memory != 0;
        let mut memory = if is_asked { request.memory } else { fair };
        let (address, span) = loop {
            match self.addresses_for(request.count, memory) {
                Some(found) => break found,
                // The program has not requested that much memory, so less is tried. Less than a
                // granule would take as many addresses.
                None if !is_asked && memory >= GRANULE as u64 => memory /= 2,
                None => {
                    return fail!(
                        ACL_ERROR_RT_MEMORY_ALLOCATION,
                        "no address space left for a block of {} x {memory} bytes; ask for less \
                         memory per device, or destroy a block",
                        request.count
                    );
                }
            }
        };
        let settings = Settings {
            block: number,
            first,
            count: request.count,
            product: request.product,
            connect_timeout: request.connect_timeout,
            exec_timeout: request.exec_timeout,
            buffer_megabytes: request.buffer_megabytes,
            expansion: request.expansion,
            checked: request.checked,
            kernel_seed: request.kernel_seed,
            kernel_late: request.kernel_late,
        };
        self.taken.insert(number, TakenBlock { settings, address, span });
        if request.checked {
            check::open(number, first..first + request.count);
        }
        timeline::open(number, first..first + request.count);
        for i in 0..request.count {
            let device = device_slot(first + i);
            let start = address + i as usize * span;
            assign(&(start..start + span), device);
            let number = device.id - settings.first;
            device.memory.open(format!("device {number}"), start, span, memory);
            device.end_settings();
            device.deterministic.store(0, Ordering::Relaxed);
            *lock(&device.settings) = Some(settings);
        }
        Ok(settings)
    }
}

/// Returns the settings of a block.
pub(crate) fn block(number: u32) -> Result<Settings, Failure> {
    if number == 0 {
        return default_block().map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text));
    }
    match blocks()?.taken.get(&number) {
        Some(taken) => Ok(taken.settings),
        None => no_block(number),
    }
}

fn no_block<T>(number: u32) -> Result<T, Failure> {
    fail!(
        ACL_ERROR_RT_PARAM_INVALID,
        "there is no block {number}, or it was destroyed already; pass a number that \
         ascendExtBlockCreate returned"
    )
}

/// Takes a block out of use: its devices can no longer be found.
pub(crate) fn withdraw_block(number: u32) -> Result<TakenBlock, Failure> {
    let Some(taken) = blocks()?.taken.remove(&number) else { return no_block(number) };
    for id in taken.ids() {
        *lock(&device_slot(id).settings) = None;
    }
    Ok(taken)
}

/// Releases the ids and the addresses of a block that was withdrawn, once nothing runs on its
/// devices.
pub(crate) fn reuse_block(taken: TakenBlock) -> Result<(), Failure> {
    let mut blocks = blocks()?;
    if let Some(windows) = window::reserved() {
        for id in taken.ids() {
            let device = device_slot(id);
            let number = id - taken.settings.first;
            device.memory.open(format!("device {number}"), 0, 0, 0);
            let start = taken.address + (id - taken.settings.first) as usize * taken.span;
            note_owner(&(start..start + taken.span), GONE);
            window::discard(start - windows.nominal + windows.data, taken.span);
        }
    }
    blocks.ranges.rest(taken.address, taken.settings.first);
    Ok(())
}

/// Returns the device with a number that a program gave. The error says why there is none.
pub(crate) fn device(number: i32) -> Result<&'static Device, String> {
    let Ok(number) = u32::try_from(number) else {
        return Err(format!("there is no device {number}; pass 0 or a larger number"));
    };
    if number >= DEFAULT_IDS {
        return device_in_use(number);
    }
    let DefaultBlock { settings, visible, .. } = seen_by_programs()?;
    match visible.id(number) {
        Some(id) => Ok(device_slot(id)),
        None if visible.count() < settings.count => Err(format!(
            "there is no device {number}; pass a number below {}, the number of visible devices \
             (ASCEND_RT_VISIBLE_DEVICES)",
            visible.count()
        )),
        None => Err(format!(
            "there is no device {number}; pass a number below {}, the number of devices of this \
             machine (ASCEND_EMULATOR_DEVICES)",
            settings.count
        )),
    }
}

/// Returns the device with an id. The error says why there is none.
pub(crate) fn device_in_use(id: u32) -> Result<&'static Device, String> {
    if (id as usize) < MAX_IDS && device_slot(id).settings().is_some() {
        return Ok(device_slot(id));
    }
    Err(format!(
        "there is no device {id}; pass a number below that of aclrtGetDeviceCount, or a device of a \
         block that was not destroyed (ascendExtBlockCreate)"
    ))
}

/// Returns the number that programs use for a device: [`device`] finds the device by it.
pub(crate) fn number_of(id: u32) -> u32 {
    if id >= DEFAULT_IDS {
        return id;
    }
    seen_by_programs().ok().and_then(|seen| seen.visible.number(id)).unwrap_or(id)
}

/// Does the same as [`device`], with CANN's error code.
pub(crate) fn find_device(id: i32) -> Result<&'static Device, Failure> {
    device(id).map_err(|text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text))
}

/// Returns the id of the device with this number on the machine. With `visible`, a device that the
/// program does not see is an error.
pub(crate) fn on_machine(number: i32, visible: bool) -> Result<u32, Failure> {
    let refused = |text| Failure::new(ACL_ERROR_RT_INVALID_DEVICEID, text);
    let id = u32::try_from(number).unwrap_or(u32::MAX);
    if id >= DEFAULT_IDS {
        return find_device(number).map(|device| device.id);
    }
    let seen = seen_by_programs().map_err(refused)?;
    if id >= seen.settings.count {
        let count = seen.settings.count;
        return Err(refused(format!(
            "there is no device {number}; pass a number below {count}, the number of devices of \
             this machine (ASCEND_EMULATOR_DEVICES)"
        )));
    }
    if visible && seen.visible.number(id).is_none() {
        return Err(refused(format!(
            "device {number} of the machine is not visible; add it to ASCEND_RT_VISIBLE_DEVICES"
        )));
    }
    Ok(id)
}

/// Returns the record of a device, whether it is in use or not.
pub(crate) fn device_slot(id: u32) -> &'static Device {
    let slot = &DEVICES[id as usize % MAX_IDS];
    let found = slot.load(Ordering::Acquire);
    // SAFETY: null or a leaked record.
    if let Some(device) = unsafe { found.as_ref() } {
        return device;
    }
    let fresh = Box::into_raw(Box::new(Device {
        id,
        memory: MemoryPool::new(),
        primary: PrimaryContext::default(),
        settings: Mutex::new(None),
        peers: Mutex::new(BTreeSet::new()),
        faults: Faults::default(),
        deterministic: AtomicI32::new(0),
        core_limits: CoreLimits::default(),
        size_limits: SizeLimits::default(),
    }));
    match slot.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked just now.
        Ok(_) => unsafe { &*fresh },
        Err(theirs) => {
            // SAFETY: no thread has seen ours; theirs is a leaked record.
            unsafe {
                drop(Box::from_raw(fresh));
                &*theirs
            }
        }
    }
}

/// Returns the number by which texts name a device. In the default block, it is the number that
/// [`number_of`] returns. In any other block, it is the position of the device in its block, from
/// 0.
pub(crate) fn named(id: u32) -> u32 {
    device_slot(id).settings().map_or(id, |settings| match settings.block {
        0 => number_of(id),
        _ => id - settings.first,
    })
}

/// Assigns a part of the device address range to a device. The part consists of whole granules.
pub(crate) fn assign(addresses: &Range<usize>, device: &Device) {
    note_owner(addresses, device.id + 1);
}

/// Notes the owner of granules, as in [`GRANULES`].
fn note_owner(addresses: &Range<usize>, owner: u32) {
    let base = window::reserved().map_or(0, |windows| windows.nominal);
    let first = (addresses.start - base) / GRANULE;
    for granule in &GRANULES[first..first + addresses.len() / GRANULE] {
        granule.store(owner, Ordering::Release);
    }
}

/// Returns the device to which a part of the device address range belongs. The error says why there
/// is none.
pub(crate) fn device_of_granule(granule: usize) -> Result<u32, &'static str> {
    match GRANULES.get(granule).map_or(0, |granule| granule.load(Ordering::Acquire)) {
        0 => Err(
            "device memory that this process does not have; import memory of another process first",
        ),
        GONE => Err("device memory of a block of devices that is gone; allocate it anew"),
        device => Ok(device - 1),
    }
}

/// The block that C programs see, and the devices of it that they see.
struct DefaultBlock {
    settings: Settings,
    visible: Visible,
    /// The error of a variable of HCCL that has a wrong value.
    hccl: Result<(), String>,
}

/// Returns the settings of the block that C programs see. The error names the environment variable
/// that is wrong.
pub(crate) fn default_block() -> Result<Settings, String> {
    seen_by_programs().map(|seen| seen.settings)
}

/// Returns the number of devices that C programs see.
pub(crate) fn visible_count() -> Result<u32, String> {
    seen_by_programs().map(|seen| seen.visible.count())
}

/// Returns the number of devices that a program with this device can name, including this device.
pub(crate) fn count_beside(device: &Device) -> u32 {
    match device.settings() {
        Some(Settings { block: 0, .. }) => visible_count().unwrap_or(1),
        settings => settings.map_or(1, |settings| settings.count),
    }
}

/// Checks the variables of HCCL that describe the devices of a block. HCCL reports a wrong value
/// when it is initialised.
pub(crate) fn check_hccl_variables(settings: &Settings) -> Result<(), String> {
    if settings.block == 0 { seen_by_programs()?.hccl.clone() } else { Ok(()) }
}

fn seen_by_programs() -> Result<&'static DefaultBlock, String> {
    static DEFAULT: OnceLock<Result<DefaultBlock, String>> = OnceLock::new();
    DEFAULT
        .get_or_init(|| {
            let mut request = request_from_environment(variable)?;
            let visible = Visible::of_environment(variable, request.count)?;
            let hccl = request.read_hccl_variables(variable);
            let wanted = faults_from_environment(variable, request.count)?;
            let settings = blocks()
                .and_then(|mut blocks| blocks.settle(0, 0, &request))
                .map_err(|failure| failure.text.to_string())?;
            for fault in wanted {
                let device = device_slot(settings.first + fault.device);
                device.faults.add(fault.kind, fault.number);
            }
            Ok(DefaultBlock { settings, visible, hccl })
        })
        .as_ref()
        .map_err(Clone::clone)
}
