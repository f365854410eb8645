//! One-sided writes of kernels, through the safe layer.

use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_tests::{own_devices, runtime_with};

use super::RANKS;

mod kernels {
    use hccl::kernel::*;

    #[derive(Clone, Copy, Tiling)]
    #[repr(C)]
    pub struct Blocks {
        pub init: Mc2InitTiling,
        pub write: Mc2CcTiling,
        pub window: u64,
        pub local: u64,
    }

    /// Writes to the window of the next rank before it does anything else.
    #[kernel(mix = "aiv_1_0")]
    pub fn at_once(k: Kernel<Blocks>, x: Input<f32>, y: Output<f32>) {
        let t = k.tiling();
        k.on_aiv(|| {
            let hccl = k.hccl(0).init().configure(&t.write);
            let next = (hccl.rank() + 1) % hccl.ranks();
            let a = k.scratch::<f32>(64).get();
            k.copy_in(&a, x, 64);
            k.wait_for(Pipe::Out, Pipe::In);
            k.copy_out(hccl.window_in::<f32>(next), &a, 64);
            k.wait_for(Pipe::Scalar, Pipe::Out);
            let task = hccl.all_reduce(x, y, t.window, Sum).commit_all();
            hccl.wait(&task);
            k.sync_all_aiv();
            hccl.finalise();
        });
    }

    /// Writes blocks into the windows of all ranks.
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

    /// Writes a batch into each queue of every core.
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

/// Launches one-sided writes. They land in the window of another rank, which a safe program cannot
/// read. But a safe program can see that the turn meets all ranks.
#[test]
fn one_sided_writes_are_configured_and_launched_as_other_operations_are() {
    let devices = own_devices().devices(RANKS as usize);
    let runtime = devices.product(Product::Ascend950).build().unwrap();
    let recorded = kernels::blocks::record().unwrap();
    let run = |size: u64| {
        let outcome = runtime.run_ranks(RANKS, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let config = Mc2CcTilingConfig::builder().group_name(comm.name());
            let config = config.op_type(CmdType::AllToAllVWrite).source_type(DataType::U8);
            let window = u64::from(rank.index()) * 64;
            let mut tiling = kernels::Blocks { window, local: 8, ..Tiling::zeroed() };
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
    // The size goes beyond the end of the sent data, which the server detects when it reads the
    // sizes.
    let error = run(1 << 20).unwrap_err().to_string();
    assert!(error.contains("beyond the end") || error.contains("has failed"), "{error}");
}

/// Launches three cores with two queues each. Every queue ends on its own.
#[test]
fn queues_are_set_by_the_host_and_launched() {
    let runtime = runtime_with(2);
    let recorded = kernels::batches::record().unwrap();
    let done = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let config = Mc2CcTilingConfig::builder().group_name(comm.name());
        let config = config.op_type(CmdType::BatchWrite).build();
        let mut tiling = kernels::Blocks { local: 2, ..Tiling::zeroed() };
        let init = Mc2InitTilingConfig::builder().product(Product::A3);
        init.queue_num(2).comm_block_num(3).build().fill(&mut tiling, &[config])?;
        // All items have no bytes.
        let items = rank.device().upload(&[0_u8; 128], &stream)?;
        let mut kernel = recorded.load(rank.device())?;
        for _ in 0..3 {
            let launch = kernel.launch(3).tiling(&tiling).group(&mut comm).input(&items);
            launch.submit(&stream)?.wait()?;
        }
        // This launch has one core too many, which has no queues.
        let launch = kernel.launch(4).tiling(&tiling).group(&mut comm).input(&items);
        Ok::<_, hccl::Error>(launch.submit(&stream)?.wait().unwrap_err().to_string())
    });
    for error in done.unwrap() {
        assert!(error.contains("the number of cores with queues is 3"), "{error}");
    }
}

/// Checks that the windows of all ranks are known when a kernel begins, however late the other
/// ranks come to their own kernels.
#[test]
fn the_window_of_another_rank_may_be_used_at_once() {
    let recorded = kernels::at_once::record().unwrap();
    for _ in 0..10 {
        let runtime = runtime_with(RANKS as usize);
        let sums = runtime.run_ranks(RANKS, |rank| {
            let (device, index) = (rank.device(), rank.index());
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let mut tiling = kernels::Blocks { window: 64, ..Tiling::zeroed() };
            let member = Mc2CcTilingConfig::builder()
                .group_name(comm.name())
                .op_type(CmdType::AllReduce)
                .reduce_op(hccl::dtype::ReduceKind::Sum)
                .source_type(DataType::F32)
                .build();
            let init = Mc2InitTilingConfig::builder().product(Product::A3).build();
            init.fill(&mut tiling, &[member])?;
            let x = device.upload(&[index as f32; 64], &stream)?;
            let mut y = device.zeros::<f32>(64, &stream)?;
            let mut kernel = recorded.load(device)?;
            let launch = kernel.launch(1).tiling(&tiling).group(&mut comm);
            launch.input(&x).output(&mut y).submit(&stream)?.wait()?;
            y.to_vec(&stream).wait()
        });
        assert_eq!(sums.unwrap(), vec![vec![6.0; 64]; RANKS as usize]);
    }
}
