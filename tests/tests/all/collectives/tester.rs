//! One rank of a test, which compares every operation with its reference.

use hccl::dtype::ReduceOp;
use hccl::prelude::*;
use hccl_tests::full;

use super::reference::{Random, Reference};

/// Lengths around the sizes at which the code changes its way: a vector register, a slot of a small
/// message, a cache line, a chunk.
const LENGTHS: &[usize] =
    &[0, 1, 2, 3, 7, 16, 31, 64, 127, 255, 256, 257, 511, 513, 1000, 4099, 16384, 65537, 300_001];

/// One rank of a test.
pub struct Tester {
    pub device: Device,
    pub comm: Communicator,
    pub stream: Stream,
    /// A number that advances by one for each case, in the same way on all ranks.
    case: usize,
}

impl Tester {
    pub fn new(comm: Communicator) -> hccl::Result<Self> {
        let device = comm.device().clone();
        Ok(Tester { stream: device.stream()?, device, comm, case: 0 })
    }

    /// Returns the rank and the number of ranks, as `usize`.
    pub fn place(&self) -> (usize, usize) {
        (self.comm.rank() as usize, self.comm.world_size() as usize)
    }

    /// Returns a root, which changes with each case.
    pub fn root(&self, n: usize) -> usize {
        (self.case + n) % self.place().1
    }

    /// Returns the lengths for the next case: all lengths in a full run, else one, which changes
    /// with each case. Each rank has `parts` times the length, and no length makes the total over
    /// all ranks too large.
    pub fn lengths(&mut self, parts: usize) -> Vec<usize> {
        self.case += 1;
        let (_, ranks) = self.place();
        let most = if full() { 1 << 21 } else { 1 << 17 } / ranks / parts;
        let fitting: Vec<usize> = LENGTHS.iter().copied().filter(|&n| n <= most).collect();
        if full() {
            return fitting;
        }
        vec![fitting[(self.case * 5 + ranks) % fitting.len()]]
    }

    /// Returns a generator that gives the same numbers on all ranks.
    pub fn random(&self, n: usize) -> Random {
        Random::new(self.case * 1000 + n)
    }

    pub fn upload<T: Reference>(&self, data: &[T]) -> hccl::Result<DeviceBuffer<T>> {
        self.device.upload(data, &self.stream)
    }

    /// Asserts that the contents are the expected ones, bit by bit.
    pub fn check<T: Reference>(
        &self,
        found: &DeviceBuffer<T>,
        expected: &[T],
        what: &str,
    ) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        let found = found.to_vec(&self.stream).wait()?;
        assert_eq!(found.len(), expected.len());
        if !T::same_bits(&found, expected) {
            let at = (0..found.len())
                .find(|&at| !T::same_bits(&found[at..=at], &expected[at..=at]))
                .unwrap_or_default();
            let (found, expected) = (found[at], expected[at]);
            panic!(
                "{what}, {}, rank {index} of {ranks}: element {at} is {found:?}, not {expected:?}",
                T::DTYPE
            );
        }
        Ok(())
    }
}

/// Returns the input of each rank to a reduction.
fn inputs<T: Reference>(kind: hccl::dtype::ReduceKind, ranks: usize, n: usize) -> Vec<Vec<T>> {
    (0..ranks).map(|rank| T::numbers(kind, n * 64 + rank, n)).collect()
}

/// Returns the reduction of all inputs.
fn reduced<T: Reference>(kind: hccl::dtype::ReduceKind, inputs: &[Vec<T>]) -> Vec<T> {
    let n = inputs.first().map_or(0, Vec::len);
    (0..n).map(|i| T::reduce(kind, inputs.iter().map(|input| input[i]))).collect()
}

/// Returns parts of these lengths in any order, with gaps, and the length of the whole.
fn scattered(random: &mut Random, counts: &[usize]) -> (Partition, usize) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    let mut displacements = vec![0; counts.len()];
    let mut next = random.below(3);
    for rank in order {
        displacements[rank] = next;
        next += counts[rank] + random.below(3);
    }
    let (counts, displacements) = (counts.iter().copied(), displacements.iter().copied());
    (Partition::with_displacements(counts, displacements).unwrap(), next)
}

