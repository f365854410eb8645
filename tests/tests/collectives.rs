//! Every operation against a naive reference, through the safe API: all types and reductions, odd and even numbers of ranks,
//! lengths around every boundary, nothing, and in place; with the optional entries of the table and without.
//!
//! `cargo test` takes a sample, the same every time; with `HCCL_TEST_FULL=1` it is the whole matrix.

#[path = "collectives/reference.rs"]
mod reference;

use std::sync::atomic::{AtomicU32, Ordering};

use hccl::dtype::ReduceOp;
use hccl::prelude::*;
use hccl_tests::{full, installed_emulator, without_extensions};
use reference::{Random, Reference};

/// Around the sizes at which something changes: a vector register, a slot of a small message, a cache line, a chunk.
const LENGTHS: &[usize] =
    &[0, 1, 2, 3, 7, 16, 31, 64, 127, 255, 256, 257, 511, 513, 1000, 4099, 16384, 65537, 300_001];

const RANKS: &[u32] = &[1, 2, 3, 4, 5, 8, 16];

/// One rank of a test.
struct Tester {
    rank: Rank,
    comm: Communicator,
    stream: Stream,
    /// Advances by one for each case, alike on all ranks.
    case: usize,
}

impl Tester {
    fn new(rank: Rank) -> hccl::Result<Self> {
        let (comm, stream) = (rank.communicator()?, rank.device().stream()?);
        Ok(Tester { rank, comm, stream, case: 0 })
    }

    /// Its number, and how many there are, to count with.
    fn place(&self) -> (usize, usize) {
        (self.rank.index() as usize, self.rank.world_size() as usize)
    }

    /// The lengths for the next case: all, or one that wanders through the list. What all ranks hold together is bounded.
    fn lengths(&mut self) -> Vec<usize> {
        self.case += 1;
        let (_, ranks) = self.place();
        let most = if full() { 1 << 21 } else { 1 << 17 } / ranks;
        let fitting = LENGTHS.iter().copied().filter(|&n| n <= most);
        if full() {
            return fitting.collect();
        }
        let fitting: Vec<usize> = fitting.collect();
        vec![fitting[(self.case * 5 + ranks) % fitting.len()]]
    }

    fn all_reduce<T: Reference + Reduce<Op>, Op: ReduceOp>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths() {
            let inputs: Vec<Vec<T>> =
                (0..ranks).map(|rank| T::numbers(Op::KIND, n * 64 + rank, n)).collect();
            let expected: Vec<T> =
                (0..n).map(|i| T::reduce(Op::KIND, inputs.iter().map(|input| input[i]))).collect();
            let what = format!("{} of {n} {}, rank {index} of {ranks}", Op::KIND, T::DTYPE);

            let device = self.rank.device();
            let mut send = device.upload(&inputs[index], &self.stream)?;
            let recv = device.alloc::<T>(n)?;
            let (recv, work) = self.comm.all_reduce(&send, recv, Op::default(), &self.stream)?;
            work.wait()?;
            assert_eq!(recv.to_vec(&self.stream).wait()?, expected, "{what}");
            assert_eq!(send.to_vec(&self.stream).wait()?, inputs[index], "the source of {what}");

            drop(self.comm.all_reduce_in_place(&mut send, Op::default(), &self.stream)?);
            assert_eq!(send.to_vec(&self.stream).wait()?, expected, "in place: {what}");
        }
        Ok(())
    }

    fn broadcast<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths() {
            let root = (self.case + n) % ranks;
            let mut buffer = self.rank.device().upload(&T::bits(index, n), &self.stream)?;
            drop(self.comm.broadcast(&mut buffer, root as u32, &self.stream)?);
            let found = buffer.to_vec(&self.stream).wait()?;
            let what = format!("{n} {} from {root}, rank {index} of {ranks}", T::DTYPE);
            assert!(T::same_bits(&found, &T::bits(root, n)), "{what}");
        }
        Ok(())
    }

    /// Everyone sends something to some of the ranks, also to itself.
    fn batch<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for most in self.lengths() {
            // The same table on every rank: how many elements go from one to another, if any.
            let mut random = Random::new(self.case * 1000 + most);
            let mut table = vec![vec![None; ranks]; ranks];
            for count in table.iter_mut().flatten() {
                *count = (random.below(3) > 0).then(|| random.below(most + 1));
            }
            let message = |from: usize, to: usize, n| T::bits(from * ranks + to, n);
            let device = self.rank.device();
            let mut outgoing = Vec::new();
            let mut incoming = Vec::new();
            for (peer, row) in table.iter().enumerate() {
                if let Some(n) = table[index][peer] {
                    outgoing.push((peer, device.upload(&message(index, peer, n), &self.stream)?));
                }
                if let Some(n) = row[index] {
                    incoming.push((peer, device.zeros::<T>(n, &self.stream)?));
                }
            }
            let mut batch = self.comm.batch();
            for (peer, buffer) in &outgoing {
                batch = batch.send(buffer, *peer as u32);
            }
            for (peer, buffer) in &mut incoming {
                batch = batch.recv(buffer, *peer as u32);
            }
            batch.submit(&self.stream)?.wait()?;
            for (peer, buffer) in &incoming {
                let expected = message(*peer, index, buffer.len());
                let found = buffer.to_vec(&self.stream).wait()?;
                let what = format!("{} {}, {peer} to {index}", expected.len(), T::DTYPE);
                assert!(T::same_bits(&found, &expected), "{what}");
            }
        }
        Ok(())
    }
}

