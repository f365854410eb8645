//! Recorded kernels on emulated ranks, through the safe layer.

mod one_sided;
mod parts;
mod refused;

use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_examples::kernels::*;

use crate::kernels::checked::cube;
use hccl_tests::{is_loaded, own_devices, runtime_with};

const RANKS: u32 = 4;

/// Returns a runtime whose devices look for races, where such devices can be made.
fn a3() -> Runtime {
    if is_loaded() {
        return runtime_with(RANKS as usize);
    }
    let devices = own_devices().devices(RANKS as usize);
    devices.product(Product::A3).checked(true).build().unwrap()
}

/// Asserts that there are no findings, because safe programs have none.
fn nothing_found(runtime: &Runtime) {
    let findings: Vec<String> = runtime.findings().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Returns a tiling struct with its communication filled in.
fn filled<T: Tiling>(mut tiling: T, operation: CmdType, group: &str) -> T {
    let config = Mc2CcTilingConfig::builder().group_name(group).op_type(operation);
    let config = config.source_type(DataType::F16);
    let member = match operation {
        CmdType::AllReduce | CmdType::ReduceScatter => {
            config.reduce_op(hccl::dtype::ReduceKind::Sum).build()
        }
        _ => config.build(),
    };
    Mc2InitTilingConfig::builder()
        .product(Product::A3)
        .build()
        .fill(&mut tiling, &[member])
        .unwrap();
    tiling
}

fn halves(numbers: impl IntoIterator<Item = u64>) -> Vec<f16> {
    numbers.into_iter().map(|number| f16::from_f32(number as f32)).collect()
}

/// Runs a kernel with one input and one output on each rank.
fn run<T: Tiling + symbol::TilingArgument + Copy>(
    kernel: &Recorded<T>,
    tiling: impl Fn(u32) -> T + Sync,
    operation: CmdType,
    input: impl Fn(u32) -> Vec<f16> + Sync,
    output: usize,
) -> Vec<Vec<f16>> {
    let runtime = a3();
    let results = runtime
        .run_ranks(RANKS, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let tiling = filled(tiling(rank.index()), operation, comm.name());
            let x = rank.device().upload(&input(rank.index()), &stream)?;
            let mut y = rank.device().zeros::<f16>(output, &stream)?;
            let mut loaded = kernel.load(rank.device())?;
            // The kernel is launched twice, and the second launch has to come after the first one.
            for _ in 0..2 {
                let launch = loaded.launch(8).tiling(&tiling).group(&mut comm);
                launch.input(&x).output(&mut y).submit(&stream)?.wait()?;
            }
            y.to_vec(&stream).wait()
        })
        .unwrap();
    nothing_found(&runtime);
    results
}

/// Returns elements that distinguish ranks and places, as far as halves are exact.
fn numbered(rank: u32, count: u64) -> Vec<f16> {
    halves((0..count).map(|n| u64::from(rank) * 512 + n % 512))
}

fn transposed(count: usize) -> Vec<Vec<f16>> {
    let sent: Vec<_> = (0..RANKS).map(|rank| numbered(rank, 4 * count as u64)).collect();
    let block = |from: usize, to: usize| sent[from][to * count..][..count].to_vec();
    (0..4).map(|to| (0..4).flat_map(|from| block(from, to)).collect()).collect()
}

#[test]
fn all_to_all_gives_every_rank_its_blocks() {
    let kernel = all_to_all::all_to_all_custom::record().unwrap();
    let tiling = |_| all_to_all::AllToAllTiling { data_count: 128, ..Tiling::zeroed() };
    let found = run(&kernel, tiling, CmdType::AllToAll, |rank| numbered(rank, 512), 512);
    assert_eq!(found, transposed(128));
}

