//! The entries for recorded tasks of Ascend 950, as in CANN's `hcomm_primitives.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, MOST_ITEMS, Out, Slice};
use super::entries::{Hcomm, entries};
use std::ffi::c_void;

use crate::context;
use crate::message::{Failure, refuse};
use crate::operator::task_cache;
use crate::profile::Product;
use ascend_sys::HcclResult;

entries! {
    Hcomm;

    fn HcommAicpuTsTaskCacheLookup(tag: CText, is_hit: Out<bool>) {
        let (device, tag) = on_950(&tag)?;
        let is_hit = is_hit.required("isHit")?;
        is_hit.write(task_cache::has(device, &tag));
        Ok(())
    }

    fn HcommAicpuTsTaskCacheStart(
        tag: CText,
        addresses: Slice<*mut c_void, *mut *mut c_void>[count],
        sizes: Slice<u64, *mut u64>[count],
        count: u64,
    ) {
        let (device, tag) = on_950(&tag)?;
        task_cache::start(device, tag, ranges(addresses, sizes, count)?)
    }

    fn HcommAicpuTsTaskCacheEnd(tag: CText) {
        let (_, tag) = on_950(&tag)?;
        task_cache::end(&tag)
    }

    fn HcommAicpuTsTaskCacheExecute(
        tag: CText,
        addresses: Slice<*mut c_void, *mut *mut c_void>[count],
        sizes: Slice<u64, *mut u64>[count],
        count: u64,
    ) {
        let (device, tag) = on_950(&tag)?;
        task_cache::run::execute(device, &tag, &ranges(addresses, sizes, count)?)
    }

    fn HcommAicpuTsTaskCacheClear(tag: CText) {
        let (device, tag) = on_950(&tag)?;
        task_cache::clear(device, &tag)
    }
}

/// Returns the calling thread's device, which must be an Ascend 950, and the tag.
fn on_950(tag: &CText) -> Result<(u32, String), Failure> {
    let (_, device) = context::current_device()?;
    match device.product() {
        Product::Ascend950 => Ok((device.id, tag.required("tag")?)),
        product => {
            refuse!(
                HCCL_E_NOT_SUPPORT,
                "{product} has no recorded tasks, but Ascend 950 does; call this function only on \
                 Ascend 950"
            )
        }
    }
}

/// Returns the addresses with their sizes in bytes.
fn ranges(
    addresses: Slice<*mut c_void, *mut *mut c_void>,
    sizes: Slice<u64, *mut u64>,
    count: u64,
) -> Result<Vec<(usize, usize)>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let addresses = addresses.required("addrs")?;
    let addresses = addresses.counted(MOST_ITEMS, "count", HcclResult::HCCL_E_PARA)?;
    let sizes = sizes.required("sizes")?;
    Ok(addresses.iter().zip(&*sizes).map(|(at, size)| (at.addr(), *size as usize)).collect())
}
