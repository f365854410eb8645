//! Operations between processes give, bit by bit, what they give between threads.

use hccl::prelude::*;
use hccl_tests::full;

use crate::collectives::tester::Tester;
use crate::ranks::{Place, run};

/// How the ranks are spread over processes: one each, and mixed with threads.
fn spreads() -> &'static [&'static [u32]] {
    if full() { &[&[1, 1], &[1, 1, 1], &[2, 1], &[2, 3], &[1; 8]] } else { &[&[1, 1], &[2, 1]] }
}

/// Calls `method` for each of the types, and each of the reductions if there are any.
macro_rules! for_each {
    ($tester:ident.$method:ident; $($t:ty)*) => { $($tester.$method::<$t>().unwrap();)* };
    ($tester:ident.$method:ident; $op:ident: $($t:ty)*) => { $($tester.$method::<$t, $op>().unwrap();)* };
}

/// A test with this name.
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

spread!(reductions, |tester| {
    for_each!(tester.all_reduce; Sum: i8 i16 i32 i64 f16 bf16 f32);
    for_each!(tester.all_reduce; Max: i8 i16 i32 i64 f16 bf16 f32);
    for_each!(tester.all_reduce; Prod: i8 i32 i64 f16 f32);
    for_each!(tester.reduce; Sum: i8 i16 i32 i64 f16 bf16 f32);
    for_each!(tester.reduce_scatter; Min: i8 i16 i32 i64 f16 bf16 f32);
    for_each!(tester.reduce_scatter_v; Sum: i8 i16 i32 f16 bf16 f32);
});

spread!(movements, |tester| {
    for_each!(tester.broadcast; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.all_gather; i8 i16 i32 i64 f16 bf16 f32 f64);
    for_each!(tester.all_gather_v; i8 i16 i32 i64 f16 bf16 f32 f64);
    for_each!(tester.scatter; i8 i16 i32 i64 f16 bf16 f32 f64);
    for_each!(tester.all_to_all; i8 i16 i32 i64 f16 bf16 f32 f64);
    for_each!(tester.all_to_all_v; i8 i16 i32 i64 f16 bf16 f32 f64);
});

spread!(messages, |tester| {
    for_each!(tester.messages; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    for_each!(tester.batch; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
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
