//! Stream pools: device memory that streams allocate and free in their own order
//! (`aclrtMemPool...`).
//!
//! A pool has *reserved* bytes, which count against the memory of its device, and *uses* some of
//! them.
//!
//! 1. A call that allocates returns an address at once. The memory may be used after a task that
//!    the call puts into the stream.
//! 2. A call that frees puts a task into the stream, which ends the allocation. Until then the
//!    address is valid, because work of other streams may come before the task.
//! 3. If the free of memory is queued in the stream that allocates, the allocation takes over that
//!    memory instead of reserving more. That free then does nothing.
//! 4. Freed memory stays reserved up to the threshold of the pool.
//! 5. A pool that is destroyed has no handle any more. It ends with its last allocation.

use crate::check;
use crate::ipc;
use crate::machine::{self, Device};
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, fail};
use crate::operator;
use crate::slots::{HandleKind, unknown};
use crate::step::{Reason, Step};
use crate::stream::{Stream, unfinished_on};
use crate::submit;
use crate::task::{Effects, TaskBody, Touch};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_CONTEXT,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The function that frees, for messages.
const FREE: &str = "aclrtMemPoolFreeAsync";

pub(crate) struct StreamPool {
    device: u32,
    /// The largest number of bytes that the pool may use.
    most: u64,
    /// The number of bytes up to which freed memory stays reserved (rule 4).
    threshold: u64,
    is_destroyed: bool,
    /// The settings of the program about the reuse of memory that other streams have freed. They
    /// are kept only for queries.
    pub(crate) reuse: [u32; 3],
    pub(crate) reserved: PoolLevel,
    pub(crate) used: PoolLevel,
}

/// A number of bytes now, and its maximum since the program last reset the maximum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PoolLevel {
    pub(crate) now: u64,
    pub(crate) high: u64,
}

impl PoolLevel {
    fn set(&mut self, now: u64) {
        self.now = now;
        self.high = self.high.max(now);
    }

    pub(crate) fn begin_anew(&mut self) {
        self.high = self.now;
    }
}

