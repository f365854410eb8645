//! One-sided writes of kernels: into windows on Ascend 950, in queues on A3, between windows on A2.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::kernel::build::Builder;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ranks::{Rank, name_of, on_block};
use ascend_emulator_testing::{call, hccl};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Binary, Core, Mix, Program};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance};

const BATCH_WRITE: u32 = 18;
const ALL_TO_ALL_V_WRITE: u32 = 20;
const UINT64: HcclDataType = HcclDataType(5);

/// One `AlltoAllvWrite`, whose numbers are in the tiling struct, behind the communication members.
fn write_blocks() -> Program {
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

/// The tiling struct of [`write_blocks`].
fn numbers(rank: &Rank, window: u64, local: u64) -> Vec<u8> {
    let mut bytes = tiling(&[ALL_TO_ALL_V_WRITE], &name_of(rank.comm));
    bytes[576..584].copy_from_slice(&window.to_le_bytes());
    bytes[584..592].copy_from_slice(&local.to_le_bytes());
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The input window of a rank, whose address is in its context.
fn window(context: *mut c_void, at: usize) -> *const c_void {
    let head = read(context, at + 8);
    let address = u64::from_le_bytes(head[at..].try_into().unwrap());
    with_exposed_provenance(address as usize)
}

/// The input windows of all ranks, which tell each other.
fn all_windows(rank: &Rank, own: *const c_void) -> Vec<u64> {
    let told = rank.upload(&words(&[own as u64]));
    let all = rank.upload(&vec![0; 8 * rank.ranks as usize]);
    hccl!(HcclAllGather(told, all, 1, UINT64, rank.comm, rank.stream));
    rank.sync();
    let bytes = read(all, 8 * rank.ranks as usize);
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// What ranks write to each other: by sender, where each block begins and how long it is, and where in the windows it goes.
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

    /// What the window of a rank has then.
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

#[test]
fn blocks_come_into_the_windows_of_all_ranks() {
    let mut random = fastrand::Rng::with_seed(20);
    for ranks in 1..=8u64 {
        let blocks = Blocks::random(&mut random, ranks);
        let inputs: Vec<Vec<u8>> =
            (0..ranks).map(|_| (0..INPUT).map(|_| random.u8(1..)).collect()).collect();
        let config = AscendExtBlockConfig {
            deviceCount: ranks as u32,
            product: ASCEND950,
            ..Block::config()
        };
        let windows = on_block(config, |rank: &mut Rank| {
            rank.join();
            let own = rank.rank as usize;
            let (at, local) = (blocks.at[own], blocks.sizes[own][own]);
            let ready = Ready::of(rank, &write_blocks(), numbers(rank, at, local));
            let mut sizes = blocks.sizes[own].clone();
            // That of the own block does not count.
            sizes[own] = 1 << 40;
            let tensors = [inputs[own].clone(), words(&blocks.offsets[own]), words(&sizes)];
            let tensors: Vec<_> = tensors.iter().map(|bytes| rank.upload(bytes)).collect();
            ready.run_all(rank, 3, &tensors);
            // When the turn is over on one rank, all have written.
            let found = read(window(ready.context, 32 + 8 * own), (ranks * ROOM) as usize);
            ready.run_all(rank, 1, &tensors);
            assert_eq!(found, read(window(ready.context, 32 + 8 * own), found.len()));
            ready.end();
            hccl!(HcclCommDestroy(rank.comm));
            found
        });
        for (to, found) in windows.iter().enumerate() {
            assert_eq!(*found, blocks.naive(to, &inputs), "{ranks} ranks, rank {to}");
        }
    }
}

#[test]
fn a_block_beyond_a_window_ends_the_kernels_of_all_ranks() {
    let config = AscendExtBlockConfig { deviceCount: 2, product: ASCEND950, ..Block::config() };
    let failed = Barrier::new(2);
    let texts = on_block(config, |rank: &mut Rank| {
        rank.join();
        let ready = Ready::of(rank, &write_blocks(), numbers(rank, 0, 0));
        let size = if rank.rank == 1 { 1 << 40 } else { 8 };
        let tensors = [words(&[0; 4]), words(&[0, 0]), words(&[size, size])];
        let tensors: Vec<_> = tensors.iter().map(|bytes| rank.upload(bytes)).collect();
        ready.serve();
        ready.run(rank, 1, &tensors);
        let (code, text) = rank.sync_fails();
        assert_ne!(code, 0);
        assert_ne!(call!(aclrtSynchronizeStream(ready.stream)), 0);
        // A rank whose communicator is gone has no window any more, which would be told first.
        failed.wait();
        ready.end();
        hccl!(HcclCommDestroy(rank.comm));
        text
    });
    let told = "are touched, which is";
    assert!(texts[1].contains(told), "{}", texts[1]);
    assert!(texts[0].contains("the communication server of rank 1 has failed"), "{}", texts[0]);
}

/// When a kernel begins, all ranks have windows. One that has ended its communicator has none any more, and that is told with what to do.
#[test]
fn the_window_of_a_rank_that_has_left_is_an_error() {
    let config = AscendExtBlockConfig {
        deviceCount: 2,
        product: AscendExtProduct::ASCEND_EXT_PRODUCT_A3.0,
        ..Block::config()
    };
    let left = Barrier::new(2);
    let mut b = Builder::new(Mix::MixAiv10);
    let client = b.ready(&[2]);
    let (other, v) = (b.n(1), b.variable("v", Number::U8));
    let place = b.at(Base::WindowIn(client, other), 0);
    b.step(Step::Read(v, Read::Global(place)));
    b.finalize(client);
    let program = b.done();
    let texts = on_block(config, |rank: &mut Rank| {
        rank.join();
        let ready = Ready::new(rank, &program, &[2]);
        if rank.rank == 1 {
            hccl!(HcclCommDestroy(rank.comm));
            left.wait();
            return String::new();
        }
        left.wait();
        ready.run(rank, 1, &[]);
        rank.sync_fails().1
    });
    let pieces =
        ["rank 1 of ", "has no window, because it has ended the communicator", "let it keep"];
    assert!(pieces.iter().all(|piece| texts[0].contains(piece)), "{}", texts[0]);
}

/// Cores, queues of each, items of each batch, bytes of each item.
const CORES: u64 = 4;
const QUEUES: u64 = 3;
const ITEMS: u64 = 2;
const BYTES: u64 = 24;

/// Each core writes two batches into each of its queues, with a barrier between them.
fn batches(waits: bool) -> Program {
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
                // With queues this returns at once.
                b.wait(task);
                b.hccl(Hccl::Barrier(client, queue));
            }
        }
        b.hccl(Hccl::Finalize(client, waits));
    });
    b.done()
}

