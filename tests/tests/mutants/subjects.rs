//! Good kernels with the arguments of their launches: those of the examples, and some that use
//! units, flags and scalars without queues.

use ascend_emulator_testing::kernel;
use ascend_emulator_testing::random_kernel::Sample;
use ascend_program::Program;
use hccl::dtype::ReduceKind;
use hccl::f16;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::Product;
use hccl_examples::kernels::*;

/// A function that fills a tiling struct for a communicator of this name.
pub type Fill = Box<dyn Fn(&str) -> Vec<u8> + Sync>;

/// A good kernel and its launch, which is the same on all ranks except for its inputs.
pub struct Subject {
    pub program: Program,
    pub ranks: u32,
    pub blocks: u32,
    pub tiling: Fill,
    /// The bytes of each tensor, in the order of the arguments.
    pub tensors: Vec<usize>,
    pub workspace: usize,
}

fn subject<T: Tiling + symbol::TilingArgument + Copy + Sync + 'static>(
    recorded: &Recorded<T>,
    (ranks, blocks): (u32, u32),
    tiling: T,
    operation: (CmdType, DataType),
    tensors: &[usize],
) -> Subject {
    let reduces = matches!(operation.0, CmdType::AllReduce | CmdType::ReduceScatter);
    let filled = move |group: &str| {
        let mut tiling = tiling;
        let config = Mc2CcTilingConfig::builder().group_name(group).op_type(operation.0);
        let config = config.source_type(operation.1);
        let member = match reduces {
            true => config.reduce_op(ReduceKind::Sum).build(),
            false => config.build(),
        };
        let init = Mc2InitTilingConfig::builder().product(Product::A3).build();
        init.fill(&mut tiling, &[member]).unwrap();
        tiling.as_bytes().to_vec()
    };
    Subject {
        program: recorded.program().clone(),
        ranks,
        blocks,
        tiling: Box::new(filled),
        tensors: tensors.to_vec(),
        workspace: 0,
    }
}

/// Returns a subject that does not communicate.
fn alone<T: symbol::TilingArgument>(
    recorded: &Recorded<T>,
    blocks: u32,
    tiling: &[u8],
    tensors: &[usize],
) -> Subject {
    let bytes = tiling.to_vec();
    Subject {
        program: recorded.program().clone(),
        ranks: 1,
        blocks,
        tiling: Box::new(move |_| bytes.clone()),
        tensors: tensors.to_vec(),
        workspace: 4096,
    }
}

/// Computes `y = 2 x` in tiles, with two buffers and a wait for each hand-over.
#[kernel(mix = "aiv_only")]
fn with_waits(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    k.range(..t.tiles, |tile| {
        let at = tile * 64u64;
        k.wait_for(Pipe::In, Pipe::Vector);
        k.copy_in(&a, x.at(at), 64);
        k.wait_for(Pipe::Vector, Pipe::In);
        k.wait_for(Pipe::Vector, Pipe::Out);
        k.muls(&b, &a, 2.0, 64);
        k.wait_for(Pipe::Out, Pipe::Vector);
        k.copy_out(y.at(at), &b, 64);
    });
}

/// The sizes of the kernels here.
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Sizes {
    tiles: u64,
}

/// Lets two cores exchange blocks through the workspace. A flag signals that the blocks are there.
#[kernel(mix = "aiv_1_0")]
fn exchange(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    let w = k.workspace::<f32>(0);
    let me = k.block_index().cast::<u64>();
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    k.copy_in(&a, x.at(me * 64u64), 64);
    k.wait_for(Pipe::Out, Pipe::In);
    k.copy_out(w.at(me * 64u64), &a, 64);
    k.cross_core_set_flag(Mode::Kind, Pipe::Out, 8);
    k.cross_core_wait_flag(8);
    k.copy_in(&b, w.at((k.value(1u64) - me) * 64u64), 64);
    k.wait_for(Pipe::Vector, Pipe::In);
    k.add(&b, &b, &a, 64);
    k.wait_for(Pipe::Out, Pipe::Vector);
    k.copy_out(y.at(me * 64u64), &b, 64);
    let _ = k.tiling().tiles;
}

/// Computes `to = from + 1` through two queues.
fn add_one(
    k: Kernel<Sizes>,
    (input, output): (&Queue<f32>, &Queue<f32>),
    from: impl Into<Input<f32>>,
    to: Output<f32>,
) {
    let a = input.alloc();
    k.copy_in(&a, from, 64);
    input.enqueue(a);
    let a = input.dequeue();
    let b = output.alloc();
    k.adds(&b, &a, 1.0, 64);
    input.free(a);
    output.enqueue(b);
    let b = output.dequeue();
    k.copy_out(to, &b, 64);
    output.free(b);
}

/// Lets all cores exchange blocks through the workspace, with a barrier of all cores.
#[kernel(mix = "aiv_1_0")]
fn meet(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    let w = k.workspace::<f32>(0);
    let me = k.block_index().cast::<u64>();
    let cores = k.block_count().cast::<u64>();
    let input = k.queue::<f32>(Position::VecIn, 2, 64);
    let output = k.queue::<f32>(Position::VecOut, 2, 64);
    let queues = (&input, &output);
    add_one(k, queues, x.at(me * 64u64), w.at(me * 64u64));
    k.sync_all_aiv();
    add_one(k, queues, w.at(((me + 1u64) % cores) * 64u64), y.at(me * 64u64));
    k.sync_all_aiv();
    let _ = k.tiling().tiles;
}