#[test]
fn a_launch_behind_an_operation_without_links_does_not_block_and_keeps_its_place() {
    let kernel = all_to_all::all_to_all_custom::record().unwrap();
    let runtime = a3();
    let devices: Vec<Device> = (0..4).map(|index| runtime.device(index).unwrap()).collect();
    let comms = Communicator::init_all(&devices).wait().unwrap();
    // One thread issues for all ranks, one after the other: a call that waited for the next rank
    // would never return.
    let ranks = comms.into_iter().zip(0..).map(|(mut comm, rank)| {
        let device = comm.device().clone();
        let stream = device.stream().unwrap();
        let mut flag = device.upload(&[1], &stream).unwrap();
        let mut blocks = device.zeros::<f16>(512, &stream).unwrap();
        let x = device.upload(&numbered(rank, 512), &stream).unwrap();
        let tiling = all_to_all::AllToAllTiling { data_count: 128, ..Tiling::zeroed() };
        let tiling = filled(tiling, CmdType::AllToAll, comm.name());
        let first = comm.all_reduce_in_place(&mut flag, Sum, &stream).unwrap();
        let works = [0, 1].map(|_| {
            // The kernel is dropped while its launch is still to come.
            let mut loaded = kernel.load(&device).unwrap();
            let launch = loaded.launch(8).tiling(&tiling).group(&mut comm);
            launch.input(&x).output(&mut blocks).submit(&stream).unwrap()
        });
        assert!(rank == 3 || works.iter().chain([&first]).all(|work| !work.is_done()));
        let last = comm.all_reduce_in_place(&mut flag, Sum, &stream).unwrap();
        (comm, stream, flag, blocks, last)
    });
    for ((_comm, stream, flag, blocks, last), expected) in
        ranks.collect::<Vec<_>>().into_iter().zip(transposed(128))
    {
        last.wait().unwrap();
        assert_eq!(flag.to_vec(&stream).wait().unwrap(), [16]);
        assert_eq!(blocks.to_vec(&stream).wait().unwrap(), expected);
    }
    nothing_found(&runtime);
}