/// The tests of the reductions.
impl Tester {
    pub fn all_reduce<T: Reference + Reduce<Op>, Op: ReduceOp>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(1) {
            let inputs = inputs::<T>(Op::KIND, ranks, n);
            let expected = reduced(Op::KIND, &inputs);
            let what = format!("{} of {n}", Op::KIND);
            let mut send = self.upload(&inputs[index])?;
            let recv = self.device.alloc::<T>(n)?;
            let (recv, work) = self.comm.all_reduce(&send, recv, Op::default(), &self.stream)?;
            work.wait()?;
            self.check(&recv, &expected, &what)?;
            self.check(&send, &inputs[index], &format!("the source of {what}"))?;
            drop(self.comm.all_reduce_in_place(&mut send, Op::default(), &self.stream)?);
            self.check(&send, &expected, &format!("{what} in place"))?;
        }
        Ok(())
    }

    pub fn reduce<T: Reference + Reduce<Op>, Op: ReduceOp>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(1) {
            let inputs = inputs::<T>(Op::KIND, ranks, n);
            let expected = reduced(Op::KIND, &inputs);
            let root = self.root(n);
            let what = format!("reduce ({}) of {n} to {root}", Op::KIND);
            let mut send = self.upload(&inputs[index])?;
            let recv = match index == root {
                true => Some(self.device.alloc::<T>(n)?),
                false => None,
            };
            let (recv, work) =
                self.comm.reduce(&send, recv, Op::default(), root as u32, &self.stream)?;
            work.wait()?;
            assert_eq!(recv.is_some(), index == root);
            if let Some(recv) = recv {
                self.check(&recv, &expected, &what)?;
            }
            self.check(&send, &inputs[index], &format!("the source of {what}"))?;
            let op = Op::default();
            drop(self.comm.reduce_in_place(&mut send, op, root as u32, &self.stream)?);
            let expected = if index == root { &expected } else { &inputs[index] };
            self.check(&send, expected, &format!("{what} in place"))?;
        }
        Ok(())
    }

    pub fn reduce_scatter<T: Reference + Reduce<Op>, Op: ReduceOp>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(ranks) {
            let inputs = inputs::<T>(Op::KIND, ranks, n * ranks);
            let own = index * n..(index + 1) * n;
            let expected = &reduced(Op::KIND, &inputs)[own.clone()];
            let what = format!("reduce_scatter ({}) of {n}", Op::KIND);
            let mut send = self.upload(&inputs[index])?;
            // The result goes into the middle of a larger buffer.
            let frame = T::bits(7, n + 2);
            let mut recv = self.upload(&frame)?;
            let middle = recv.slice_mut(1..=n)?;
            drop(self.comm.reduce_scatter(&send, middle, Op::default(), &self.stream)?);
            let framed = [&frame[..1], expected, &frame[n + 1..]].concat();
            self.check(&recv, &framed, &what)?;
            self.check(&send, &inputs[index], &format!("the source of {what}"))?;
            drop(self.comm.reduce_scatter_in_place(&mut send, Op::default(), &self.stream)?);
            let found = send.slice(own)?.to_vec(&self.stream).wait()?;
            assert!(T::same_bits(&found, expected), "{what} in place");
        }
        Ok(())
    }

    pub fn reduce_scatter_v<T: Reference + Reduce<Op>, Op: ReduceOp>(
        &mut self,
    ) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for most in self.lengths(ranks) {
            let mut random = self.random(most);
            let counts: Vec<usize> = (0..ranks).map(|_| random.below(most + 1)).collect();
            let (parts, length) = scattered(&mut random, &counts);
            let inputs = inputs::<T>(Op::KIND, ranks, length);
            let expected = &reduced(Op::KIND, &inputs)[parts.of(index as u32)];
            let what = format!("reduce_scatter_v ({}) of {counts:?}", Op::KIND);
            let send = self.upload(&inputs[index])?;
            let recv = self.device.alloc::<T>(counts[index])?;
            let op = Op::default();
            let (recv, _) = self.comm.reduce_scatter_v(&send, recv, op, &parts, &self.stream)?;
            self.check(&recv, expected, &what)?;
            self.check(&send, &inputs[index], &format!("the source of {what}"))?;
        }
        Ok(())
    }
}