/// Computes a sum that the scalar unit reads, changes, and passes back to the vector unit.
#[kernel(mix = "aiv_only")]
fn scalars(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    let (a, work) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    let sum = k.scratch::<f32>(8).get();
    k.copy_in(&a, x, 60);
    k.wait_for(Pipe::Vector, Pipe::In);
    k.reduce_sum(&sum, &a, &work, 60);
    k.wait_for(Pipe::Scalar, Pipe::Vector);
    let all = sum.get(0);
    sum.set(0, all * 0.5);
    k.wait_for(Pipe::Vector, Pipe::Scalar);
    k.muls(&a, &a, 3.0, 60);
    k.muls(&sum, &sum, 2.0, 1);
    k.wait_for(Pipe::Out, Pipe::Vector);
    k.copy_out(y, &a, 60);
    k.copy_out(y.at(64u64), &sum, 1);
    let _ = k.tiling().tiles;
}

const HALF: usize = 2;
const FLOAT: usize = 4;

/// Returns all subjects.
pub fn subjects() -> Vec<Subject> {
    use CmdType::*;
    let (two, half, float) = ((2, 2), DataType::F16, DataType::F32);
    let sizes = Sizes { tiles: 4 };
    let tiles = sizes.as_bytes();
    let zeroed = <all_to_all::AllToAllTiling as Tiling>::zeroed();
    let mut all = vec![
        alone(&with_waits::record().unwrap(), 1, tiles, &[4 * 64 * FLOAT; 2]),
        alone(&exchange::record().unwrap(), 2, tiles, &[2 * 64 * FLOAT; 2]),
        alone(&meet::record().unwrap(), 3, tiles, &[3 * 64 * FLOAT; 2]),
        alone(&scalars::record().unwrap(), 1, tiles, &[60 * FLOAT, 65 * FLOAT]),
        alone(
            &vadd::vadd::record().unwrap(),
            2,
            vadd::VaddTiling { total: 300, tile: 64 }.as_bytes(),
            &[300 * HALF; 3],
        ),
        subject(
            &all_to_all::all_to_all_custom::record().unwrap(),
            two,
            all_to_all::AllToAllTiling { data_count: 128, ..zeroed },
            (AllToAll, half),
            &[256 * HALF; 2],
        ),
        subject(
            &all_to_all::all_to_all_rounds::record().unwrap(),
            two,
            all_to_all::AllToAllRoundsTiling {
                tile_num: 2,
                tile_len: 128,
                tail_num: 1,
                tail_len: 100,
                ..Tiling::zeroed()
            },
            (AllToAll, half),
            &[2 * 356 * HALF; 2],
        ),
        subject(
            &reduce_scatter::reduce_scatter_custom::record().unwrap(),
            two,
            reduce_scatter::ReduceScatterTiling { recv_count: 300, ..Tiling::zeroed() },
            (ReduceScatter, half),
            &[600 * HALF, 300 * HALF],
        ),
        subject(
            &reduce_scatter::reduce_scatter_rounds::record().unwrap(),
            two,
            reduce_scatter::ReduceScatterRoundsTiling {
                tile_num: 2,
                tile_len: 128,
                tail_num: 1,
                tail_len: 44,
                ..Tiling::zeroed()
            },
            (ReduceScatter, half),
            &[600 * HALF, 300 * HALF],
        ),
        subject(
            &matmul_all_reduce::matmul_all_reduce::record().unwrap(),
            two,
            matmul_all_reduce::MatmulAllReduceTiling {
                tile: cube(32, 32, 16),
                tail: cube(24, 32, 16),
                tile_num: 2,
                ..Tiling::zeroed()
            },
            (AllReduce, half),
            &[88 * 16 * HALF, 16 * 32 * HALF, 88 * 32 * HALF],
        ),
        subject(
            &all_gather_matmul::all_gather_matmul::record().unwrap(),
            two,
            all_gather_matmul::AllGatherMatmulTiling {
                local: cube(88, 32, 16),
                tile: cube(32, 32, 16),
                tail: cube(24, 32, 16),
                tile_num: 2,
                ..Tiling::zeroed()
            },
            (AllGather, half),
            &[88 * 16 * HALF, 16 * 32 * HALF, 176 * 32 * HALF, 176 * 16 * HALF],
        ),
        subject(
            &weighted_sum::weighted_sum::record().unwrap(),
            two,
            weighted_sum::WeightedSumTiling {
                tile_num: 2,
                weight: 2.0,
                tile_len: 160,
                piece_len: 64,
                ..Tiling::zeroed()
            },
            (AllReduce, float),
            &[320 * FLOAT; 2],
        ),
    ];
    all.extend((0..RANDOM).map(random));
    all.iter_mut().filter(|of| of.program.workspace).for_each(|of| of.workspace = 4096);
    all
}

/// The number of random kernels.
const RANDOM: u64 = 12;

/// Makes a random kernel of vectors and collectives.
fn random(seed: u64) -> Subject {
    let sample = Sample::new(&mut fastrand::Rng::with_seed(seed));
    let mut program = sample.program();
    program.name = format!("random_{seed}");
    let (commands, length) = (sample.commands.clone(), sample.length as usize);
    Subject {
        program,
        ranks: sample.ranks as u32,
        blocks: sample.blocks,
        tiling: Box::new(move |group| kernel::tiling(&commands, group)),
        tensors: vec![length * FLOAT; 1 + sample.stages.len()],
        workspace: 0,
    }
}

/// Returns the tiling of a product of halves, for two cores.
fn cube(m: usize, n: usize, k: usize) -> TCubeTiling {
    TCubeTiling::for_shape::<f16, f16, f16>(Product::A3, m, n, k).cores(2).build().unwrap()
}