#[test]
fn a_launch_goes_on_when_its_communicator_is_dropped() {
    let kernel = all_to_all::all_to_all_custom::record().unwrap();
    let runtime = a3();
    let found = runtime.run_ranks(RANKS, |rank| {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let tiling = all_to_all::AllToAllTiling { data_count: 128, ..Tiling::zeroed() };
        let tiling = filled(tiling, CmdType::AllToAll, comm.name());
        let x = device.upload(&numbered(rank.index(), 512), &stream)?;
        let mut y = device.zeros::<f16>(512, &stream)?;
        let mut loaded = kernel.load(device)?;
        if rank.index() == 1 {
            // By now, the drops of the other ranks would have been reported.
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        let launch = loaded.launch(8).tiling(&tiling).group(&mut comm);
        let work = launch.input(&x).output(&mut y).submit(&stream)?;
        drop(comm);
        work.wait()?;
        y.to_vec(&stream).wait()
    });
    assert_eq!(found.unwrap(), transposed(128));
    nothing_found(&runtime);
}

#[test]
fn launches_of_one_kernel_keep_their_order_whoever_is_late() {
    let kernel = all_to_all::all_to_all_custom::record().unwrap();
    let runtime = a3();
    let devices: Vec<Device> = (0..4).map(|index| runtime.device(index).unwrap()).collect();
    let all = || Communicator::init_all(&devices).wait().unwrap();
    let mut ranks = Vec::new();
    for ((mut one, mut two), rank) in all().into_iter().zip(all()).zip(0..) {
        let device = one.device().clone();
        let stream = device.stream().unwrap();
        let mut flag = device.upload(&[1], &stream).unwrap();
        let mut blocks = device.zeros::<f16>(512, &stream).unwrap();
        let x = device.upload(&numbered(rank, 512), &stream).unwrap();
        let mut loaded = kernel.load(&device).unwrap();
        one.all_reduce_in_place(&mut flag, Sum, &stream).unwrap();
        let mut works = Vec::new();
        // The first launch is queued after the sum, and the second one has another communicator.
        for comm in [&mut one, &mut two] {
            let tiling = all_to_all::AllToAllTiling { data_count: 128, ..Tiling::zeroed() };
            let tiling = filled(tiling, CmdType::AllToAll, comm.name());
            let launch = loaded.launch(8).tiling(&tiling).group(comm);
            works.push(launch.input(&x).output(&mut blocks).submit(&stream).unwrap());
        }
        ranks.push((one, two, stream, blocks, works));
        if rank == 0 {
            // This is longer than a helper waits before it lets other operations pass.
            std::thread::sleep(std::time::Duration::from_millis(1200));
        }
    }
    for ((_one, _two, stream, blocks, works), expected) in ranks.into_iter().zip(transposed(128)) {
        works.into_iter().for_each(|work| work.wait().unwrap());
        assert_eq!(blocks.to_vec(&stream).wait().unwrap(), expected);
    }
}

/// Checks the links for each way in which kernels communicate. They are made when all ranks have
/// called for them.
#[test]
fn the_first_launch_on_a_communicator_does_not_wait_for_the_other_ranks() {
    let kernel = all_to_all::all_to_all_custom::record().unwrap();
    let other = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let runtime = runtime_with(4);
    let devices: Vec<Device> = (0..4).map(|index| runtime.device(index).unwrap()).collect();
    let mut comms = Communicator::init_all(&devices).wait().unwrap();
    type Launch<'a> = &'a dyn Fn(&mut Communicator, u32, &Stream) -> DeviceBuffer<f16>;
    let transpose: Launch = &|comm, rank, stream| {
        let device = comm.device().clone();
        let mut blocks = device.zeros::<f16>(512, stream).unwrap();
        let x = device.upload(&numbered(rank, 512), stream).unwrap();
        let tiling = all_to_all::AllToAllTiling { data_count: 128, ..Tiling::zeroed() };
        let tiling = filled(tiling, CmdType::AllToAll, comm.name());
        let mut loaded = kernel.load(&device).unwrap();
        let launch = loaded.launch(8).tiling(&tiling).group(comm);
        launch.input(&x).output(&mut blocks).submit(stream).unwrap();
        blocks
    };
    let sum: Launch = &|comm, rank, stream| {
        let device = comm.device().clone();
        let mut sum = device.zeros::<f16>(300, stream).unwrap();
        let x = device.upload(&small(rank), stream).unwrap();
        let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 300, ..Tiling::zeroed() };
        let tiling = filled(tiling, CmdType::ReduceScatter, comm.name());
        let mut loaded = other.load(&device).unwrap();
        let launch = loaded.launch(8).tiling(&tiling).group(comm);
        launch.input(&x).output(&mut sum).submit(stream).unwrap();
        sum
    };
    // The second kernel comes when nothing is in flight any more.
    for (launch, expected) in [(transpose, transposed(128)), (sum, summed())] {
        let launched = comms.iter_mut().zip(0..).map(|(comm, rank)| {
            let stream = comm.device().stream().unwrap();
            let found = launch(comm, rank, &stream);
            (stream, found)
        });
        let launched: Vec<_> = launched.collect();
        for ((stream, found), expected) in launched.into_iter().zip(expected) {
            assert_eq!(found.to_vec(&stream).wait().unwrap(), expected);
        }
    }
}

#[test]
fn all_to_all_in_rounds_gives_the_same() {
    let kernel = all_to_all::all_to_all_rounds::record().unwrap();
    let tiling = |_| all_to_all::AllToAllRoundsTiling {
        tile_num: 2,
        tile_len: 128,
        tail_num: 1,
        tail_len: 100,
        ..Tiling::zeroed()
    };
    let found = run(&kernel, tiling, CmdType::AllToAll, |rank| numbered(rank, 1424), 1424);
    assert_eq!(found, transposed(356));
}

/// Returns each rank's part of the sum.
fn summed() -> Vec<Vec<f16>> {
    let sums = halves((0..1200).map(|n| (0..4).map(|rank| rank + n % 100).sum()));
    sums.chunks(300).map(<[f16]>::to_vec).collect()
}

fn small(rank: u32) -> Vec<f16> {
    halves((0..1200).map(|n| u64::from(rank) + n % 100))
}

#[test]
fn reduce_scatter_gives_every_rank_its_sum() {
    let kernel = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let tiling = |_| reduce_scatter::ReduceScatterTiling { recv_count: 300, ..Tiling::zeroed() };
    assert_eq!(run(&kernel, tiling, CmdType::ReduceScatter, small, 300), summed());
}

