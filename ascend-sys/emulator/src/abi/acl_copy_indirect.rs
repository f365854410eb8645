//! The entries for copies whose addresses are read from memory: from words, or from a description.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_copy::{CopyManner, Planned, check_arguments, check_sizes, may_reach};
use super::acl_memory::resolve;
use super::arguments::{Handle, Out};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::indirect_copy::{CopyDescriptor, CopyEnd, CopyRequest, CopySource, enqueue};
use crate::leaf::Copy;
use crate::memory::{Bytes, MemoryPlace};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use crate::task::Touch;
use crate::value::{BYTES, Word};
use crate::{capture, context, submit};
use ascend_sys::{
    ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID,
    aclrtMemcpyKind,
};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtMemcpyAsyncWithOffset(
        dst: *mut *mut c_void,
        dest_max: usize,
        dst_data_offset: usize,
        src: *mut *const c_void,
        count: usize,
        src_data_offset: usize,
        kind: aclrtMemcpyKind,
        stream: Handle<Stream>,
    ) {
        check_sizes(dst.cast(), dest_max, src.cast(), count)?;
        between_devices(kind)?;
        let stream = stream.find()?;
        let to = end(dst.cast(), dst_data_offset, "dst", stream)?;
        let from = end(src.cast(), src_data_offset, "src", stream)?;
        if let (CopyEnd::Given(to), CopyEnd::Given(from)) = (to, from) {
            return match plan(CopyRequest { to, from, bytes: count }, stream)? {
                Some(copy) => submit::submit(stream, ENTRY, copy).map(drop),
                None => Ok(()),
            };
        }
        enqueue(stream, ENTRY, CopySource::Ends { to, from, bytes: count }, plan)
    }

    fn aclrtGetMemcpyDescSize(kind: aclrtMemcpyKind, desc_size: Out<usize>) {
        let desc_size = desc_size.required("descSize")?;
        between_devices(kind)?;
        desc_size.write(CopyDescriptor::BYTES);
        Ok(())
    }

    fn aclrtSetMemcpyDesc(
        desc: *mut c_void,
        kind: aclrtMemcpyKind,
        src_addr: *mut c_void,
        dst_addr: *mut c_void,
        count: usize,
        config: *mut c_void,
    ) {
        may_block()?;
        if desc.is_null() {
            return Err(Failure::null("desc"));
        }
        let pointers = [(dst_addr.cast_const(), "dstAddr"), (src_addr.cast_const(), "srcAddr")];
        check_arguments(pointers, count, (count, "count"))?;
        between_devices(kind)?;
        if !config.is_null() {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "config is {config:?}; it must be NULL");
        }
        let current = context::current()?;
        capture::may_act_at_once()?;
        let (descriptor, _) = descriptor(desc)?;
        for (address, argument) in [(dst_addr, "dstAddr"), (src_addr, "srcAddr")] {
            is_device(resolve(address, count, argument)?, address, argument)?;
        }
        let touches = || vec![Touch::write(desc.addr(), CopyDescriptor::BYTES)];
        submit::at_once(current.device, ENTRY, || ("description of a copy".into(), touches()));
        let (to, from) = (dst_addr.addr(), src_addr.addr());
        descriptor.write(CopyRequest { to, from, bytes: count });
        Ok(())
    }

    fn aclrtMemcpyAsyncWithDesc(
        desc: *mut c_void,
        kind: aclrtMemcpyKind,
        stream: Handle<Stream>,
    ) {
        if desc.is_null() {
            return Err(Failure::null("desc"));
        }
        between_devices(kind)?;
        let stream = stream.find()?;
        let (descriptor, place) = descriptor(desc)?;
        may_reach(stream, place)?;
        enqueue(stream, ENTRY, CopySource::Described(descriptor), plan)
    }
}

/// Returns an error unless the copy is from device to device.
fn between_devices(kind: aclrtMemcpyKind) -> Result<(), Failure> {
    match kind {
        aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE
        | aclrtMemcpyKind::ACL_MEMCPY_INNER_DEVICE_TO_DEVICE
        | aclrtMemcpyKind::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE => Ok(()),
        _ => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "kind is {}; copies with addresses in memory go from device to device, so pass 3, 6 or \
             7",
            kind.0
        ),
    }
}

/// Checks and plans a copy whose addresses were read.
fn plan(request: CopyRequest, stream: &Stream) -> Result<Option<Copy>, Failure> {
    let CopyRequest { to, from, bytes } = request;
    let how = CopyManner::new(aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE, false);
    let (to, from) = (std::ptr::without_provenance_mut(to), std::ptr::without_provenance(from));
    let Some(planned) = Planned::row(to, bytes, from, bytes, how)? else { return Ok(None) };
    let is_device = |place| matches!(place, MemoryPlace::Device(_));
    if !is_device(planned.to) || !is_device(planned.from) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{to:?} or {from:?} is not device memory, but the copy is from device to device; use \
             memory of aclrtMalloc"
        );
    }
    planned.may_run_in(stream)?;
    Ok(Some(planned.copy))
}

/// Returns one side of a copy. The address of the side is in a word. If the device can reach the
/// word, the word is read when the copy begins. A word in pageable host memory is read now.
fn end(
    word: *mut c_void,
    offset: usize,
    argument: &str,
    stream: &Stream,
) -> Result<CopyEnd, Failure> {
    let found = resolve(word, BYTES, argument)?;
    if found.place == MemoryPlace::Pageable {
        // SAFETY: the word is not NULL, so by the C contract it holds a pointer.
        let address = unsafe { word.cast::<usize>().read_unaligned() };
        return match address.checked_add(offset) {
            Some(sum) if address != 0 => Ok(CopyEnd::Given(sum)),
            _ => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "*{argument} is {address:#x}, and the offset is {offset}; the sum must be a valid address"
            ),
        };
    }
    may_reach(stream, found.place)?;
    is_aligned(word, argument)?;
    // SAFETY: the word is aligned, since the distance of data from its address is a whole number of
    // pages. It was resolved, so it stays mapped.
    Ok(CopyEnd::Behind(unsafe { Word::new(found.data) }, offset))
}

/// Returns the description at an address of device memory, and the place of that memory.
fn descriptor(desc: *mut c_void) -> Result<(CopyDescriptor, MemoryPlace), Failure> {
    is_aligned(desc, "desc")?;
    let found = resolve(desc, CopyDescriptor::BYTES, "desc")?;
    is_device(found, desc, "desc")?;
    // SAFETY: as for a word of `end`.
    Ok((unsafe { CopyDescriptor::new(found.data) }, found.place))
}

fn is_aligned(address: *mut c_void, argument: &str) -> Result<(), Failure> {
    if !address.addr().is_multiple_of(BYTES) {
        return fail!(
            ACL_ERROR_RT_ADDR_UNALIGNED,
            "{argument} is {address:p}; it must be a multiple of {BYTES}"
        );
    }
    Ok(())
}

fn is_device(found: Bytes, address: *mut c_void, argument: &str) -> Result<(), Failure> {
    match found.place {
        MemoryPlace::Device(_) => Ok(()),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{argument}: {address:?} is not device memory; use memory of aclrtMalloc"
        ),
    }
}
