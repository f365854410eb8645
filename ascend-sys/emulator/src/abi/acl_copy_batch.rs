//! The entries for many copies in one call.
//!
//! All copies of a batch have the same direction: from the host to a device, or back. The addresses
//! of a copy determine its direction, and the attributes must agree with it. All arguments are
//! checked before the first copy begins.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_copy::{CopyManner, Planned, run_now};
use super::arguments::{Handle, MOST_ITEMS, Out, Slice, Values};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::leaf::Copy;
use crate::memory::MemoryPlace;
use crate::message::{Failure, fail};
use crate::stream::Stream;
use crate::{capture, context, executor, machine, submit};
use ascend_sys::{
    ACL_ERROR_BAD_ALLOC, ACL_ERROR_RT_PARAM_INVALID, aclrtMemLocation, aclrtMemLocationType,
    aclrtMemcpyBatchAttr, aclrtMemcpyKind,
};
use std::ffi::c_void;

type BatchPointers = Slice<*mut c_void, *mut *mut c_void>;
type BatchSizes = Slice<usize, *mut usize>;
type BatchAttributes = Slice<aclrtMemcpyBatchAttr, *mut aclrtMemcpyBatchAttr>;

entries! {
    Acl;

    fn aclrtMemcpyBatch(
        dsts: BatchPointers[num_batches],
        dest_maxs: BatchSizes[num_batches],
        srcs: BatchPointers[num_batches],
        sizes: BatchSizes[num_batches],
        num_batches: usize,
        attrs: BatchAttributes[num_attrs],
        attrs_indexes: *mut usize,
        num_attrs: usize,
        fail_index: Out<usize>,
    ) {
        let batch = Batch::new([dsts, srcs], dest_maxs, sizes, attrs, attrs_indexes);
        told(fail_index, batch.and_then(|batch| batch.run(ENTRY)))
    }

    fn aclrtMemcpyBatchV2(
        dsts: BatchPointers[num_batches],
        dest_maxs: BatchSizes[num_batches],
        srcs: BatchPointers[num_batches],
        sizes: BatchSizes[num_batches],
        num_batches: usize,
        attrs: BatchAttributes[num_attrs],
        attrs_indexes: *mut usize,
        num_attrs: usize,
    ) {
        let batch = Batch::new([dsts, srcs], dest_maxs, sizes, attrs, attrs_indexes);
        batch.and_then(|batch| batch.run(ENTRY)).map_err(|failed| failed.why)
    }

    fn aclrtMemcpyBatchAsync(
        dsts: BatchPointers[num_batches],
        dest_maxs: BatchSizes[num_batches],
        srcs: BatchPointers[num_batches],
        sizes: BatchSizes[num_batches],
        num_batches: usize,
        attrs: BatchAttributes[num_attrs],
        attrs_indexes: *mut usize,
        num_attrs: usize,
        fail_index: Out<usize>,
        stream: Handle<Stream>,
    ) {
        let batch = Batch::new([dsts, srcs], dest_maxs, sizes, attrs, attrs_indexes);
        told(fail_index, batch.and_then(|batch| batch.enqueue(ENTRY, stream)))
    }

    fn aclrtMemcpyBatchAsyncV2(
        dsts: BatchPointers[num_batches],
        dest_maxs: BatchSizes[num_batches],
        srcs: BatchPointers[num_batches],
        sizes: BatchSizes[num_batches],
        num_batches: usize,
        attrs: BatchAttributes[num_attrs],
        attrs_indexes: *mut usize,
        num_attrs: usize,
        stream: Handle<Stream>,
    ) {
        let batch = Batch::new([dsts, srcs], dest_maxs, sizes, attrs, attrs_indexes);
        batch.and_then(|batch| batch.enqueue(ENTRY, stream)).map_err(|failed| failed.why)
    }
}

/// A failure of a batch, with the index of the copy that caused it, if there is one.
struct BatchFailure {
    index: Option<usize>,
    why: Failure,
}

impl BatchFailure {
    fn of_copy(index: usize, count: usize, why: &Failure) -> Self {
        let text = format!("copy {index} of {count}: {}", why.text);
        BatchFailure { index: Some(index), why: Failure::new(why.code, text) }
    }
}