#[test]
fn reduce_scatter_in_rounds_gives_the_same() {
    let kernel = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    let tiling = |_| reduce_scatter::ReduceScatterRoundsTiling {
        tile_num: 2,
        tile_len: 128,
        tail_num: 1,
        tail_len: 44,
        ..Tiling::zeroed()
    };
    assert_eq!(run(&kernel, tiling, CmdType::ReduceScatter, small, 300), summed());
}

/// Moves the uneven blocks of four ranks in the documents.
#[test]
fn all_to_all_v_moves_blocks_of_different_lengths() {
    const SEND: [[u64; 4]; 4] = [[3, 3, 3, 3], [2, 2, 3, 2], [1, 4, 4, 4], [3, 3, 3, 3]];
    let tiling = |rank: u32| {
        let rank = rank as usize;
        let mut tiling = all_to_all_v::AllToAllVTiling::zeroed();
        let (mut sent, mut received) = (0, 0);
        for (peer, peer_send) in SEND.iter().enumerate() {
            tiling.send_counts[peer] = SEND[rank][peer];
            tiling.send_displs[peer] = sent;
            sent += SEND[rank][peer];
            tiling.recv_counts[peer] = peer_send[rank];
            tiling.recv_displs[peer] = received;
            received += peer_send[rank];
        }
        tiling
    };
    let kernel = all_to_all_v::all_to_all_v_custom::record().unwrap();
    let found = run(&kernel, tiling, CmdType::AllToAllV, |rank| numbered(rank, 16), 16);
    for (rank, found) in found.iter().enumerate() {
        let expected: Vec<f16> = (0..4)
            .flat_map(|from| {
                let start = SEND[from][..rank].iter().sum::<u64>() as usize;
                let block = &numbered(from as u32, 16)[start..][..SEND[from][rank] as usize];
                block.to_vec()
            })
            .collect();
        assert_eq!(&found[..expected.len()], expected, "rank {rank}");
    }
}

#[test]
fn vadd_adds() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let total = 1000;
    let x = device.upload(&halves(0..total), &stream).unwrap();
    let y = device.upload(&halves((0..total).map(|n| 2 * (n % 100))), &stream).unwrap();
    let mut z = device.zeros::<f16>(total as usize, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let tiling = vadd::VaddTiling { total, tile: 64 };
    let launch = kernel.launch(3).tiling(&tiling).input(&x).input(&y).output(&mut z);
    launch.submit(&stream).unwrap().wait().unwrap();
    let expected = halves((0..total).map(|n| n + 2 * (n % 100)));
    assert_eq!(z.to_vec(&stream).wait().unwrap(), expected);
}

const ROWS: usize = 168;
const DEPTH: usize = 48;
const WIDTH: usize = 80;

fn left(rank: u32) -> Vec<f16> {
    halves((0..(ROWS * DEPTH) as u64).map(|n| (n + u64::from(rank)) % 3))
}

fn right(rank: u32) -> Vec<f16> {
    halves((0..(DEPTH * WIDTH) as u64).map(|n| (n * 7 + u64::from(rank)) % 4))
}

/// Returns the product of two matrices, by the definition. All numbers are small integers, so every
/// order of additions gives the same sum.
fn product(a: &[f16], b: &[f16]) -> Vec<f32> {
    let at = |n: usize| {
        let (row, column) = (n / WIDTH, n % WIDTH);
        let term = |i: usize| a[row * DEPTH + i].to_f32() * b[i * WIDTH + column].to_f32();
        (0..DEPTH).map(term).sum()
    };
    (0..a.len() / DEPTH * WIDTH).map(at).collect()
}

#[test]
fn matmul_all_reduce_sums_the_products_of_all_ranks() {
    let kernel = matmul_all_reduce::matmul_all_reduce::record().unwrap();
    let runtime = a3();
    let found = runtime.run_ranks(RANKS, |rank| {
        let (device, index) = (rank.device(), rank.index());
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let tiling = matmul_all_reduce::MatmulAllReduceTiling {
            tile: cube(64, WIDTH, DEPTH),
            tail: cube(40, WIDTH, DEPTH),
            tile_num: 2,
            ..Tiling::zeroed()
        };
        let tiling = filled(tiling, CmdType::AllReduce, comm.name());
        let a = device.upload(&left(index), &stream)?;
        let b = device.upload(&right(index), &stream)?;
        let mut y = device.zeros::<f16>(ROWS * WIDTH, &stream)?;
        let mut loaded = kernel.load(device)?;
        let launch = loaded.launch(3).tiling(&tiling).group(&mut comm);
        launch.input(&a).input(&b).output(&mut y).submit(&stream)?.wait()?;
        y.to_vec(&stream).wait()
    });
    let products: Vec<_> = (0..RANKS).map(|rank| product(&left(rank), &right(rank))).collect();
    let expected: Vec<f16> = (0..ROWS * WIDTH)
        .map(|n| f16::from_f32(products.iter().map(|product| product[n]).sum()))
        .collect();
    for found in found.unwrap() {
        assert_eq!(found, expected);
    }
    nothing_found(&runtime);
}

