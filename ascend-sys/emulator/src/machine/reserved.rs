//! Ranges of addresses of device memory that a program reserves, and in which it maps memory
//! itself.

use super::{Device, assign, blocks};
use crate::later;
use crate::memory::window::{self, GRANULE};
use crate::message::{Failure, fail};
use crate::progress::are_complete;
use crate::stream::unfinished_on;
use ascend_sys::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
use std::ops::Range;

/// Takes addresses for `bytes` bytes, in which memory of the device can be mapped.
pub(crate) fn reserve(
    device: &Device,
    bytes: usize,
    by: &'static str,
) -> Result<Range<usize>, Failure> {
    // This call may free addresses.
    later::look();
    let span = bytes.checked_next_multiple_of(GRANULE);
    let taken = match span {
        Some(span) => blocks()?.ranges.take_addresses(span, by).map(|at| at..at + span),
        None => None,
    };
    let Some(addresses) = taken else {
        return fail!(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "no address space is left for {bytes} bytes; release reserved ranges that are not used"
        );
    };
    assign(&addresses, device);
    Ok(addresses)
}

/// Releases addresses when nothing that is queued now can touch them any more. They stay assigned
/// to their device, so that an error can say what was there.
pub(crate) fn release(addresses: Range<usize>) {
    let mut until = unfinished_on(0..u32::MAX);
    later::until_done(move || {
        let is_done = are_complete(&mut until);
        if is_done && let Some(windows) = window::reserved() {
            window::discard(windows.data_of(addresses.start), addresses.len());
            if let Ok(blocks) = blocks() {
                blocks.ranges.free_addresses(addresses.start, "its release");
            }
        }
        is_done
    });
}
