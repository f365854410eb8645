//! One-sided writes of kernels, made and checked by each rank: blocks into windows on Ascend 950,
//! queues of batches on A3, and batches between windows on A2.

use super::build::Builder;
use super::*;
use crate::call;
use crate::common::{read, write};
use ascend_program::Binary;
use ascend_program::step::Place;
use std::ptr::with_exposed_provenance_mut;

pub const BATCH_WRITE: u32 = 18;
pub const ALL_TO_ALL_V_WRITE: u32 = 20;

/// Returns a kernel with one `AlltoAllvWrite`. Its numbers are in the tiling struct, after the
/// communication members.
pub fn write_blocks() -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let x = b.input("x", Number::U8);
    let lists = ["offsets", "sizes"].map(|name| b.input(name, Number::U64));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[ALL_TO_ALL_V_WRITE]);
        let task = b.task("blocks", client);
        let (window, local) = (b.field("window", 576), b.field("local", 584));
        let send = b.at(x, 0);
        let [offsets, sizes] = lists.map(|list| b.at(list, 0));
        let operation = Operation::AlltoAllvWrite { send, offsets, sizes, window, local };
        b.prepare(task, operation, 1, false);
        b.commit(task);
        b.wait(task);
        b.sync_vectors();
        b.finalize(client);
    });
    b.done()
}

/// Returns the tiling struct of [`write_blocks`].
pub fn numbers(rank: &Rank, window: u64, local: u64) -> Vec<u8> {
    let mut bytes = tiling(&[ALL_TO_ALL_V_WRITE], &name_of(rank.comm));
    bytes[576..584].copy_from_slice(&window.to_le_bytes());
    bytes[584..592].copy_from_slice(&local.to_le_bytes());
    bytes
}

pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the input window of a rank, by its address in the context of this rank.
pub fn window(rank: &Rank, context: *mut c_void, product: u32, of: u32) -> *mut c_void {
    let word = |address: usize| {
        let bytes = read(with_exposed_provenance_mut(address), 8);
        u64::from_le_bytes(bytes.try_into().unwrap()) as usize
    };
    let (context, of) = (context.expose_provenance(), of as usize);
    assert!(of < rank.ranks as usize);
    with_exposed_provenance_mut(match product {
        // A table has pointers to the host and to the device. The latter lead to the records.
        A3 => {
            let table = word(context + 192) & u64::from(u32::MAX) as usize;
            word(word(context + table + 16 * of + 8) + 8)
        }
        _ => word(context + 32 + 8 * of),
    })
}

/// The blocks that ranks write to each other. For each sender it has the beginning and length of
/// each block, and the place of the blocks in the windows.
struct Blocks {
    offsets: Vec<Vec<u64>>,
    sizes: Vec<Vec<u64>>,
    at: Vec<u64>,
}

const INPUT: u64 = 700;
const ROOM: u64 = 300;

impl Blocks {
    fn random(random: &mut fastrand::Rng, ranks: u64) -> Blocks {
        let mut each = |of: &mut dyn FnMut(&mut fastrand::Rng) -> u64| -> Vec<Vec<u64>> {
            (0..ranks).map(|_| (0..ranks).map(|_| of(random)).collect()).collect()
        };
        let sizes = each(&mut |random| if random.u32(0..4) == 0 { 0 } else { random.u64(1..ROOM) });
        let offsets = each(&mut |random| random.u64(0..INPUT - ROOM));
        Blocks { offsets, sizes, at: (0..ranks).map(|rank| rank * ROOM).collect() }
    }

    /// Returns the contents of a rank's window after the writes.
    fn naive(&self, to: usize, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut window = vec![0; inputs.len() * ROOM as usize];
        for (from, input) in inputs.iter().enumerate() {
            for byte in 0..self.sizes[from][to] {
                let source = (self.offsets[from][to] + byte) as usize;
                window[(self.at[from] + byte) as usize] = input[source];
            }
        }
        window
    }
}