#[test]
fn all_gather_matmul_multiplies_the_rows_of_all_ranks() {
    let kernel = all_gather_matmul::all_gather_matmul::record().unwrap();
    let runtime = a3();
    let found = runtime.run_ranks(RANKS, |rank| {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let tiling = all_gather_matmul::AllGatherMatmulTiling {
            local: cube(ROWS, WIDTH, DEPTH),
            tile: cube(64, WIDTH, DEPTH),
            tail: cube(40, WIDTH, DEPTH),
            tile_num: 2,
            ..Tiling::zeroed()
        };
        let tiling = filled(tiling, CmdType::AllGather, comm.name());
        let x = device.upload(&left(rank.index()), &stream)?;
        let b = device.upload(&right(0), &stream)?;
        let mut y = device.zeros::<f16>(4 * ROWS * WIDTH, &stream)?;
        let mut gathered = device.zeros::<f16>(4 * ROWS * DEPTH, &stream)?;
        let mut loaded = kernel.load(device)?;
        let launch = loaded.launch(3).tiling(&tiling).group(&mut comm).input(&x).input(&b);
        launch.output(&mut y).output(&mut gathered).submit(&stream)?.wait()?;
        Ok::<_, hccl::Error>((y.to_vec(&stream).wait()?, gathered.to_vec(&stream).wait()?))
    });
    let rows: Vec<f16> = (0..RANKS).flat_map(left).collect();
    let expected: Vec<f16> = product(&rows, &right(0)).into_iter().map(f16::from_f32).collect();
    for (y, gathered) in found.unwrap() {
        assert_eq!(gathered, rows);
        assert_eq!(y, expected);
    }
    nothing_found(&runtime);
}

/// Drops kernels at once, also with launches in flight.
#[test]
fn a_kernel_may_be_dropped_while_it_runs() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..4096), &stream).unwrap();
    let mut z = device.zeros::<f16>(4096, &stream).unwrap();
    let recorded = vadd::vadd::record().unwrap();
    let tiling = vadd::VaddTiling { total: 4096, tile: 16 };
    for _ in 0..20 {
        let mut kernel = recorded.load(&device).unwrap();
        let launch = kernel.launch(2).tiling(&tiling).input(&x).input(&x).output(&mut z);
        launch.submit(&stream).unwrap();
    }
    let expected = halves((0..4096).map(|n| 2 * n));
    assert_eq!(z.to_vec(&stream).wait().unwrap()[..1024], expected[..1024]);
}

/// Checks that kernels that are loaded, launched and dropped leave no memory on the device.
#[test]
fn a_thousand_kernels_leave_no_memory_behind() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..64), &stream).unwrap();
    let mut y = device.zeros::<f16>(64, &stream).unwrap();
    let recorded = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let comm = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
    let mut comm = comm.build().wait().unwrap();
    let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 64, ..Tiling::zeroed() };
    let tiling = filled(tiling, CmdType::ReduceScatter, comm.name());
    let mut free = Vec::new();
    for round in 0..1000 {
        let mut kernel = recorded.load(&device).unwrap();
        let launch = kernel.launch(2).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
        launch.submit(&stream).unwrap().wait().unwrap();
        if round % 333 == 0 {
            drop(kernel);
            free.push(device.memory_info().unwrap().free);
        }
    }
    assert!(free.windows(2).all(|two| two[0] == two[1]), "{free:?}");
    assert_eq!(y.to_vec(&stream).wait().unwrap(), halves(0..64));
}