/// An allocation of a pool.
struct Pooled {
    pool: u64,
    /// The number of the allocation, which no other allocation has.
    number: u64,
    /// The number of bytes of the pool that the allocation uses.
    uses: u64,
    stage: PooledStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PooledStage {
    Used,
    /// A call is about to queue its free.
    Freeing,
    /// Its free is queued in the stream with this index.
    FreedBy(u32),
}

struct StreamPools {
    last: u64,
    pools: BTreeMap<u64, StreamPool>,
    /// The allocations, by their first address.
    allocations: BTreeMap<usize, Pooled>,
}

static ALL: Mutex<StreamPools> =
    Mutex::new(StreamPools { last: 0, pools: BTreeMap::new(), allocations: BTreeMap::new() });
/// The number of allocations. If there are none, no thread takes the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Makes a pool on a device, and returns its handle.
pub(crate) fn create(device: &Device, most: u64) -> u64 {
    let mut all = lock(&ALL);
    all.last += 1;
    let handle = HandleKind::MemoryPool.bits() | all.last;
    let pool = StreamPool {
        device: device.id,
        most,
        threshold: 0,
        is_destroyed: false,
        reuse: [1; 3],
        reserved: PoolLevel::default(),
        used: PoolLevel::default(),
    };
    all.pools.insert(handle, pool);
    handle
}

/// Destroys a pool (rule 5).
pub(crate) fn destroy(handle: u64) -> Result<(), Failure> {
    let mut all = lock(&ALL);
    let pool = all.find(handle)?;
    pool.is_destroyed = true;
    pool.set_threshold(0);
    all.end_if_over(handle);
    Ok(())
}

/// Calls `use_it` with the pool of a handle.
pub(crate) fn with<R>(
    handle: u64,
    use_it: impl FnOnce(&mut StreamPool) -> Result<R, Failure>,
) -> Result<R, Failure> {
    use_it(lock(&ALL).find(handle)?)
}

/// Allocates in a stream, and returns the address.
pub(crate) fn allocate(
    handle: u64,
    bytes: usize,
    stream: &'static Stream,
    by: &'static str,
) -> Result<usize, Failure> {
    let (start, number) = lock(&ALL).allocate(handle, bytes, stream, by)?;
    if let Err(failure) = submit::submit(stream, by, BeginPooled { start, bytes }) {
        lock(&ALL).end_pooled(start, |one| one.number == number);
        return Err(failure);
    }
    Ok(start)
}

/// Queues the free of an allocation in a stream. Before that, calls `may_be_freed` with the device.
pub(crate) fn free(
    start: usize,
    stream: &'static Stream,
    may_be_freed: impl FnOnce(&'static Device) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (task, device) = lock(&ALL).begin_free(start)?;
    let number = task.number;
    let queued = may_be_freed(machine::device_slot(device))
        .and_then(|()| submit::submit(stream, FREE, task).map(drop));
    let mut all = lock(&ALL);
    // The task may have run already.
    if let Some(one) = all.allocations.get_mut(&start).filter(|one| one.number == number) {
        one.stage = match queued {
            Ok(()) => PooledStage::FreedBy(stream.index()),
            Err(_) => PooledStage::Used,
        };
    }
    queued
}

/// Returns whether an allocation of a pool begins at an address.
#[inline]
pub(crate) fn is_pooled(start: usize) -> bool {
    COUNT.load(Ordering::Acquire) != 0 && lock(&ALL).allocations.contains_key(&start)
}

/// Ends the pools on devices that end. Their allocations end with the memory of the device.
pub(crate) fn end_on(devices: &Range<u32>) {
    let mut all = lock(&ALL);
    let StreamPools { pools, allocations, .. } = &mut *all;
    pools.retain(|handle, pool| {
        let goes = devices.contains(&pool.device);
        if goes {
            allocations.retain(|_, one| one.pool != *handle);
            pool.device().memory.uncharge(pool.reserved.now as usize);
        }
        !goes
    });
    COUNT.store(allocations.len(), Ordering::Release);
}

impl StreamPool {
    fn device(&self) -> &'static Device {
        machine::device_slot(self.device)
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    pub(crate) fn set_threshold(&mut self, bytes: u64) {
        self.threshold = bytes;
        self.keep(bytes);
    }

    /// Releases the unused reserved memory beyond `bytes`.
    pub(crate) fn keep(&mut self, bytes: u64) {
        let kept = self.reserved.now.min(self.used.now.max(bytes));
        self.device().memory.uncharge((self.reserved.now - kept) as usize);
        self.reserved.now = kept;
    }

    /// Takes memory for an allocation of `bytes` bytes, which uses `uses` bytes of the pool.
    /// Returns the address.
    fn take(&mut self, bytes: usize, uses: u64, by: &'static str) -> Result<usize, Failure> {
        let device = self.device();
        let used = self.used.now.checked_add(uses).filter(|used| *used <= self.most);
        let Some(used) = used else {
            return fail!(
                ACL_ERROR_RT_MEMORY_ALLOCATION,
                "out of memory: {bytes} bytes of a pool that has {} of at most {} in use; free \
                 memory of the pool, or ask for less",
                self.used.now,
                self.most
            );
        };
        let reserved = self.reserved.now.max(used);
        let more = (reserved - self.reserved.now) as usize;
        let taken = device.memory.charge(more).and_then(|()| {
            device.allocate(bytes, 0, by).inspect_err(|_| device.memory.uncharge(more))
        });
        match taken {
            Ok(start) => {
                self.reserved.set(reserved);
                self.used.set(used);
                Ok(start)
            }
            Err(oom) => fail!(
                ACL_ERROR_RT_MEMORY_ALLOCATION,
                "out of memory: {bytes} bytes of a pool of device {}, of whose memory {} of {} are \
                 free; free memory, or ask for less",
                machine::named(device.id),
                oom.free,
                oom.total
            ),
        }
    }
}

impl StreamPools {
    /// Returns the pool of a handle, if the program may still use it.
    fn find(&mut self, handle: u64) -> Result<&mut StreamPool, Failure> {
        match self.pools.get_mut(&handle) {
            Some(pool) if !pool.is_destroyed => Ok(pool),
            _ => Err(unknown(HandleKind::MemoryPool, handle)),
        }
    }

    /// Makes a new allocation. Returns its first address and its number.
    fn allocate(
        &mut self,
        handle: u64,
        bytes: usize,
        stream: &'static Stream,
        by: &'static str,
    ) -> Result<(usize, u64), Failure> {
        let pool = self.find(handle)?;
        let device = pool.device();
        if device.id != stream.device_id() {
            return fail!(
                ACL_ERROR_RT_STREAM_CONTEXT,
                "the pool belongs to device {}, but {} does not; use a stream of that device",
                machine::named(device.id),
                stream.describe()
            );
        }
        if device.faults.allocation_fails() {
            return fail!(
                ACL_ERROR_RT_MEMORY_ALLOCATION,
                "out of memory: this fault was set for device {}; end it with \
                 ascendExtFaultClear",
                machine::named(device.id)
            );
        }
        let uses = device.product().charged_size(bytes).map_or(u64::MAX, |bytes| bytes as u64);
        let needs_more =
            pool.used.now.checked_add(uses).is_none_or(|used| used > pool.reserved.now);
        let number = self.last + 1;
        let taken_over = match needs_more {
            true => self.take_over(handle, number, (bytes, uses), stream, by),
            false => None,
        };
        let start = match taken_over {
            Some(start) => start,
            None => {
                let start = self.find(handle)?.take(bytes, uses, by)?;
                let new = Pooled { pool: handle, number, uses, stage: PooledStage::Used };
                self.allocations.insert(start, new);
                COUNT.store(self.allocations.len(), Ordering::Release);
                start
            }
        };
        self.last = number;
        Ok((start, number))
    }

    /// Takes over the smallest allocation that is large enough (rule 3). Returns its address, or
    /// `None` if there is none that is large enough.
    fn take_over(
        &mut self,
        handle: u64,
        number: u64,
        (bytes, uses): (usize, u64),
        stream: &Stream,
        by: &'static str,
    ) -> Option<usize> {
        let freed = PooledStage::FreedBy(stream.index());
        let fits = self
            .allocations
            .iter_mut()
            .filter(|(_, one)| one.pool == handle && one.stage == freed && one.uses >= uses);
        let (&start, one) = fits.min_by_key(|(_, one)| one.uses)?;
        let memory = &machine::device_slot(stream.device_id()).memory;
        if !memory.hand_over(start, bytes, FREE, by) {
            return None;
        }
        (one.number, one.stage) = (number, PooledStage::Used);
        Some(start)
    }

    /// Begins to free the allocation at an address. Returns the task that frees it, and its device.
    fn begin_free(&mut self, start: usize) -> Result<(EndPooled, u32), Failure> {
        let found = self.allocations.range_mut(..=start).next_back();
        if let Some((&first, one)) = found
            && let Some(pool) = self.pools.get(&one.pool)
            && let Some((name, bytes)) = pool.device().memory.name_of(first)
            && start - first < bytes
        {
            if start != first {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "ptr: {start:#x} is {} bytes inside {name}; pass its first address {first:#x}",
                    start - first
                );
            }
            if one.stage != PooledStage::Used {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "ptr: {name} is being freed by {FREE} already; free it only once"
                );
            }
            one.stage = PooledStage::Freeing;
            return Ok((EndPooled { start, number: one.number, bytes }, pool.device));
        }
        let why = match memory::resolve(start, 1) {
            Ok(found) if matches!(found.place, MemoryPlace::Device(_)) => {
                format!("{start:#x} is device memory that is not of a pool; free it with aclrtFree")
            }
            Ok(_) => format!(
                "{start:#x} is not device memory; pass an address of aclrtMemPoolMallocAsync"
            ),
            Err(text) => text,
        };
        fail!(ACL_ERROR_RT_PARAM_INVALID, "ptr: {why}")
    }