/// The tests of the operations that only move elements.
impl Tester {
    pub fn broadcast<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, _) = self.place();
        for n in self.lengths(1) {
            let root = self.root(n);
            let mut buffer = self.upload(&T::bits(index, n))?;
            drop(self.comm.broadcast(&mut buffer, root as u32, &self.stream)?);
            self.check(&buffer, &T::bits(root, n), &format!("broadcast of {n} from {root}"))?;
        }
        Ok(())
    }

    pub fn all_gather<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(ranks) {
            let expected: Vec<T> = (0..ranks).flat_map(|rank| T::bits(rank, n)).collect();
            let what = format!("all_gather of {n}");
            let send = self.upload(&T::bits(index, n))?;
            let recv = self.device.alloc::<T>(n * ranks)?;
            let (recv, _) = self.comm.all_gather(&send, recv, &self.stream)?;
            self.check(&recv, &expected, &what)?;
            let mut buffer = T::bits(99, n * ranks);
            buffer[index * n..(index + 1) * n].copy_from_slice(&T::bits(index, n));
            let mut buffer = self.upload(&buffer)?;
            drop(self.comm.all_gather_in_place(&mut buffer, &self.stream)?);
            self.check(&buffer, &expected, &format!("{what} in place"))?;
        }
        Ok(())
    }

    pub fn all_gather_v<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for most in self.lengths(ranks) {
            let mut random = self.random(most);
            let counts: Vec<usize> = (0..ranks).map(|_| random.below(most + 1)).collect();
            let packed = Partition::packed(counts.iter().copied()).unwrap();
            let (parts, length) = scattered(&mut random, &counts);
            let send = self.upload(&T::bits(index, counts[index]))?;
            let expected: Vec<T> =
                (0..ranks).flat_map(|rank| T::bits(rank, counts[rank])).collect();
            let what = format!("all_gather_v of {counts:?}");
            let recv = self.device.alloc::<T>(packed.extent())?;
            let (recv, _) = self.comm.all_gather_v(&send, recv, &packed, &self.stream)?;
            self.check(&recv, &expected, &what)?;
            // Elements between the parts stay as they are.
            let mut expected = T::bits(99, length);
            let mut recv = self.upload(&expected)?;
            for rank in 0..ranks {
                expected[parts.of(rank as u32)].copy_from_slice(&T::bits(rank, counts[rank]));
            }
            drop(self.comm.all_gather_v(&send, &mut recv, &parts, &self.stream)?);
            self.check(&recv, &expected, &format!("{what} to {parts:?}"))?;
        }
        Ok(())
    }

    pub fn scatter<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(ranks) {
            let root = self.root(n);
            let whole = T::bits(root, n * ranks);
            let send = match index == root {
                true => Some(self.upload(&whole)?),
                false => None,
            };
            let recv = self.device.alloc::<T>(n)?;
            let (recv, _) = self.comm.scatter(send.as_ref(), recv, root as u32, &self.stream)?;
            let expected = &whole[index * n..(index + 1) * n];
            self.check(&recv, expected, &format!("scatter of {n} from {root}"))?;
        }
        Ok(())
    }

    pub fn all_to_all<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(ranks) {
            let send = self.upload(&T::bits(index, n * ranks))?;
            let recv = self.device.alloc::<T>(n * ranks)?;
            let (recv, _) = self.comm.all_to_all(&send, recv, &self.stream)?;
            let expected: Vec<T> = (0..ranks)
                .flat_map(|rank| T::bits(rank, n * ranks)[index * n..(index + 1) * n].to_vec())
                .collect();
            self.check(&recv, &expected, &format!("all_to_all of {n}"))?;
        }
        Ok(())
    }

    /// Tests an all-to-all with counts for each pair, which all ranks have. The parts are packed,
    /// and then scattered.
    pub fn all_to_all_v<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for most in self.lengths(ranks) {
            let mut random = self.random(most);
            let counts: Vec<u64> =
                (0..ranks * ranks).map(|_| random.below(most + 1) as u64).collect();
            let matrix = CountMatrix::new(ranks as u32, counts).unwrap();
            let count = |from: usize, to: usize| matrix.count(from as u32, to as u32);
            let message = |from: usize, to: usize| T::bits(from * ranks + to, count(from, to));
            let sent: Vec<T> = (0..ranks).flat_map(|to| message(index, to)).collect();
            let expected: Vec<T> = (0..ranks).flat_map(|from| message(from, index)).collect();
            let what = format!("all_to_all_vc of {most}");
            let send = self.upload(&sent)?;
            let recv = self.device.alloc::<T>(expected.len())?;
            let (recv, _) = self.comm.all_to_all_vc(&send, recv, &matrix, &self.stream)?;
            self.check(&recv, &expected, &what)?;

            let sends: Vec<usize> = (0..ranks).map(|to| count(index, to)).collect();
            let receives: Vec<usize> = (0..ranks).map(|from| count(from, index)).collect();
            // Each rank has its own order of the parts.
            let mut random = self.random(most + index);
            let (from, length) = scattered(&mut random, &sends);
            let mut sent = T::bits(98, length);
            let (to, length) = scattered(&mut random, &receives);
            let mut expected = T::bits(99, length);
            let mut recv = self.upload(&expected)?;
            for peer in 0..ranks {
                sent[from.of(peer as u32)].copy_from_slice(&message(index, peer));
                expected[to.of(peer as u32)].copy_from_slice(&message(peer, index));
            }
            let send = self.upload(&sent)?;
            drop(self.comm.all_to_all_v(&send, &mut recv, &from, &to, &self.stream)?);
            self.check(&recv, &expected, &format!("all_to_all_v of {most}"))?;
        }
        Ok(())
    }

    /// Sends messages once around, each rank to the next one. The order of calls is such that no
    /// rank waits for itself.
    pub fn messages<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for n in self.lengths(1) {
            for from in (0..ranks).filter(|_| ranks > 1) {
                let to = (from + 1) % ranks;
                if index == from {
                    let send = self.upload(&T::bits(from, n))?;
                    drop(self.comm.send(&send, to as u32, &self.stream)?);
                } else if index == to {
                    let recv = self.device.alloc::<T>(n)?;
                    let (recv, _) = self.comm.recv(recv, from as u32, &self.stream)?;
                    self.check(&recv, &T::bits(from, n), &format!("a message of {n}"))?;
                }
            }
        }
        Ok(())
    }

    /// Sends messages from each rank to some ranks, also to itself, in one batch.
    pub fn batch<T: Reference>(&mut self) -> hccl::Result<()> {
        let (index, ranks) = self.place();
        for most in self.lengths(1) {
            // Every rank has the same table: the number of elements from one rank to another, if
            // any.
            let mut random = self.random(most);
            let mut table = vec![vec![None; ranks]; ranks];
            for count in table.iter_mut().flatten() {
                *count = (random.below(3) > 0).then(|| random.below(most + 1));
            }
            let message = |from: usize, to: usize, n| T::bits(from * ranks + to, n);
            let mut outgoing = Vec::new();
            let mut incoming = Vec::new();
            for (peer, row) in table.iter().enumerate() {
                if let Some(n) = table[index][peer] {
                    outgoing.push((peer, self.upload(&message(index, peer, n))?));
                }
                if let Some(n) = row[index] {
                    incoming.push((peer, self.device.zeros::<T>(n, &self.stream)?));
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
                self.check(buffer, &expected, &format!("a batch, {peer} to {index}"))?;
            }
        }
        Ok(())
    }
}
