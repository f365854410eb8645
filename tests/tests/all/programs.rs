//! Compares random programs with a sequential interpreter. The programs contain every operation of
//! communicators of random ranks in random orders. Their buffers are parts of larger ones. They run
//! on several streams, awaited or not. At the end each bit of every buffer of every rank is
//! compared, also bits that no operation should have touched.
//!
//! `cargo test` takes a sample, the same every time; with `HCCL_TEST_FULL=1` it is five thousand
//! programs. A program that fails is shrunk and printed; `HCCL_TEST_SEED=n` repeats the one with
//! that number.

mod buffers;
mod execute;
mod found;
mod generate;
mod group;
mod interpret;
mod program;
mod shrink;

use std::time::Duration;

use crate::collectives::reference;
use generate::generate;
use hccl::prelude::*;
use hccl_tests::{full, installed_emulator, own_devices, without_extensions};
use program::Program;
use shrink::{Failure, attempt, shrink};

const PRODUCTS: [Product; 3] = [Product::A2, Product::A3, Product::Ascend950];
const MOST_RANKS: usize = 17;

/// Returns devices for any program of a product.
fn devices(product: Product) -> Runtime {
    // Nothing here takes long, unless something hangs. The memory is small, because a sanitizer
    // leaves few addresses.
    let limit = Duration::from_secs(30);
    let options = own_devices().devices(MOST_RANKS).memory(1 << 30).product(product);
    let options = options.connect_timeout(limit).exec_timeout(limit).deadline(limit);
    options.build().expect("the emulator starts")
}

/// Panics with the shortest program that fails in the same way.
fn report(program: Program, failure: Failure, fresh: impl Fn() -> Runtime) -> ! {
    let (program, failure) = shrink(program, failure, fresh);
    panic!("{failure}\n{program}");
}

#[test]
fn programs_do_what_the_interpreter_does() {
    let seeds = match std::env::var("HCCL_TEST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("HCCL_TEST_SEED is a number");
            seed..seed + 1
        }
        Err(_) if full() => 0..3_000,
        Err(_) => 0..100,
    };
    let runtimes = PRODUCTS.map(devices);
    for seed in seeds {
        let which = seed % PRODUCTS.len();
        let program = generate(seed, PRODUCTS[which], MOST_RANKS);
        if let Err(failure) = attempt(&program, &runtimes[which]) {
            report(program, failure, || devices(PRODUCTS[which]));
        }
    }
}

/// Runs a few programs on eight devices of another backend.
fn on_backend(fresh: impl Fn() -> Runtime) {
    let runtime = fresh();
    let product = runtime.product().expect("a product");
    for seed in 0..20 {
        let program = generate(seed, product, 8);
        if let Err(failure) = attempt(&program, &runtime) {
            report(program, failure, &fresh);
        }
    }
}

/// Runs programs on a table that has only CANN's own functions.
#[test]
fn without_optional_entries() {
    on_backend(without_extensions);
}

/// Runs programs on the symbols of shared libraries with CANN's names.
#[test]
fn over_dlopened_libraries() {
    on_backend(|| Runtime::load_from(installed_emulator()).expect("the emulator starts"));
}