/// Calls `method` for each of the types, and each of the reductions if there are any.
macro_rules! for_each {
    ($tester:ident.$method:ident; $($t:ty)*) => { $($tester.$method::<$t>()?;)* };
    ($tester:ident.$method:ident; $op:ident: $($t:ty)*) => { $($tester.$method::<$t, $op>()?;)* };
}

fn all_reduce_matches(runtime: &Runtime, ranks: u32) {
    let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
        let mut tester = Tester::new(rank)?;
        for_each!(tester.all_reduce; Sum: i8 i16 i32 i64 f16 bf16 f32);
        for_each!(tester.all_reduce; Max: i8 i16 i32 i64 f16 bf16 f32);
        for_each!(tester.all_reduce; Min: i8 i16 i32 i64 f16 bf16 f32);
        for_each!(tester.all_reduce; Prod: i8 i32 i64 f16 f32);
        if runtime.product() == Some(Product::Ascend950) {
            for_each!(tester.all_reduce; Sum: u64 f64);
            for_each!(tester.all_reduce; Max: u64 f64);
            for_each!(tester.all_reduce; Min: u64 f64);
            for_each!(tester.all_reduce; Prod: u64 f64);
        }
        Ok(())
    });
    outcome.unwrap();
}

fn broadcast_matches(runtime: &Runtime, ranks: u32) {
    let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
        let mut tester = Tester::new(rank)?;
        for_each!(tester.broadcast; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
        Ok(())
    });
    outcome.unwrap();
}

fn batch_matches(runtime: &Runtime, ranks: u32) {
    let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
        let mut tester = Tester::new(rank)?;
        for_each!(tester.batch; i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
        Ok(())
    });
    outcome.unwrap();
}

/// Nobody leaves a barrier before all have entered it.
fn barrier_holds(runtime: &Runtime, ranks: u32) {
    let entered = AtomicU32::new(0);
    let outcome = runtime.run_ranks(ranks, |rank| -> hccl::Result<()> {
        let mut tester = Tester::new(rank)?;
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
    for product in [Product::A2, Product::A3, Product::Ascend950] {
        // The types of the 950 and one number of ranks tell the products apart; the full matrix takes them all.
        let ranks = if full() || product == Product::A3 { RANKS } else { &[3] };
        for &ranks in ranks {
            let options =
                Runtime::emulator_builder().devices(ranks as usize).product(product).build();
            test(&options.unwrap(), ranks);
        }
    }
}

#[test]
fn all_reduce() {
    on_each_product(all_reduce_matches);
}

#[test]
fn broadcast() {
    on_each_product(broadcast_matches);
}

#[test]
fn batch() {
    on_each_product(batch_matches);
}

#[test]
fn barrier() {
    on_each_product(barrier_holds);
}

fn everything_on(runtime: &Runtime, ranks: &[u32]) {
    for &ranks in ranks {
        all_reduce_matches(runtime, ranks);
        broadcast_matches(runtime, ranks);
        batch_matches(runtime, ranks);
        barrier_holds(runtime, ranks);
    }
}

/// The same on a table that has nothing but CANN's own functions: eight devices, no help with completion.
#[test]
fn without_optional_entries() {
    everything_on(&without_extensions(), &[1, 2, 3, 8]);
}

/// The same on the symbols of shared libraries with CANN's names.
#[test]
fn over_dlopened_libraries() {
    let runtime = Runtime::load_from(installed_emulator()).unwrap();
    assert_eq!(runtime.backend(), hccl::Backend::Cann);
    everything_on(&runtime, &[1, 2, 3, 8]);
}
