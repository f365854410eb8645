//! 8. Kernels that communicate.
//!
//! This example calls a collective from inside a kernel. Each of four ranks has 1200 half floats,
//! and the kernel sums block r of all ranks for rank r, in three rounds of 128, 128 and 44
//! elements. The kernel is a Rust function (`examples/src/kernels/reduce_scatter.rs`). The function
//! is recorded once, runs on the emulated cores of every rank, and is printed as the Ascend C for a
//! real NPU:
//!
//!     cargo run --release --example 08_kernels
//!     target/release/hcclrun -n 4 target/release/examples/08_kernels   # each rank as a process

use hccl::dtype::ReduceKind;
use hccl::kernel::Tiling;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::prelude::*;
use hccl_examples::kernels::reduce_scatter::{ReduceScatterRoundsTiling, reduce_scatter_rounds};

const RANKS: u32 = 4;
const EACH: usize = 300;

fn main() -> hccl::Result<()> {
    let kernel = reduce_scatter_rounds::record()?;
    let devices = Runtime::emulator_builder().devices(RANKS as usize);
    let runtime = devices.product(Product::A3).build()?;
    let sums = runtime.run_job(RANKS, |rank| -> hccl::Result<(usize, Vec<f16>)> {
        if rank.index() == 0 {
            println!("{kernel}");
        }
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;

        // The host's parameters for the kernel: sizes, and the settings of the communication
        // server.
        let mut tiling =
            ReduceScatterRoundsTiling { tile_len: 128, tail_len: 44, ..Tiling::zeroed() };
        tiling.set_tile_num(2)?.set_tail_num(1)?;
        let reduce_scatter = Mc2CcTilingConfig::builder()
            .group_name(comm.name())
            .op_type(CmdType::ReduceScatter)
            .reduce_op(ReduceKind::Sum)
            .source_type(DataType::F16)
            .build();
        let init = Mc2InitTilingConfig::builder().product(Product::A3).build();
        init.fill(&mut tiling, &[reduce_scatter])?;

        // Element i of rank r is r + i % 100.
        let number = |i: usize| f16::from_f32((rank.index() as usize + i % 100) as f32);
        let x: Vec<f16> = (0..RANKS as usize * EACH).map(number).collect();
        let x = device.upload(&x, &stream)?;
        let mut y = device.zeros::<f16>(EACH, &stream)?;

        // The kernel runs on eight vector cores, beside the communication server.
        let mut loaded = kernel.load(device)?;
        let launch = loaded.launch(8).tiling(&tiling).group(&mut comm);
        launch.input(&x).output(&mut y).submit(&stream)?.wait()?;
        Ok((rank.index() as usize, y.to_vec(&stream).wait()?))
    })?;

    for (rank, sum) in &sums {
        let expected = |i: usize| f16::from_f32((6 + 4 * ((rank * EACH + i) % 100)) as f32);
        assert!(sum.iter().enumerate().all(|(i, &found)| found == expected(i)));
        println!("rank {rank} has {}, {}, {}, ..", sum[0], sum[1], sum[2]);
    }

    if sums.iter().any(|(rank, _)| *rank == 0) {
        println!("\n{}", kernel.ascend_c()?);
    }
    Ok(())
}
