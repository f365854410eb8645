//! 9. Computation and communication at the same time, and a picture of it.
//!
//! Two fused operators on four emulated ranks: `MatmulAllReduce` sums the products of all ranks,
//! tile by tile, while its cores multiply the next tile. `AllGatherMatmul` multiplies its own tiles
//! while the first tiles arrive from the other ranks. Each operator is compared with the plain
//! formula, and drawn: the products and waits of each core, the work of the communication server,
//! and the data that moved over each link.
//!
//!     cargo run --release --example 09_timeline -- [folder]
//!
//! It writes `matmul_all_reduce.svg` and `all_gather_matmul.svg`, and the same as `.json` for
//! <https://ui.perfetto.dev>, into the given folder or else into `timelines`.

use std::path::PathBuf;

use clap::Parser;
use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::{TCubeTiling, Tiling, Timeline};
use hccl::prelude::*;
use hccl_examples::kernels::all_gather_matmul::{AllGatherMatmulTiling, all_gather_matmul};
use hccl_examples::kernels::matmul_all_reduce::{MatmulAllReduceTiling, matmul_all_reduce};

/// Two fused operators on four emulated ranks, compared with their formulas and drawn as timelines.
#[derive(Parser)]
struct Options {
    /// The folder for the pictures and the traces.
    #[arg(default_value = "timelines")]
    folder: PathBuf,
}

const RANKS: u32 = 4;
/// The number of cube cores of each rank.
const BLOCKS: u32 = 2;
/// The rows of a rank's left matrix are two tiles and the rest.
const TILE: usize = 64;
const TAIL: usize = 40;
const ROWS: usize = 2 * TILE + TAIL;
const DEPTH: usize = 64;
const WIDTH: usize = 96;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let Options { folder } = Options::parse();
    std::fs::create_dir_all(&folder)?;
    let devices = Runtime::emulator_builder().devices(RANKS as usize);
    let runtime = devices.product(Product::A3).build()?;
    for (name, timeline) in [
        ("matmul_all_reduce", sum_of_products(&runtime)?),
        ("all_gather_matmul", product_of_all_rows(&runtime)?),
    ] {
        let (svg, trace) =
            (folder.join(format!("{name}.svg")), folder.join(format!("{name}.json")));
        std::fs::write(&svg, timeline.svg())?;
        std::fs::write(&trace, timeline.trace())?;
        println!("{name}: {} and {}", svg.display(), trace.display());
    }
    Ok(())
}

/// Computes `y = sum of a * b over the ranks`, and returns the timeline.
fn sum_of_products(runtime: &Runtime) -> Outcome<Timeline> {
    let kernel = matmul_all_reduce::record()?;
    let recording = runtime.record_timeline()?;
    let sums = runtime.run_ranks(RANKS, |rank| {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let mut tiling = MatmulAllReduceTiling {
            tile: rows(TILE)?,
            tail: rows(TAIL)?,
            tile_num: 2,
            ..Tiling::zeroed()
        };
        server(&mut tiling, CmdType::AllReduce, &comm)?;

        let a = device.upload(&left(rank.index()), &stream)?;
        let b = device.upload(&right(rank.index()), &stream)?;
        let mut y = device.zeros::<f16>(ROWS * WIDTH, &stream)?;
        let mut loaded = kernel.load(device)?;
        comm.barrier(&stream)?.wait()?; // so that the ranks begin together in the picture
        let launch = loaded.launch(BLOCKS).tiling(&tiling).group(&mut comm);
        launch.input(&a).input(&b).output(&mut y).submit(&stream)?.wait()?;
        y.to_vec(&stream).wait()
    })?;
    let timeline = recording.finish()?;

    let products: Vec<_> = (0..RANKS).map(|rank| product(&left(rank), &right(rank))).collect();
    let sum = |n: usize| f16::from_f32(products.iter().map(|product| product[n]).sum());
    let expected: Vec<f16> = (0..ROWS * WIDTH).map(sum).collect();
    assert!(sums.iter().all(|found| *found == expected));
    Ok(timeline)
}

/// Computes `y = gathered * b` with the rows of all ranks, and returns the timeline.
fn product_of_all_rows(runtime: &Runtime) -> Outcome<Timeline> {
    let kernel = all_gather_matmul::record()?;
    let recording = runtime.record_timeline()?;
    let products = runtime.run_ranks(RANKS, |rank| {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let mut tiling = AllGatherMatmulTiling {
            local: rows(ROWS)?,
            tile: rows(TILE)?,
            tail: rows(TAIL)?,
            tile_num: 2,
            ..Tiling::zeroed()
        };
        server(&mut tiling, CmdType::AllGather, &comm)?;

        let x = device.upload(&left(rank.index()), &stream)?;
        let b = device.upload(&right(0), &stream)?;
        let all = RANKS as usize * ROWS;
        let mut y = device.zeros::<f16>(all * WIDTH, &stream)?;
        let mut gathered = device.zeros::<f16>(all * DEPTH, &stream)?;
        let mut loaded = kernel.load(device)?;
        comm.barrier(&stream)?.wait()?;
        let launch = loaded.launch(BLOCKS).tiling(&tiling).group(&mut comm).input(&x).input(&b);
        launch.output(&mut y).output(&mut gathered).submit(&stream)?.wait()?;
        y.to_vec(&stream).wait()
    })?;
    let timeline = recording.finish()?;

    let all: Vec<f16> = (0..RANKS).flat_map(left).collect();
    let expected: Vec<f16> = product(&all, &right(0)).into_iter().map(f16::from_f32).collect();
    assert!(products.iter().all(|found| *found == expected));
    Ok(timeline)
}

/// Returns the tiling by which the cores share a product of `m` rows.
fn rows(m: usize) -> hccl::Result<TCubeTiling> {
    let shape = TCubeTiling::for_shape::<f16, f16, f16>(Product::A3, m, WIDTH, DEPTH);
    shape.cores(BLOCKS).build()
}

/// Fills the settings of the communication server.
fn server<T: Tiling>(tiling: &mut T, operation: CmdType, comm: &Communicator) -> hccl::Result<()> {
    let member = Mc2CcTilingConfig::builder()
        .group_name(comm.name())
        .op_type(operation)
        .source_type(DataType::F16);
    let member = match operation {
        CmdType::AllReduce => member.reduce_op(ReduceKind::Sum).build(),
        _ => member.build(),
    };
    Mc2InitTilingConfig::builder().product(Product::A3).build().fill(tiling, &[member])?;
    Ok(())
}

/// Returns small whole numbers, whose sums are exact in half floats.
fn left(rank: u32) -> Vec<f16> {
    let number = |n: usize| ((n * 5 + rank as usize * 3) % 4) as f32 - 1.0;
    (0..ROWS * DEPTH).map(|n| f16::from_f32(number(n))).collect()
}

fn right(rank: u32) -> Vec<f16> {
    let number = |n: usize| ((n * 7 + rank as usize) % 3) as f32 - 1.0;
    (0..DEPTH * WIDTH).map(|n| f16::from_f32(number(n))).collect()
}

/// Computes the plain formula.
fn product(a: &[f16], b: &[f16]) -> Vec<f32> {
    let entry = |n: usize| {
        let (row, column) = (n / WIDTH * DEPTH, n % WIDTH);
        (0..DEPTH).map(|k| a[row + k].to_f32() * b[k * WIDTH + column].to_f32()).sum()
    };
    (0..a.len() / DEPTH * WIDTH).map(entry).collect()
}
