//! The steady state allocates nothing: small and large collectives of two ranks that wait in turn.

mod common;
mod ranks;

use ascend_sys::*;
use ranks::on_ranks;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn collectives_in_the_steady_state_allocate_nothing() {
    const ROUNDS: usize = 500;
    let turn = Barrier::new(2);
    let least = on_ranks(2, |rank| {
        let buffer = rank.upload(&[0; 256 * 1024]);
        let (fp32, sum) = (HcclDataType(4), HcclReduceOp(0));
        let mut least = u64::MAX;
        for _ in 0..ROUNDS {
            turn.wait();
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for count in [2, 200, 65_536] {
                let (comm, stream) = (rank.comm, rank.stream);
                hccl!(HcclAllReduce(buffer, buffer, count, fp32, sum, comm, stream));
                hccl!(HcclBroadcast(buffer, count, fp32, 1, comm, stream));
                hccl!(HcclBarrier(comm, stream));
                rank.sync();
            }
            // A thread that loses its core puts the other to sleep, which may allocate; some rounds go undisturbed.
            least = least.min(ALLOCATIONS.load(Ordering::Relaxed) - before);
        }
        least
    });
    assert_eq!(least.into_iter().min(), Some(0));
}