impl From<Failure> for BatchFailure {
    fn from(why: Failure) -> Self {
        BatchFailure { index: None, why }
    }
}

/// Writes the index of the copy that failed; `SIZE_MAX` if the failure does not belong to a single
/// copy. Returns the result of the batch.
fn told(fail_index: Out<usize>, done: Result<(), BatchFailure>) -> Result<(), Failure> {
    let failed = done.err();
    fail_index.write_if_asked(failed.as_ref().and_then(|it| it.index).unwrap_or(usize::MAX));
    failed.map_or(Ok(()), |failed| Err(failed.why))
}

/// The arguments of a batch, after the check that their pointers are not NULL.
struct Batch {
    dsts: Values<*mut c_void>,
    srcs: Values<*mut c_void>,
    most: Values<usize>,
    sizes: Values<usize>,
    attrs: Values<aclrtMemcpyBatchAttr>,
}

impl Batch {
    fn new(
        [dsts, srcs]: [BatchPointers; 2],
        most: BatchSizes,
        sizes: BatchSizes,
        attrs: BatchAttributes,
        attrs_indexes: *mut usize,
    ) -> Result<Batch, BatchFailure> {
        let code = ACL_ERROR_RT_PARAM_INVALID;
        let dsts = dsts.required("dsts")?.counted(MOST_ITEMS, "numBatches", code)?;
        let most = most.required("destMaxs")?;
        let srcs = srcs.required("srcs")?;
        let sizes = sizes.required("sizes")?;
        let attrs = attrs.required("attrs")?.counted(dsts.count(), "numAttrs", code)?;
        if attrs_indexes.is_null() {
            return Err(Failure::null("attrsIndexes").into());
        }
        Ok(Batch { dsts, srcs, most, sizes, attrs })
    }

    /// Plans the copies. Checks that all have the same direction.
    fn plan(&self, at_once: bool) -> Result<Vec<Planned>, BatchFailure> {
        let count = self.dsts.count();
        let mut planned: Vec<Planned> = Vec::new();
        if planned.try_reserve_exact(count).is_err() {
            return Err(Failure::new(
                ACL_ERROR_BAD_ALLOC,
                format!("no host memory for a batch of {count} copies; pass fewer copies"),
            )
            .into());
        }
        for index in 0..count {
            let copy = self.plan_one(index, at_once, planned.first());
            planned.push(copy.map_err(|why| BatchFailure::of_copy(index, count, &why))?);
        }
        self.check_attributes(&planned)?;
        Ok(planned)
    }

    fn plan_one(
        &self,
        index: usize,
        at_once: bool,
        first: Option<&Planned>,
    ) -> Result<Planned, Failure> {
        let how = CopyManner::new(aclrtMemcpyKind::ACL_MEMCPY_DEFAULT, at_once);
        let (dst, src) = (self.dsts[index], self.srcs[index]);
        let copy = Planned::row(dst, self.most[index], src, self.sizes[index], how)?;
        let Some(copy) = copy.filter(|copy| is_device(copy.to) != is_device(copy.from)) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "it goes from {src:?} to {dst:?}; pass one address of the host and one of a device"
            );
        };
        if first.is_some_and(|first| is_device(first.to) != is_device(copy.to)) {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "it goes {}, but the first copy goes {}; pass copies of one direction to a batch",
                direction(&copy),
                first.map_or("nowhere", direction)
            );
        }
        Ok(copy)
    }

    /// Checks the attributes: they must have the direction of the batch, and name a device that a
    /// copy of the batch uses.
    fn check_attributes(&self, planned: &[Planned]) -> Result<(), Failure> {
        let Some(first) = planned.first() else { return Ok(()) };
        for (index, attribute) in self.attrs.iter().enumerate() {
            let (to, from) = (attribute.dstLoc, attribute.srcLoc);
            if names_device(to) != is_device(first.to) || names_device(from) == names_device(to) {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "attrs[{index}] names a destination of type {} and a source of type {}, but \
                     the batch goes {}; set type to 1 (DEVICE) for the side of the device only",
                    to.type_.0,
                    from.type_.0,
                    direction(first)
                );
            }
            let number = if names_device(to) { to.id } else { from.id };
            let device = machine::find_device(i32::try_from(number).unwrap_or(-1))?;
            let place = MemoryPlace::Device(device.id);
            if !planned.iter().any(|copy| copy.to == place || copy.from == place) {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "attrs[{index}] names device {number}, but no copy of the batch uses its \
                     memory; name a device that a copy uses"
                );
            }
        }
        Ok(())
    }

    /// Runs the copies on the calling thread, without a stream.
    fn run(self, call: &'static str) -> Result<(), BatchFailure> {
        may_block()?;
        let current = context::current()?;
        capture::may_act_at_once()?;
        for (index, Planned { mut copy, .. }) in self.plan(true)?.into_iter().enumerate() {
            submit::at_once(current.device, call, || copy.touches());
            run_now(|| copy.poll()).map_err(|why| BatchFailure { index: Some(index), why })?;
        }
        Ok(())
    }

    /// Submits the copies in order. Copies of pageable host memory are complete when the call
    /// returns.
    fn enqueue(self, call: &'static str, stream: Handle<Stream>) -> Result<(), BatchFailure> {
        let stream = stream.find()?;
        let planned = self.plan(false)?;
        for (index, copy) in planned.iter().enumerate() {
            let refused = |why| BatchFailure::of_copy(index, planned.len(), &why);
            copy.may_run_in(stream).map_err(refused)?;
        }
        if planned.iter().any(Planned::is_pageable) {
            may_block()?;
            capture::may_copy_pageable(stream)?;
        }
        let submit = |copy| submit::submit(stream, call, copy);
        let wait = |ticket| _ = executor::wait(stream, ticket, None);
        enqueue_each(planned, submit, wait).map_err(BatchFailure::from)
    }
}

