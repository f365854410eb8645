//! Recorded kernels on emulated ranks, through the safe layer.

use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_examples::kernels::*;
use std::sync::{Arc, Barrier};

const RANKS: u32 = 4;

/// Devices that look for races.
fn a3() -> Runtime {
    let devices = Runtime::emulator_builder().devices(RANKS as usize);
    devices.product(Product::A3).checked(true).build().unwrap()
}

/// Safe programs have no findings.
fn nothing_found(runtime: &Runtime) {
    let findings: Vec<String> = runtime.findings().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// A tiling struct with its communication filled in.
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
            // Twice, so that the second one has to come after the first.
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

/// Elements that tell ranks and places apart, as far as halves are exact.
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

/// What each rank has of the sum.
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

/// The uneven blocks of four ranks from the documents.
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
    let runtime = Runtime::emulator(1).unwrap();
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

/// A product that is divided into one piece of `rows` rows for each core in turn.
fn cube(m: i32, n: i32, k: i32) -> TCubeTiling {
    TCubeTiling {
        used_core_num: 1,
        m,
        n,
        ka: k,
        kb: k,
        single_core_m: 32,
        single_core_n: 32,
        single_core_k: k,
        base_m: 32,
        base_n: 32,
        base_k: 16,
        depth_a1: 1,
        depth_b1: 1,
        step_m: 1,
        step_n: 1,
        step_ka: 1,
        step_kb: 1,
        db_l0a: 1,
        db_l0b: 1,
        db_l0c: 1,
        ..TCubeTiling::default()
    }
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

/// The plain formula. All numbers are small and whole, so every order of additions gives the same.
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
            tile: cube(64, WIDTH as i32, DEPTH as i32),
            tail: cube(40, WIDTH as i32, DEPTH as i32),
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
            local: cube(ROWS as i32, WIDTH as i32, DEPTH as i32),
            tile: cube(64, WIDTH as i32, DEPTH as i32),
            tail: cube(40, WIDTH as i32, DEPTH as i32),
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

/// Arguments that are not the kernel's are refused, and nothing is launched.
#[test]
fn arguments_are_checked_before_a_launch() {
    let runtime = Runtime::emulator(2).unwrap();
    let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (stream, other_stream) = (device.stream().unwrap(), other.stream().unwrap());
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let elsewhere = other.upload(&halves(0..16), &other_stream).unwrap();
    let wide = device.upload(&[1.0_f32; 16], &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let tiling = vadd::VaddTiling { total: 16, tile: 16 };
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();

    let text = |result: hccl::Result<Work>| result.map(drop).unwrap_err().to_string();
    let launch = kernel.launch(1).tiling(&tiling).input(&x).output(&mut z);
    assert!(text(launch.submit(&stream)).contains("takes 3 tensors, and 2 were given"));
    let launch = kernel.launch(1).input(&x).input(&x).output(&mut z);
    assert!(text(launch.submit(&stream)).contains("give it with `.tiling(&..)`"));
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&wide).output(&mut z);
    let found = text(launch.submit(&stream));
    assert!(found.contains("an input `y` of half, and an input of float was given"), "{found}");
    let launch = kernel.launch(0).tiling(&tiling).input(&x).input(&x).output(&mut z);
    assert!(text(launch.submit(&stream)).contains("0 blocks"));
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&elsewhere).output(&mut z);
    assert!(matches!(launch.submit(&stream), Err(hccl::Error::WrongDevice { .. })));
    stream.synchronize().unwrap();
}

/// What the server could not read, or not read rightly, and what its field does not take.
#[test]
fn a_tiling_struct_that_is_not_filled_for_the_product_is_refused() {
    let runtime = Runtime::emulator_builder().devices(1).product(Product::A3).build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut comm = Communicator::init_all(std::slice::from_ref(&device)).unwrap().remove(0);
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let kernel = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    let mut kernel = kernel.load(&device).unwrap();
    let good = reduce_scatter::ReduceScatterRoundsTiling {
        tile_num: 1,
        tile_len: 8,
        tail_num: 1,
        tail_len: 8,
        ..Tiling::zeroed()
    };
    let member = Mc2CcTilingConfig::builder()
        .group_name(comm.name())
        .op_type(CmdType::ReduceScatter)
        .source_type(DataType::F16)
        .build();
    let fill = |product| {
        let mut tiling = good;
        let init = Mc2InitTilingConfig::builder().product(product).build();
        init.fill(&mut tiling, std::slice::from_ref(&member)).unwrap();
        tiling
    };
    let far = reduce_scatter::ReduceScatterRoundsTiling { tile_num: 256, ..fill(Product::A3) };
    for (tiling, problem) in [
        (good, "was not filled: use `Mc2InitTilingConfig::fill`"),
        (fill(Product::A2), "was filled for the A2, and the device is of the product A3"),
        (far, "tile_num"),
    ] {
        let launch = kernel.launch(1).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
        let refused = launch.submit(&stream).map(drop).unwrap_err();
        assert!(matches!(refused, hccl::Error::Tiling(_)), "{refused}");
        assert!(refused.to_string().contains(problem), "{refused}");
    }
    let tiling = fill(Product::A3);
    let launch = kernel.launch(1).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
    launch.submit(&stream).unwrap().wait().unwrap();
    assert_eq!(y.to_vec(&stream).wait().unwrap(), halves(0..16));
}

/// A kernel that would leave its tensor is stopped before its first block, and the error has the line.
#[test]
fn sizes_that_do_not_fit_come_back_from_the_work() {
    let runtime = Runtime::emulator(1).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let tiling = vadd::VaddTiling { total: 1 << 20, tile: 16 };
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&x).output(&mut z);
    let error = launch.submit(&stream).and_then(|work| work.wait()).unwrap_err().to_string();
    assert!(error.contains("vadd.rs"), "{error}");
}

