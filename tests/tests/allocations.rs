//! Once warm, an operation allocates nothing on the thread that issues it and waits for it: not in `hccl` and not in
//! the emulator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hccl::prelude::*;

/// Counts the allocations of each thread and otherwise is the system's allocator.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WARM_UP: usize = 200;
const COUNTED: usize = 200;
const ROUNDS: usize = 10;

#[test]
fn no_operation_allocates_after_warm_up() {
    let runtime = Runtime::emulator(2).unwrap();
    let counts = runtime
        .run_ranks(2, |rank| -> hccl::Result<Vec<(&str, usize, usize)>> {
            let device = rank.device();
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let peer = 1 - comm.rank();
            // One size that travels inside the meeting, one that is cut into chunks.
            let mut counts = Vec::with_capacity(16);
            for len in [16, 100_000] {
                let send = device.zeros::<f32>(len, &stream)?;
                let mut recv = device.zeros::<f32>(len, &stream)?;
                let mut count =
                    |name, operation: &mut dyn FnMut() -> hccl::Result<Work>| -> hccl::Result<()> {
                        for _ in 0..WARM_UP {
                            operation()?.wait()?;
                        }
                        // A rank that loses its core sleeps, and a list of sleepers may grow then. An operation
                        // that allocates does so in every round.
                        let mut fewest = usize::MAX;
                        for _ in 0..ROUNDS {
                            let before = ALLOCATIONS.get();
                            for _ in 0..COUNTED {
                                operation()?.wait()?;
                            }
                            fewest = fewest.min(ALLOCATIONS.get() - before);
                        }
                        counts.push((name, len, fewest));
                        Ok(())
                    };
                count("all_reduce", &mut || comm.all_reduce(&send, &mut recv, Sum, &stream))?;
                count("all_reduce_in_place", &mut || {
                    comm.all_reduce_in_place(&mut recv, Max, &stream)
                })?;
                count("broadcast", &mut || comm.broadcast(&mut recv, 0, &stream))?;
                count("barrier", &mut || comm.barrier(&stream))?;
                count("batch", &mut || {
                    comm.batch().send(&send, peer).recv(&mut recv, peer).submit(&stream)
                })?;
                count("copy_from", &mut || recv.copy_from(&send, &stream))?;
            }
            Ok(counts)
        })
        .unwrap();
    for (name, len, count) in counts.into_iter().flatten() {
        assert_eq!(count, 0, "{COUNTED} times {name} of {len} elements allocated {count} times");
    }
}