/// Submits copies in order, up to the first one that fails. In any case, it then waits for the last
/// submitted copy that uses pageable memory, because the caller may free that memory afterwards.
fn enqueue_each(
    planned: Vec<Planned>,
    mut submit: impl FnMut(Copy) -> Result<u64, Failure>,
    wait: impl FnOnce(u64),
) -> Result<(), Failure> {
    let mut until = None;
    let result = planned.into_iter().try_for_each(|planned| {
        let is_pageable = planned.is_pageable();
        let ticket = submit(planned.copy)?;
        if is_pageable {
            until = Some(ticket);
        }
        Ok(())
    });
    if let Some(ticket) = until {
        wait(ticket);
    }
    result
}

fn is_device(place: MemoryPlace) -> bool {
    matches!(place, MemoryPlace::Device(_))
}

fn names_device(location: aclrtMemLocation) -> bool {
    location.type_ == aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE
}

fn direction(copy: &Planned) -> &'static str {
    if is_device(copy.to) { "from the host to a device" } else { "from a device to the host" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    /// Returns two copies of pageable memory, one of pinned memory, and one more of pageable
    /// memory.
    fn planned() -> Vec<Planned> {
        use MemoryPlace::{Device, Pageable, Pinned};
        let copy = || Copy::new(null_mut(), null_mut(), 1);
        let from = [Pageable, Pageable, Pinned, Pageable];
        from.map(|from| Planned { copy: copy(), to: Device(0), from }).into()
    }

    /// Runs a batch of which the first `most` copies are accepted. Returns the awaited ticket and
    /// the result.
    fn accepting(most: u64) -> (Option<u64>, Result<(), Failure>) {
        let (mut accepted, mut waited) = (0, None);
        let submit = |_| {
            if accepted == most {
                return Err(Failure::new(ACL_ERROR_RT_PARAM_INVALID, "the stream is aborted"));
            }
            accepted += 1;
            Ok(100 + accepted)
        };
        let result = enqueue_each(planned(), submit, |ticket| waited = Some(ticket));
        (waited, result)
    }

    #[test]
    fn a_batch_waits_for_pageable_memory_also_where_a_later_copy_is_refused() {
        let (waited, result) = accepting(4);
        assert!(waited == Some(104) && result.is_ok());
        for (accepted, last) in [(3, Some(102)), (2, Some(102)), (1, Some(101)), (0, None)] {
            let (waited, result) = accepting(accepted);
            assert_eq!(waited, last, "{accepted} copies were accepted");
            assert!(result.is_err());
        }
    }
}