#[kernel(mix = "aiv_only")]
fn fills_workspace(k: Kernel, y: Output<u64>) {
    let all = k.workspace::<u64>(0);
    all.set(15, 7);
    all.clean(15);
    y.set(0, all.get(15));
    y.clean(0);
}

/// The last element that the kernel uses is the 16th.
#[test]
fn a_workspace_that_is_too_small_is_told_with_the_line() {
    let runtime = Runtime::emulator(1).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut y = device.zeros::<u64>(1, &stream).unwrap();
    let mut kernel = fills_workspace::record().unwrap().load(&device).unwrap();
    let error = kernel.launch(1).output(&mut y).submit(&stream).map(drop).unwrap_err();
    assert!(error.to_string().contains("uses its workspace"), "{error}");
    for (bytes, good) in [(127, false), (128, true)] {
        let mut workspace = device.zeros::<u8>(bytes, &stream).unwrap();
        let launch = kernel.launch(1).output(&mut y).workspace(&mut workspace);
        match launch.submit(&stream).and_then(|work| work.wait()) {
            Ok(()) => assert!(good, "{bytes} bytes"),
            Err(error) => {
                let text = error.to_string();
                assert!(!good && text.contains("launches.rs"), "{bytes} bytes: {text}");
                assert!(text.contains("elements 15..16 of `workspace`, which has 15"), "{text}");
            }
        }
    }
    assert_eq!(y.to_vec(&stream).wait().unwrap(), [7]);
}

/// An exchange of blocks of different lengths, which the A2 does not have.
#[test]
fn a_kernel_for_another_product_is_refused_by_name() {
    let runtime = Runtime::emulator_builder().devices(1).product(Product::A2).build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let comm = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
    let mut comm = comm.build().unwrap();
    let recorded = all_to_all_v::all_to_all_v_custom::record().unwrap();
    let mut kernel = recorded.load(&device).unwrap();
    // The host that fills the tiling for another product is not the one that launches.
    let other = filled(Tiling::zeroed(), CmdType::AllToAllV, comm.name());
    // There is none with this operation for the A2.
    let mut tiling = all_to_all_v::AllToAllVTiling::zeroed();
    let member = Mc2CcTilingConfig::builder().group_name(comm.name()).op_type(CmdType::AllToAll);
    let init = Mc2InitTilingConfig::builder().product(Product::A2).build();
    init.fill(&mut tiling, &[member.build()]).unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let launch = kernel.launch(1).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
    let error = launch.submit(&stream).and_then(|work| work.wait()).unwrap_err().to_string();
    assert!(error.contains("A2 has no AlltoAllV"), "{error}");
    let launch = kernel.launch(1).tiling(&other).group(&mut comm).input(&x).output(&mut y);
    let error = launch.submit(&stream).map(drop).unwrap_err().to_string();
    assert!(error.contains("filled for a product other than the A2"), "{error}");
}

