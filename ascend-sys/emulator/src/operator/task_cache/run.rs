//! Issues the primitives of a recording again, with other addresses.

use super::{AddressRanges, AddressedPrimitive, CacheRecording, CachedPrimitive, KEPT, not_found};
use crate::collective::validate::name_of;
use crate::leaf::Copy;
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, refuse};
use crate::operator::issue::issue;
use crate::operator::primitive::Primitive;
use crate::operator::reach::Reach;
use crate::operator::reduce::Reduce;
use crate::operator::thread::Thread;
use ascend_sync::lock_std as lock;

/// Issues the primitives of a recording once more, with `ranges` in place of the ranges of the
/// recording.
pub(crate) fn execute(device: u32, tag: &str, ranges: &AddressRanges) -> Result<(), Failure> {
    let kept = lock(&KEPT).get(&(device, tag.to_owned())).cloned();
    let Some(kept) = kept else { return not_found(device, tag) };
    if kept.ranges.len() != ranges.len() {
        return refuse!(
            HCCL_E_PARA,
            "the number of addresses of \"{tag}\" was {} when it was recorded, but is {} now; \
             pass as many as in the recording",
            kept.ranges.len(),
            ranges.len()
        );
    }
    let now = |address: usize, bytes: usize| kept.moved(address, bytes, ranges);
    for CachedPrimitive { thread, call, what, over } in &kept.noted {
        let reach = Reach::again(*over)?;
        let thread = Thread::named(*thread)?;
        let primitive = match what {
            AddressedPrimitive::Move { to, from, bytes, kind } => {
                let (to, from) = (now(*to, *bytes)?, now(*from, *bytes)?);
                if let Some((dtype, _)) = kind
                    && !to.addr().is_multiple_of(dtype.size())
                {
                    return refuse!(
                        HCCL_E_PARA,
                        "a recorded reduction of \"{tag}\" would go to an address that is not \
                         aligned to the {} bytes of an element of type {}; pass aligned addresses",
                        dtype.size(),
                        name_of(*dtype)
                    );
                }
                match kind {
                    None => Primitive::Copy(Copy::new(to, from, *bytes)),
                    Some(kind) => {
                        let over = reach.as_ref().map(|channel| &***channel);
                        let shared = thread.shared_lock(over, to);
                        Primitive::Reduce(Reduce::new(to, from, *bytes, *kind, shared))
                    }
                }
            }
            AddressedPrimitive::Signal(signal) => Primitive::Signal(signal.clone()),
            AddressedPrimitive::Await(wait) => Primitive::Await(wait.clone()),
            AddressedPrimitive::Record(handle) => Primitive::Record(*handle),
            AddressedPrimitive::Wait(handle, limit) => Primitive::Wait(*handle, *limit),
        };
        issue(thread, call, primitive, reach.as_ref())?;
    }
    Ok(())
}

impl CacheRecording {
    /// Returns the address of bytes of the recording in an execution with these ranges.
    fn moved(
        &self,
        address: usize,
        bytes: usize,
        ranges: &AddressRanges,
    ) -> Result<*mut u8, Failure> {
        let inside = |(start, length): &(usize, usize)| {
            let offset = address.wrapping_sub(*start);
            offset < *length && bytes <= length - offset
        };
        let address = match self.ranges.iter().position(inside) {
            None => address,
            Some(at) => {
                let (offset, (start, length)) = (address - self.ranges[at].0, ranges[at]);
                if offset.checked_add(bytes).is_none_or(|end| end > length) {
                    return refuse!(
                        HCCL_E_PARA,
                        "addrs[{at}] has {length} bytes, but a recorded task uses {bytes} bytes \
                         at the offset {offset}; pass a longer range"
                    );
                }
                start.saturating_add(offset)
            }
        };
        match memory::resolve(address, bytes) {
            Ok(found) if found.place != MemoryPlace::Pageable => Ok(found.data),
            Ok(_) => refuse!(
                HCCL_E_PARA,
                "a recorded task of \"{}\" would use {address:#x}, which is neither device memory \
                 nor pinned memory; pass memory of aclrtMalloc or aclrtMallocHost",
                self.tag
            ),
            Err(text) => refuse!(HCCL_E_PARA, "a recorded task of \"{}\": {text}", self.tag),
        }
    }
}