/// Checks blocks that go into the windows of all ranks of a communicator, on Ascend 950. All ranks
/// must pass the same seed.
pub fn blocks_come_into_windows(rank: &Rank, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (ranks, own) = (rank.ranks as usize, rank.rank as usize);
    let blocks = Blocks::random(&mut random, ranks as u64);
    let inputs: Vec<Vec<u8>> =
        (0..ranks).map(|_| (0..INPUT).map(|_| random.u8(1..)).collect()).collect();
    let (at, local) = (blocks.at[own], blocks.sizes[own][own]);
    let ready = Ready::of(rank, &write_blocks(), numbers(rank, at, local));
    let mut sizes = blocks.sizes[own].clone();
    // The size of the rank's own block is ignored.
    sizes[own] = 1 << 40;
    let tensors = [inputs[own].clone(), words(&blocks.offsets[own]), words(&sizes)];
    let tensors: Vec<_> = tensors.iter().map(|bytes| rank.upload(bytes)).collect();
    let window = window(rank, ready.context, ASCEND950, rank.rank);
    write(window, &vec![0; ranks * ROOM as usize]);
    hccl!(HcclBarrier(rank.comm, rank.stream));
    rank.sync();
    ready.run_all(rank, 3, &tensors);
    // When the turn is over on one rank, all ranks have written.
    let found = read(window, ranks * ROOM as usize);
    ready.run_all(rank, 1, &tensors);
    assert_eq!(found, read(window, found.len()));
    assert_eq!(found, blocks.naive(own, &inputs), "{ranks} ranks, rank {own}");
    ready.end();
}

/// The number of cores. `QUEUES` is the number of queues of each core, `ITEMS` of items of each
/// batch, and `BYTES` of bytes of each item.
const CORES: u64 = 4;
const QUEUES: u64 = 3;
const ITEMS: u64 = 2;
const BYTES: u64 = 24;

/// Returns a kernel in which each core writes two batches into each of its queues, with a barrier
/// of the queue after each batch. `waits` says whether the end of the client waits.
pub fn batches(waits: bool) -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let (_x, items) = (b.input("x", Number::U8), b.input("items", Number::U8));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[BATCH_WRITE]);
        let (index, count) = (b.block_index(), b.n(ITEMS));
        for queue in 0..QUEUES {
            for round in 0..2 {
                let task = b.task(&format!("batch{queue}_{round}"), client);
                let (each, first) = (b.n(QUEUES * 2), b.n(queue * 2 + round));
                let number = b.binary(Binary::Mul, index, each);
                let number = b.binary(Binary::Add, number, first);
                let bytes = b.n(ITEMS * 64);
                let offset = b.binary(Binary::Mul, number, bytes);
                let (items, queue) = (Place { base: items, offset }, b.n(queue));
                b.prepare(task, Operation::BatchWrite { items, count, queue }, 1, true);
                // If there are queues, this returns at once.
                b.wait(task);
                b.hccl(Hccl::Barrier(client, queue));
            }
        }
        b.hccl(Hccl::Finalize(client, waits));
    });
    b.done()
}

/// Returns the items that a rank writes to the next rank, 64 bytes for each item. The second round
/// of a queue writes to the same place as the first one.
pub fn items(rank: &Rank, x: u64, next: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for queue in 0..CORES * QUEUES {
        for round in 0..2 {
            for item in 0..ITEMS {
                let to = queue * ITEMS + item;
                let from = round * CORES * QUEUES * ITEMS + to;
                let mut bytes = [0u8; 64];
                bytes[28..32].copy_from_slice(&(BYTES as u32).to_le_bytes());
                bytes[32..40].copy_from_slice(&(x + from * BYTES).to_le_bytes());
                bytes[40..48].copy_from_slice(&(next + to * BYTES).to_le_bytes());
                all.extend(bytes);
            }
        }
    }
    assert!(rank.ranks > 1);
    all
}