mod others {
    use hccl::kernel::*;

    /// The layout of `vadd`'s struct, with the numbers the other way round.
    #[derive(Tiling)]
    #[repr(C)]
    pub struct VaddTiling {
        pub tile: u64,
        pub total: u64,
    }

    #[kernel(mix = "aiv_only")]
    pub fn vadd(k: Kernel<VaddTiling>, x: Input<f16>, y: Input<f16>, z: Output<f16>) {
        let _ = (x, y);
        z.set(0, z.get(k.tiling().tile));
    }

    use hccl::f16;

    #[kernel(mix = "aiv_only")]
    pub fn other(k: Kernel<super::vadd::VaddTiling>, x: Input<f16>, y: Output<f16>) {
        y.set(k.tiling().total, x.get(0));
    }
}

/// A kernel that was saved is launched like one that was recorded just now, if it takes the same.
#[test]
fn a_saved_kernel_is_told_by_its_layout_and_arguments() {
    let runtime = Runtime::emulator(1).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let recorded = vadd::vadd::record().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = recorded.load_saved(&device, &recorded.to_bytes()).unwrap();
    let tiling = vadd::VaddTiling { total: 16, tile: 16 };
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&x).output(&mut z);
    launch.submit(&stream).unwrap().wait().unwrap();
    assert_eq!(z.to_vec(&stream).wait().unwrap(), halves((0..16).map(|n| 2 * n)));

    let refused = |saved: &[u8], pieces: &[&str]| {
        let text = recorded.load_saved(&device, saved).map(drop).unwrap_err().to_string();
        for piece in pieces {
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        }
    };
    let with_another_struct = others::vadd::record().unwrap().to_bytes();
    let pieces = ["was recorded with another tiling struct", "layout hash 0x", "Record it again"];
    refused(&with_another_struct, &pieces);
    refused(&others::other::record().unwrap().to_bytes(), &["is `other`, not `vadd`"]);
    let mut renamed = others::other::record().unwrap().program().clone();
    renamed.name = "vadd".into();
    refused(&renamed.to_bytes(), &["has other arguments", "saved: input half, output half"]);
    refused(b"\x7fELF and more", &["no recorded kernel", "load_object"]);
    let mut newer = recorded.to_bytes();
    newer[8] = 99;
    refused(&newer, &["of version 99"]);
    refused(&recorded.to_bytes()[..40], &["damaged"]);
    // SAFETY: the emulator takes recorded kernels only.
    let text = unsafe { recorded.load_object(&device, b"\x7fELF and more") };
    let text = text.map(drop).unwrap_err().to_string();
    assert!(text.contains("recorded"), "{text}");
}

mod one_sided {
    use hccl::kernel::*;

    #[derive(Clone, Copy, Tiling)]
    #[repr(C)]
    pub struct Blocks {
        pub init: Mc2InitTiling,
        pub write: Mc2CcTiling,
        pub window: u64,
        pub local: u64,
    }

    /// Blocks into the windows of all ranks.
    #[kernel(mix = "aiv_1_0")]
    pub fn blocks(k: Kernel<Blocks>, x: Input<u8>, offsets: Input<u64>, sizes: Input<u64>) {
        let t = k.tiling();
        k.on_aiv(|| {
            let hccl = k.hccl(0).init().configure(&t.write);
            let task = hccl.all_to_all_v_write(x, offsets, sizes, t.window, t.local).prepare();
            hccl.commit(&task);
            hccl.wait(&task);
            k.sync_all_aiv();
            hccl.finalise();
        });
    }

