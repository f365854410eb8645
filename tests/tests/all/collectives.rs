//! Compares every operation with a naive reference, through the safe API. The cases are all types
//! and reductions, odd and even numbers of ranks, lengths around every boundary, no elements, parts
//! in any order with gaps, slices, and in place. They run with the optional entries of the table
//! and without.
//!
//! `cargo test` takes a sample, the same every time; with `HCCL_TEST_FULL=1` it is the whole
//! matrix.

pub(crate) mod reference;
mod tester;

use std::sync::atomic::{AtomicU32, Ordering};

use hccl::prelude::*;
use hccl_tests::{
    Devices, full, installed_emulator, is_loaded, own_devices, products, runtime_with,
    without_extensions,
};
use tester::Tester;

const RANKS: &[u32] = &[1, 2, 3, 4, 5, 8, 16];

/// Calls `method` for each of the types, and each of the reductions if there are any.
macro_rules! for_each {
    ($tester:ident.$method:ident; $($t:ty)*) => { $($tester.$method::<$t>()?;)* };
    ($tester:ident.$method:ident; $op:ident: $($t:ty)*) => { $($tester.$method::<$t, $op>()?;)* };
}

/// Makes a test of a reduction with all types that compile, as far as the product supports them.
macro_rules! reduction {
    ($name:ident, $method:ident) => {
        fn $name(runtime: &Runtime, ranks: u32) {
            let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
                let mut tester = Tester::new(rank.communicator()?)?;
                for_each!(tester.$method; Sum: i8 i16 i32 i64 f16 bf16 f32);
                for_each!(tester.$method; Max: i8 i16 i32 i64 f16 bf16 f32);
                for_each!(tester.$method; Min: i8 i16 i32 i64 f16 bf16 f32);
                for_each!(tester.$method; Prod: i8 i32 i64 f16 f32);
                if runtime.product() == Some(Product::Ascend950) {
                    for_each!(tester.$method; Sum: u64 f64);
                    for_each!(tester.$method; Max: u64 f64);
                    for_each!(tester.$method; Min: u64 f64);
                    for_each!(tester.$method; Prod: u64 f64);
                }
                Ok(())
            });
            outcome.unwrap();
        }
    };
}

reduction!(all_reduce_matches, all_reduce);
reduction!(reduce_matches, reduce);
reduction!(reduce_scatter_matches, reduce_scatter);

/// Tests `reduce_scatter_v`, for which the products support fewer reductions.
fn reduce_scatter_v_matches(runtime: &Runtime, ranks: u32) {
    let product = runtime.product();
    let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
        let mut tester = Tester::new(rank.communicator()?)?;
        for_each!(tester.reduce_scatter_v; Sum: i8 i16 i32 f16 bf16 f32);
        for_each!(tester.reduce_scatter_v; Max: i8 i16 i32 f16 bf16 f32);
        for_each!(tester.reduce_scatter_v; Min: i8 i16 i32 f16 bf16 f32);
        if product != Some(Product::A2) {
            tester.reduce_scatter_v::<i64, Sum>()?;
        }
        if product == Some(Product::Ascend950) {
            for_each!(tester.reduce_scatter_v; Prod: i8 i32 i64 f16 f32);
        }
        Ok(())
    });
    outcome.unwrap();
}

/// Makes a test of a movement with all types.
macro_rules! movement {
    ($name:ident, $method:ident) => {
        fn $name(runtime: &Runtime, ranks: u32) {
            let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
                let mut tester = Tester::new(rank.communicator()?)?;
                for_each!(tester.$method; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
                Ok(())
            });
            outcome.unwrap();
        }
    };
}

movement!(broadcast_matches, broadcast);
movement!(all_gather_matches, all_gather);
movement!(all_gather_v_matches, all_gather_v);
movement!(scatter_matches, scatter);
movement!(all_to_all_matches, all_to_all);
movement!(all_to_all_v_matches, all_to_all_v);
movement!(messages_match, messages);
movement!(batch_matches, batch);

/// Asserts that no rank leaves a barrier before all ranks have entered it.
fn barrier_holds(runtime: &Runtime, ranks: u32) {
    let entered = AtomicU32::new(0);
    let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
        let mut tester = Tester::new(rank.communicator()?)?;
        for round in 1..=20 {
            entered.fetch_add(1, Ordering::SeqCst);
            tester.comm.barrier(&tester.stream)?.wait()?;
            assert!(entered.load(Ordering::SeqCst) >= round * ranks);
        }
        Ok(())
    });
    outcome.unwrap();
}