/// Checks that every core of an A3 writes to the next rank through its own queues.
pub fn cores_write_into_queues(rank: &Rank) {
    let ranks = rank.ranks;
    let length = (2 * CORES * QUEUES * ITEMS * BYTES) as usize;
    let mut bytes = tiling(&[BATCH_WRITE], &name_of(rank.comm));
    bytes[42] = QUEUES as u8;
    bytes[44] = CORES as u8;
    for waits in [false, true, false] {
        let ready = Ready::of(rank, &batches(waits), bytes.clone());
        let of = |rank: u32| -> Vec<u8> {
            let mut random = fastrand::Rng::with_seed(u64::from(rank) + 10 * u64::from(waits));
            (0..length).map(|_| random.u8(..)).collect()
        };
        let x = rank.upload(&of(rank.rank));
        let next = window(rank, ready.context, A3, (rank.rank + 1) % ranks);
        let list = rank.upload(&items(rank, x as u64, next as u64));
        ready.run_all(rank, CORES as u32, &[x, list]);
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        let from = of((rank.rank + ranks - 1) % ranks);
        let own = window(rank, ready.context, A3, rank.rank);
        assert_eq!(read(own, length / 2), from[length / 2..], "the second round counts");
        // The next turn overwrites the bytes that were compared here.
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        ready.end();
    }
}

/// Returns a kernel for an A2 that writes one batch. The second argument holds the two items: one
/// for the other rank, and one for the rank itself, which the server leaves out.
fn one_batch() -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let (_x, items) = (b.input("x", Number::I32), b.input("items", Number::U8));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[BATCH_WRITE]);
        let task = b.task("write", client);
        let (items, count, queue) = (b.at(items, 0), b.n(2), b.n(0));
        b.prepare(task, Operation::BatchWrite { items, count, queue }, 1, true);
        b.wait(task);
        b.sync_vectors();
        b.finalize(client);
    });
    b.done()
}

/// Checks that batches of two ranks on an A2 go from window to window, and from no other memory.
/// After the error the communicator has failed.
pub fn batches_go_from_window_to_window(rank: &Rank) {
    let ready = Ready::new(rank, &one_batch(), &[BATCH_WRITE]);
    let (own, other) = (rank.rank, 1 - rank.rank);
    let [mine, theirs] = [own, other].map(|of| window(rank, ready.context, A2, of));
    let values = |rank: u32| ints((0..16).map(|n| n + 1000 * rank as i32));
    // The data to send comes after the received data.
    write(mine.wrapping_byte_add(4096), &values(own));
    let item = |from: u64, to: u64, rank: u32| {
        // The length is counted in elements of a type.
        let [dtype, rank] = [2u32, rank].map(u32::to_le_bytes);
        [words(&[from, to, 8]), dtype.to_vec(), rank.to_vec()].concat()
    };
    let source = mine as u64 + 4096;
    let mut list = item(source, theirs as u64, other);
    list.extend(item(source, mine as u64 + 64, own));
    let tensors = [rank.upload(&[0; 64]), rank.upload(&list)];
    ready.run_all(rank, 1, &tensors);
    hccl!(HcclBarrier(rank.comm, rank.stream));
    rank.sync();
    let found = read(mine, 128);
    assert_eq!(found[..32], values(other)[..32], "eight elements have come");
    assert!(found[32..].iter().all(|byte| *byte == 0), "and nothing from the own rank");

    // Memory outside the windows is rejected.
    let outside = rank.upload(&values(own));
    let mut list = item(outside as u64, theirs as u64, other);
    list.extend(item(source, mine as u64, own));
    ready.serve();
    ready.run(rank, 1, &[tensors[0], rank.upload(&list)]);
    let (code, text) = rank.sync_fails();
    assert_ne!(code, 0);
    let pieces = ["item 0: its source", "is not in a window of rank", "from windows to"];
    let elsewhere = "has failed";
    for piece in pieces {
        assert!(text.contains(piece) || text.contains(elsewhere), "{piece:?}: {text}");
    }
    assert_ne!(call!(aclrtSynchronizeStream(ready.stream)), 0);
    ready.end();
}