    /// Every core writes a batch into each of its queues.
    #[kernel(mix = "aiv_1_0")]
    pub fn batches(k: Kernel<Blocks>, items: Input<u8>) {
        let t = k.tiling();
        k.on_aiv(|| {
            let hccl = k.hccl(0).init().configure(&t.write);
            for queue in 0..2 {
                let batch = hccl.batch_write(items, t.local, queue).write();
                hccl.wait(&batch);
                hccl.queue_barrier(queue);
            }
            hccl.finalise_without_waiting();
        });
    }
}

/// What a rank writes is in the window of another one, which a safe program cannot see; that the turn meets all ranks it can.
#[test]
fn one_sided_writes_are_configured_and_launched_as_other_operations_are() {
    let devices = Runtime::emulator_builder().devices(RANKS as usize);
    let runtime = devices.product(Product::Ascend950).build().unwrap();
    let recorded = one_sided::blocks::record().unwrap();
    let run = |size: u64| {
        let outcome = runtime.run_ranks(RANKS, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let config = Mc2CcTilingConfig::builder().group_name(comm.name());
            let config = config.op_type(CmdType::AllToAllVWrite).source_type(DataType::U8);
            let window = u64::from(rank.index()) * 64;
            let mut tiling = one_sided::Blocks { window, local: 8, ..Tiling::zeroed() };
            let init = Mc2InitTilingConfig::builder().product(Product::Ascend950).build();
            init.fill(&mut tiling, &[config.build()])?;
            let x = rank.device().upload(&[7_u8; 256], &stream)?;
            let offsets = rank.device().upload(&[0_u64, 8, 16, 24], &stream)?;
            let sizes = rank.device().upload(&[size; 4], &stream)?;
            let mut kernel = recorded.load(rank.device())?;
            let launch = kernel.launch(2).tiling(&tiling).group(&mut comm);
            let launch = launch.input(&x).input(&offsets).input(&sizes);
            launch.submit(&stream)?.wait()
        });
        outcome.map(drop)
    };
    run(64).unwrap();
    // Behind the end of what is sent, which the server sees when it reads the sizes.
    let error = run(1 << 20).unwrap_err().to_string();
    assert!(error.contains("beyond the end") || error.contains("has failed"), "{error}");
}

/// Two queues for each of three cores, which end on their own.
#[test]
fn queues_are_set_by_the_host_and_launched() {
    let devices = Runtime::emulator_builder().devices(2);
    let runtime = devices.product(Product::A3).build().unwrap();
    let recorded = one_sided::batches::record().unwrap();
    let done = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let config = Mc2CcTilingConfig::builder().group_name(comm.name());
        let config = config.op_type(CmdType::BatchWrite).build();
        let mut tiling = one_sided::Blocks { local: 2, ..Tiling::zeroed() };
        let init = Mc2InitTilingConfig::builder().product(Product::A3);
        init.queue_num(2).comm_block_num(3).build().fill(&mut tiling, &[config])?;
        // Items of no bytes.
        let items = rank.device().upload(&[0_u8; 128], &stream)?;
        let mut kernel = recorded.load(rank.device())?;
        for _ in 0..3 {
            let launch = kernel.launch(3).tiling(&tiling).group(&mut comm).input(&items);
            launch.submit(&stream)?.wait()?;
        }
        // With a core too many, which has no queues.
        let launch = kernel.launch(4).tiling(&tiling).group(&mut comm).input(&items);
        Ok::<_, hccl::Error>(launch.submit(&stream)?.wait().unwrap_err().to_string())
    });
    for error in done.unwrap() {
        assert!(error.contains("3 have queues"), "{error}");
    }
}

