//! The fast path allocates nothing on the calling thread.
#![cfg(feature = "emulator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
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

fn allocations(mut call: impl FnMut()) -> usize {
    for _ in 0..100 {
        call();
    }
    let before = COUNT.get();
    for _ in 0..1000 {
        call();
    }
    COUNT.get() - before
}

#[test]
fn issuing_and_waiting_allocates_nothing() {
    let runtime = hccl::Runtime::emulator(1).unwrap();
    let device = runtime.device(0).unwrap();
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let x = device.upload(&[1.0_f32; 16], &stream).unwrap();
    let mut y = device.zeros::<f32>(16, &stream).unwrap();
    let mut host = runtime.host_buffer::<f32>(16).unwrap();
    let data = [2.0_f32; 16];
    assert_eq!(allocations(|| y.copy_from(&x, &stream).unwrap().wait().unwrap()), 0);
    assert_eq!(allocations(|| drop(y.copy_from(&x, &stream).unwrap())), 0);
    assert_eq!(allocations(|| y.upload(&data, &stream).unwrap().wait().unwrap()), 0);
    let both = || {
        y.copy_to(&mut host, &stream).unwrap();
        y.copy_from_host(&host, &other).unwrap().wait().unwrap();
        assert!(host.as_slice().unwrap().len() == 16);
    };
    assert_eq!(allocations(both), 0);
}
