//! Operations between processes give the same bits as between threads.

use hccl::prelude::*;
use hccl_tests::full;

use crate::collectives::tester::Tester;
use crate::ranks::{Place, run};

/// Returns the ways in which the ranks are spread over processes: one process for each, and mixed
/// with threads.
fn spreads() -> &'static [&'static [u32]] {
    if full() { &[&[1, 1], &[1, 1, 1], &[2, 1], &[2, 3], &[1; 8]] } else { &[&[1, 1], &[2, 1]] }
}

/// Calls `method` for each of the types, and each of the reductions if there are any.
macro_rules! for_each {
    ($tester:ident.$method:ident; $($t:ty)*) => { $($tester.$method::<$t>().unwrap();)* };
    ($tester:ident.$method:ident; $op:ident: $($t:ty)*) => { $($tester.$method::<$t, $op>().unwrap();)* };
}

/// Makes a test with this name.
macro_rules! spread {
    ($name:ident, $body:expr) => {
        #[test]
        fn $name() {
            let body: fn(&mut Tester) = $body;
            for each in spreads() {
                run(concat!("operations::", stringify!($name)), each, |place: Place| {
                    body(&mut Tester::new(place.communicator()).unwrap());
                });
            }
        }
    };
}

/// Makes a test of a reduction with all types that compile and that the product supports, as
/// between threads.
macro_rules! reduction {
    ($name:ident) => {
        spread!($name, |tester| {
            for_each!(tester.$name; Sum: i8 i16 i32 i64 f16 bf16 f32);
            for_each!(tester.$name; Max: i8 i16 i32 i64 f16 bf16 f32);
            for_each!(tester.$name; Min: i8 i16 i32 i64 f16 bf16 f32);
            for_each!(tester.$name; Prod: i8 i32 i64 f16 f32);
        });
    };
}

reduction!(all_reduce);
reduction!(reduce);
reduction!(reduce_scatter);

spread!(reduce_scatter_v, |tester| {
    for_each!(tester.reduce_scatter_v; Sum: i8 i16 i32 i64 f16 bf16 f32);
    for_each!(tester.reduce_scatter_v; Max: i8 i16 i32 f16 bf16 f32);
    for_each!(tester.reduce_scatter_v; Min: i8 i16 i32 f16 bf16 f32);
});

spread!(movements, |tester| {
    for_each!(tester.broadcast; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.all_gather; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.all_gather_v; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.scatter; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.all_to_all; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.all_to_all_v; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
});

spread!(messages, |tester| {
    for_each!(tester.messages; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.batch; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
});

/// Returns the time in nanoseconds, by a clock that all processes of the machine share.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) }, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

// No rank leaves a barrier before all ranks have entered it.
spread!(barriers, |tester| {
    let (device, stream) = (tester.device.clone(), tester.device.stream().unwrap());
    let ranks = tester.comm.world_size();
    for round in 1..=20 {
        // One rank comes late in each round.
        if tester.comm.rank() == round % ranks {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let entered = now();
        tester.comm.barrier(&tester.stream).unwrap().wait().unwrap();
        let left = now();
        let mut last = device.upload(&[entered], &stream).unwrap();
        tester.comm.all_reduce_in_place(&mut last, Max, &tester.stream).unwrap().wait().unwrap();
        let last = last.to_vec(&tester.stream).wait().unwrap()[0];
        assert!(left >= last, "round {round}: left before the last one has entered");
    }
});

spread!(many_of_one_size, |tester| {
    let count = 1 << 20;
    for round in 0..20 {
        let value = |rank: u32| (rank + round) as f32;
        let mut x =
            tester.device.upload(&vec![value(tester.comm.rank()); count], &tester.stream).unwrap();
        tester.comm.all_reduce_in_place(&mut x, Sum, &tester.stream).unwrap().wait().unwrap();
        let sum: f32 = (0..tester.comm.world_size()).map(value).sum();
        assert!(x.to_vec(&tester.stream).wait().unwrap().iter().all(|found| *found == sum));
    }
});