/// However the outcome is asked for: where races are looked for, completion is known from events.
#[test]
fn what_is_refused_is_an_error_where_races_are_looked_for() {
    let devices = Runtime::emulator_builder().devices(1).checked(true);
    let runtime = devices.build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let far = vadd::VaddTiling { total: 1 << 20, tile: 16 };
    for asks in [false, true] {
        let launch = kernel.launch(1).tiling(&far).input(&x).input(&x).output(&mut z);
        let work = launch.submit(&stream).unwrap();
        if asks {
            while !work.is_done() {
                std::thread::yield_now();
            }
        }
        let error = work.wait().unwrap_err().to_string();
        assert!(error.contains("vadd.rs"), "{error}");
        stream.synchronize().unwrap();
    }
    let well = vadd::VaddTiling { total: 16, tile: 16 };
    let launch = kernel.launch(1).tiling(&well).input(&x).input(&x).output(&mut z);
    let work = launch.submit(&stream).unwrap();
    assert!(work.is_done());
    work.wait().unwrap();
    assert_eq!(z.to_vec(&stream).wait().unwrap(), halves((0..16).map(|n| 2 * n)));
}

/// Of several that ask at once each is told: an answer that one of them gets is not given to the next.
#[test]
fn all_threads_that_ask_are_told_that_a_kernel_was_refused() {
    let devices = Runtime::emulator_builder().devices(1).checked(true);
    let runtime = devices.build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let far = vadd::VaddTiling { total: 1 << 20, tile: 16 };
    for round in 0..200 {
        let mut submit = || {
            let launch = kernel.launch(1).tiling(&far).input(&x).input(&x).output(&mut z);
            launch.submit(&stream).unwrap()
        };
        // They run when all are asking.
        let start = Arc::new(Barrier::new(5));
        let begin = start.clone();
        stream.host_fn(move || _ = begin.wait()).unwrap();
        let works = [submit(), submit()];
        std::thread::scope(|scope| {
            for asker in 0..4 {
                let (work, start) = (&works[asker % 2], start.clone());
                scope.spawn(move || {
                    start.wait();
                    if asker >= 2 {
                        while !work.is_done() {
                            std::hint::spin_loop();
                        }
                    }
                    assert!(work.wait().is_err(), "round {round}, asker {asker}");
                });
            }
        });
        stream.synchronize().unwrap();
    }
}

/// Kernels are dropped at once, with launches in flight too.
#[test]
fn a_kernel_may_be_dropped_while_it_runs() {
    let runtime = Runtime::emulator(1).unwrap();
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

/// The server of a kernel that was refused does not wait for ever: the communicator has failed, and all of it can go.
#[test]
fn a_refused_kernel_says_why_and_leaves_no_server_waiting() {
    let kernel = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let devices = Runtime::emulator_builder().devices(RANKS as usize);
    let runtime = devices.product(Product::A3).build().unwrap();
    let errors = runtime.run_ranks(RANKS, |rank| {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 301, ..Tiling::zeroed() };
        let tiling = filled(tiling, CmdType::ReduceScatter, comm.name());
        let x = device.upload(&small(rank.index()), &stream)?;
        let mut y = device.zeros::<f16>(300, &stream)?;
        let mut loaded = kernel.load(device)?;
        let launch = loaded.launch(8).tiling(&tiling).group(&mut comm);
        let work = launch.input(&x).output(&mut y).submit(&stream)?;
        Ok::<_, hccl::Error>(work.wait().unwrap_err().to_string())
    });
    for error in errors.unwrap() {
        assert!(error.contains("reduce_scatter.rs"), "{error}");
    }
}

/// Communicators are as many as the kernel has groups.
#[test]
fn a_kernel_with_a_client_is_not_launched_without_a_communicator() {
    let runtime = Runtime::emulator(1).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let recorded = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let mut kernel = recorded.load(&device).unwrap();
    let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 16, ..Tiling::zeroed() };
    let launch = kernel.launch(1).tiling(&tiling).input(&x).output(&mut y);
    let error = launch.submit(&stream).map(drop).unwrap_err().to_string();
    assert!(error.contains("takes part in 1 group, and 0 communicators were given"), "{error}");
}

/// What is loaded, launched and dropped leaves nothing on the device.
#[test]
fn a_thousand_kernels_leave_no_memory_behind() {
    let runtime = Runtime::emulator(1).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..64), &stream).unwrap();
    let mut y = device.zeros::<f16>(64, &stream).unwrap();
    let recorded = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let comm = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
    let mut comm = comm.build().unwrap();
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
