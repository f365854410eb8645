//! Batch mode: between `HcommBatchModeStart` and `HcommBatchModeEnd`, the primitives that an OS
//! thread issues are kept. They are submitted at the end.
//!
//! Each OS thread has its own batch mode, as in CANN. The tag names a sub-graph that hardware would
//! cache; the emulator only checks that the tag at the end is the same. If an OS thread ends in
//! batch mode, its kept primitives are dropped.

use super::memory::buffer_so_far;
use super::primitive::Primitive;
use super::reach::Reach;
use super::submit::submit;
use super::thread::Thread;
use crate::collective::caches::store_for;
use crate::memory::{MemoryPlace, nominal, place_of};
use crate::message::{Failure, refuse};
use crate::step::PIECE;
use ascend_reduce::Store;
use std::cell::{Cell, RefCell};
use std::ops::Range;

struct BatchedPrimitive {
    thread: u64,
    call: &'static str,
    primitive: Primitive,
    /// The channel that the primitive crosses.
    over: Option<u64>,
}

#[derive(Default)]
struct PrimitiveBatch {
    tag: Option<String>,
    kept: Vec<BatchedPrimitive>,
}

thread_local! {
    static OPEN: Cell<bool> = const { Cell::new(false) };
    static BATCH: RefCell<PrimitiveBatch> = const { RefCell::new(PrimitiveBatch { tag: None, kept: Vec::new() }) };
}

/// Returns whether the calling OS thread is in a batch mode.
#[inline]
pub(crate) fn is_open() -> bool {
    OPEN.get()
}

/// `HcommBatchModeStart`: begins a batch mode of the calling OS thread.
pub(crate) fn start(tag: Option<String>) -> Result<(), Failure> {
    if is_open() {
        return refuse!(
            HCCL_E_PARA,
            "the calling thread is in the batch mode {} already; batch modes do not nest: call HcommBatchModeEnd first",
            BATCH.with_borrow(|batch| say(&batch.tag))
        );
    }
    BATCH.with_borrow_mut(|batch| batch.tag = tag);
    OPEN.set(true);
    Ok(())
}

/// `HcommBatchModeEnd`: submits the kept primitives in order. If a primitive cannot be submitted,
/// returns its error and drops the primitives after it.
pub(crate) fn end(tag: Option<&str>) -> Result<(), Failure> {
    if !is_open() {
        return refuse!(
            HCCL_E_PARA,
            "the calling thread is not in batch mode; call HcommBatchModeStart first, on the same \
             OS thread"
        );
    }
    let (opened, mut kept) =
        BATCH.with_borrow_mut(|batch| (batch.tag.clone(), std::mem::take(&mut batch.kept)));
    if opened.as_deref() != tag {
        let (opened, given) = (say(&opened), say(&tag.map(str::to_owned)));
        BATCH.with_borrow_mut(|batch| batch.kept = kept);
        return refuse!(
            HCCL_E_PARA,
            "the batch mode of the calling thread was started with the tag {opened}, but is ended \
             with {given}; pass the tag of the start"
        );
    }
    OPEN.set(false);
    let beyond_caches = beyond_caches(&kept);
    let submitted =
        kept.drain(..).try_for_each(|BatchedPrimitive { thread, call, mut primitive, over }| {
            let _reach = Reach::again(over)?;
            primitive.check_again()?;
            if let (Primitive::Copy(copy), Some(user)) = (&mut primitive, &beyond_caches)
                && user.has(nominal(copy.to))
            {
                copy.store = Store::Streaming;
            }
            submit(Thread::named(thread)?, call, primitive)
        });
    // The allocation is kept for the next batch.
    BATCH.with_borrow_mut(|batch| batch.kept = kept);
    submitted
}

/// The memory of the program on a device. It excludes the HCCL buffer and the memory of peers.
struct OfUser {
    device: u32,
    buffer: Range<usize>,
}

impl OfUser {
    fn has(&self, address: usize) -> bool {
        !self.buffer.contains(&address) && place_of(address) == Ok(MemoryPlace::Device(self.device))
    }
}

/// Returns the memory whose contents will not be read again soon, if all ranks together copy more
/// bytes in the batch than the caches hold. Otherwise returns `None`.
fn beyond_caches(kept: &[BatchedPrimitive]) -> Option<OfUser> {
    let copied = kept.iter().map(|kept| match &kept.primitive {
        Primitive::Copy(copy) => copy.bytes,
        _ => 0,
    });
    let bytes = copied.fold(0, usize::saturating_add);
    if bytes <= PIECE {
        return None;
    }
    let thread = Thread::named(kept.first()?.thread).ok()?;
    let member = thread.owner()?.member?;
    let touched = bytes.saturating_mul(2 * member.comm.ranks());
    (store_for(touched) == Store::Streaming)
        .then(|| OfUser { device: thread.device(), buffer: buffer_so_far(&member) })
}

/// Keeps a primitive until the end of the batch mode.
pub(super) fn keep(thread: u64, call: &'static str, primitive: Primitive, over: Option<u64>) {
    let kept = BatchedPrimitive { thread, call, primitive, over };
    BATCH.with_borrow_mut(|batch| batch.kept.push(kept));
}

fn say(tag: &Option<String>) -> String {
    tag.as_ref().map_or("NULL".into(), |tag| format!("\"{tag}\""))
}