/// What a rank writes to the next one: 64 bytes for each item. The second round of a queue writes where the first one did.
fn items(rank: &Rank, x: u64, next: u64) -> Vec<u8> {
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

#[test]
fn every_core_writes_into_queues_of_its_own() {
    for ranks in [2, 3] {
        let config = AscendExtBlockConfig {
            deviceCount: ranks,
            product: AscendExtProduct::ASCEND_EXT_PRODUCT_A3.0,
            ..Block::config()
        };
        on_block(config, |rank: &mut Rank| {
            rank.join();
            let length = (2 * CORES * QUEUES * ITEMS * BYTES) as usize;
            let mut bytes = tiling(&[BATCH_WRITE], &name_of(rank.comm));
            bytes[42] = QUEUES as u8;
            bytes[44] = CORES as u8;
            for waits in [false, true, false] {
                let ready = Ready::of(rank, &batches(waits), bytes.clone());
                let of = |rank: u32| -> Vec<u8> {
                    let seed = u64::from(rank) + 10 * u64::from(waits);
                    let mut random = fastrand::Rng::with_seed(seed);
                    (0..length).map(|_| random.u8(..)).collect()
                };
                let own = window(ready.context, 32);
                let windows = all_windows(rank, own);
                let x = rank.upload(&of(rank.rank));
                let next = windows[((rank.rank + 1) % ranks) as usize];
                let list = rank.upload(&items(rank, x as u64, next));
                ready.run_all(rank, CORES as u32, &[x, list]);
                hccl!(HcclBarrier(rank.comm, rank.stream));
                rank.sync();
                let from = of((rank.rank + ranks - 1) % ranks);
                assert_eq!(read(own, length / 2), from[length / 2..], "the second round counts");
                ready.end();
            }
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

/// Two items of an A2: one to the other rank, one to the own one, which the server leaves out.
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

#[test]
fn batches_of_an_a2_go_from_window_to_window() {
    let config = AscendExtBlockConfig { deviceCount: 2, product: A2, ..Block::config() };
    on_block(config, |rank| {
        rank.join();
        let ready = Ready::new(rank, &one_batch(), &[BATCH_WRITE]);
        let (own, other) = (rank.rank, 1 - rank.rank);
        let mine = window(ready.context, 32 + 8 * own as usize);
        let windows = all_windows(rank, mine);
        let values = |rank: u32| ints((0..16).map(|n| n + 1000 * rank as i32));
        // What is to be sent is put behind what is received.
        write(with_exposed_provenance::<c_void>(mine as usize + 4096).cast_mut(), &values(own));
        let item = |from: u64, to: u64, rank: u32| {
            // Counted in elements, of a type.
            let [dtype, rank] = [2u32, rank].map(u32::to_le_bytes);
            [words(&[from, to, 8]), dtype.to_vec(), rank.to_vec()].concat()
        };
        let source = mine as u64 + 4096;
        let mut list = item(source, windows[other as usize], other);
        list.extend(item(source, mine as u64 + 64, own));
        let tensors = [rank.upload(&[0; 64]), rank.upload(&list)];
        ready.run_all(rank, 1, &tensors);
        hccl!(HcclBarrier(rank.comm, rank.stream));
        rank.sync();
        let found = read(mine, 128);
        assert_eq!(found[..32], values(other)[..32], "eight elements have come");
        assert!(found[32..].iter().all(|byte| *byte == 0), "and nothing from the own rank");

        // Not from elsewhere.
        let outside = rank.upload(&values(own));
        let mut list = item(outside as u64, windows[other as usize], other);
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
        hccl!(HcclCommDestroy(rank.comm));
    });
}

/// A product without an operation says so on the host.
fn has_no(product: u32, operation: u32, piece: &str) {
    on_block(AscendExtBlockConfig { product, ..Block::config() }, |rank| {
        rank.join();
        let bytes = tiling(&[operation], &name_of(rank.comm));
        let (bytes, mut context) = (bytes.as_ptr().cast_mut().cast(), null_mut());
        let _ = message();
        let code = call!(HcclAllocComResourceByTiling(rank.comm, rank.stream, bytes, &mut context));
        let text = message();
        assert_eq!(code, HcclResult::HCCL_E_NOT_SUPPORT, "{text}");
        assert!(text.contains(piece), "{text}");
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn each_product_has_its_own_one_sided_writes() {
    has_no(ASCEND950, BATCH_WRITE, "950 no BatchWrite");
    has_no(A2, ALL_TO_ALL_V_WRITE, "only 950 AlltoAllvWrite");
    has_no(A3, ALL_TO_ALL_V_WRITE, "only 950 AlltoAllvWrite");
}