    /// Ends the allocation that begins at `start`, if `is_it` returns true for it. Returns whether
    /// an allocation has ended.
    fn end_pooled(&mut self, start: usize, is_it: impl FnOnce(&Pooled) -> bool) -> bool {
        let Some(Pooled { pool: handle, uses, .. }) = self
            .allocations
            .get(&start)
            .is_some_and(is_it)
            .then(|| self.allocations.remove(&start))
            .flatten()
        else {
            return false;
        };
        COUNT.store(self.allocations.len(), Ordering::Release);
        if let Some(pool) = self.pools.get_mut(&handle) {
            let device = pool.device();
            // Another process may have got a part of it since the call checked this.
            let mut held = operator::abroad::held_on(device.id);
            held.extend(ipc::exports::held_on(device.id));
            let unfinished = || unfinished_on(device.reach());
            // No other code ends an allocation of a pool.
            let _ = device.memory.free_held(start, FREE, unfinished, &held);
            pool.used.now -= uses;
            pool.keep(pool.threshold);
        }
        self.end_if_over(handle);
        true
    }

    /// Ends a pool if it is destroyed and has no allocations any more (rule 5).
    fn end_if_over(&mut self, handle: u64) {
        if self.pools.get(&handle).is_some_and(|pool| pool.is_destroyed && pool.used.now == 0) {
            self.pools.remove(&handle);
        }
    }
}

/// The task after which an allocation may be used.
struct BeginPooled {
    start: usize,
    bytes: usize,
}

impl TaskBody<Stream> for BeginPooled {
    fn poll(&mut self, _: &'static Stream) -> Step {
        Step::Done(Ok(()))
    }

    /// Returns a write, so that work of other streams has to come after the allocation.
    fn effects(&self) -> Effects {
        Effects::Touches(self.describe(), vec![Touch::write(self.start, self.bytes)])
    }

    fn describe(&self) -> String {
        format!("allocation of {} bytes from a pool", self.bytes)
    }
}

/// The task that frees an allocation.
struct EndPooled {
    start: usize,
    number: u64,
    bytes: usize,
}

impl TaskBody<Stream> for EndPooled {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        // The allocation must not be taken over, and must not have ended with its device.
        let is_it = |one: &Pooled| one.number == self.number && one.stage != PooledStage::Used;
        if lock(&ALL).end_pooled(self.start, is_it) {
            check::freed_in_stream(stream, self.start, FREE);
        }
        Step::Done(Ok(()))
    }

    /// Frees the allocation at once. All earlier tasks of the stream also give up, so no task of
    /// the stream touches the allocation any more.
    fn expire(&mut self, stream: &'static Stream, _: &Reason) -> Step {
        self.poll(stream)
    }

    /// Returns a write, so that work of other streams has to come before the free.
    fn effects(&self) -> Effects {
        Effects::Touches(self.describe(), vec![Touch::write(self.start, self.bytes)])
    }

    fn describe(&self) -> String {
        format!("free of {} bytes of a pool", self.bytes)
    }
}