fn on_each_product(test: fn(&Runtime, u32)) {
    for product in products() {
        // The types of the 950, and few numbers of ranks, are enough to distinguish the products.
        let ranks = match (product, full()) {
            (Product::A3, _) => RANKS,
            (_, true) => &[3, 8],
            (_, false) => &[3],
        };
        for &ranks in ranks {
            // Each device has little memory, because there are many tests at once and a sanitizer
            // leaves few addresses.
            let devices = Devices::new(ranks as usize).memory(1 << 30).product(product);
            test(&devices.runtime(), ranks);
        }
    }
}

/// Makes a test of each operation, by name, and a function that runs all of them.
macro_rules! operations {
    ($($test:ident: $function:ident;)*) => {
        $(#[test]
        fn $test() {
            on_each_product($function);
        })*

        fn everything_on(runtime: &Runtime, ranks: &[u32]) {
            for &ranks in ranks {
                $($function(runtime, ranks);)*
            }
        }
    };
}

operations! {
    all_reduce: all_reduce_matches;
    reduce: reduce_matches;
    reduce_scatter: reduce_scatter_matches;
    reduce_scatter_v: reduce_scatter_v_matches;
    broadcast: broadcast_matches;
    all_gather: all_gather_matches;
    all_gather_v: all_gather_v_matches;
    scatter: scatter_matches;
    all_to_all: all_to_all_matches;
    all_to_all_v_and_vc: all_to_all_v_matches;
    messages: messages_match;
    batch: batch_matches;
    barrier: barrier_holds;
}

#[test]
fn an_empty_part_lies_wherever_it_is_said_to() {
    const FAR: usize = isize::MAX as usize;
    for checked in [false, true] {
        let runtime = match checked {
            false => runtime_with(2),
            // The mode of existing devices cannot be chosen.
            true if is_loaded() => continue,
            true => own_devices().devices(2).checked(true).build().unwrap(),
        };
        let outcome = runtime.run_ranks(2, |rank| -> hccl::Result<()> {
            let (device, me) = (rank.device(), rank.index());
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let parts = Partition::with_displacements([0, 4], [FAR, 0])?;
            let own = parts.count(me);
            let x = device.upload(&[1 + me as i32; 4], &stream)?;
            let mut y = device.zeros::<i32>(4, &stream)?;
            comm.all_gather_v(x.slice(..own)?, &mut y, &parts, &stream)?.wait()?;
            assert_eq!(y.to_vec(&stream).wait()?, [2; 4]);
            comm.reduce_scatter_v(&x, y.slice_mut(..own)?, Sum, &parts, &stream)?.wait()?;
            assert_eq!(y.to_vec(&stream).wait()?, [2 + me as i32; 4]);
            // Each rank sends to the other one, and nothing to itself.
            let (counts, places) = if me == 0 { ([0, 4], [FAR, 0]) } else { ([4, 0], [0, FAR]) };
            let parts = Partition::with_displacements(counts, places)?;
            comm.all_to_all_v(&x, &mut y, &parts, &parts, &stream)?.wait()?;
            assert_eq!(y.to_vec(&stream).wait()?, [2 - me as i32; 4]);
            Ok(())
        });
        outcome.unwrap();
    }
}

/// Returns the numbers of ranks for the tests below. These tests differ from the tests above only
/// in the way to the functions. The sample tries several numbers of ranks with one length each, and
/// the full matrix tries all lengths with one number of ranks.
fn some_ranks() -> &'static [u32] {
    if full() { &[3] } else { &[1, 2, 3, 8] }
}

/// Runs the same tests on a table that has only CANN's own functions. The runtime then has the
/// default eight devices, and it waits without counts of tasks.
#[test]
fn without_optional_entries() {
    everything_on(&without_extensions(), some_ranks());
}

/// Runs the same tests on the symbols of shared libraries with CANN's names.
#[test]
fn over_dlopened_libraries() {
    let runtime = Runtime::load_from(installed_emulator()).unwrap();
    assert_eq!(runtime.backend(), hccl::Backend::Cann);
    everything_on(&runtime, some_ranks());
}
