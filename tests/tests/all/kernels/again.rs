//! Checked mode looks into kernels: where the check before the launch had to leave out something, it checks once more when the kernel has
//! ended, with what its cores have read.

use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;

/// Doubles as many numbers as `counts` says, if it says any, with no wait between the copies and the product.
#[kernel(mix = "aiv_only")]
fn doubles_some(k: Kernel, counts: Input<u32>, x: Input<f32>, y: Output<f32>) {
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    let count = counts.get(0);
    k.when(count.gt(0), || {
        k.copy_in(&a, x, 64);
        k.muls(&b, &a, 2.0, 64);
        k.copy_out(y, &b, 64);
    });
}

/// The repaired twin.
#[kernel(mix = "aiv_only")]
fn waits_and_doubles_some(k: Kernel, counts: Input<u32>, x: Input<f32>, y: Output<f32>) {
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    let count = counts.get(0);
    k.when(count.gt(0), || {
        k.copy_in(&a, x, 64);
        k.wait_for(Pipe::Vector, Pipe::In);
        k.muls(&b, &a, 2.0, 64);
        k.wait_for(Pipe::Out, Pipe::Vector);
        k.copy_out(y, &b, 64);
    });
}

/// Launches it with this number; what checked mode has found.
fn findings(kernel: &Recorded<()>, count: u32, checked: bool) -> hccl::Result<Vec<String>> {
    let runtime = Runtime::emulator_builder().devices(1).checked(checked).build()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let counts = device.upload(&[count; 8], &stream)?;
    let x = device.upload(&[3.0_f32; 64], &stream)?;
    let mut y = device.zeros::<f32>(64, &stream)?;
    let mut loaded = kernel.load(&device)?;
    for _ in 0..2 {
        let launch = loaded.launch(1).input(&counts).input(&x).output(&mut y);
        launch.submit(&stream)?.wait()?;
    }
    let expected = if count > 0 { 6.0 } else { 0.0 };
    assert_eq!(y.to_vec(&stream).wait()?, [expected; 64], "this time it went well");
    Ok(runtime.findings().iter().map(ToString::to_string).collect())
}

#[test]
fn what_the_check_before_the_launch_left_out_is_checked_when_it_has_ended() -> hccl::Result<()> {
    let kernel = doubles_some::record()?;
    let found = findings(&kernel, 5, true)?;
    assert_eq!(
        found.len(),
        2,
        "one for each wait that is missing, whatever the launches: {found:#?}"
    );
    let text = &found[0];
    assert!(text.starts_with("kernel: V reads element 0 of the buffer of `a`"), "{text}");
    assert!(text.contains("kernel doubles_some, task ") && text.contains("rule units, "), "{text}");
    assert!(text.contains("again.rs:16:") && text.contains("witness: "), "{text}");
    assert!(text.contains("help: call `k.wait_for(Pipe::Vector, Pipe::In)` in between"), "{text}");
    // It was not done.
    assert_eq!(findings(&kernel, 0, true)?, Vec::<String>::new());
    assert_eq!(findings(&kernel, 5, false)?, Vec::<String>::new());
    assert_eq!(findings(&waits_and_doubles_some::record()?, 5, true)?, Vec::<String>::new());
    Ok(())
}

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Windows {
    init: Mc2InitTiling,
    reduce: Mc2CcTiling,
    count: u64,
}

/// Each rank writes `count` numbers to the window of the next one; when all have, it reads 64 of its own.
#[kernel(mix = "aiv_1_0")]
fn through_windows(k: Kernel<Windows>, x: Input<f32>, y: Output<f32>, z: Output<f32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.reduce);
        // The first turn lets the ranks have their windows, the second what was written.
        let there = hccl.all_reduce(x, z, 64, Sum).commit_all();
        hccl.wait(&there);
        let next = (hccl.rank() + 1) % hccl.ranks();
        let a = k.scratch::<f32>(64).get();
        k.copy_in(&a, x, 64);
        k.wait_for(Pipe::Out, Pipe::In);
        k.copy_out(hccl.window_in::<f32>(next), &a, t.count);
        k.wait_for(Pipe::Scalar, Pipe::Out);
        let written = hccl.all_reduce(x, z, 64, Sum).commit_all();
        hccl.wait(&written);
        k.wait_for(Pipe::In, Pipe::Out);
        k.copy_in(&a, hccl.window_in::<f32>(hccl.rank()), 64);
        k.wait_for(Pipe::Out, Pipe::In);
        k.copy_out(y, &a, 64);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

fn windows(count: u64) -> hccl::Result<(Vec<f32>, Vec<String>)> {
    let devices = Runtime::emulator_builder().devices(2).product(Product::A3);
    let runtime = devices.checked(true).build()?;
    let kernel = through_windows::record()?;
    let outcome = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let mut tiling = Windows { count, ..Tiling::zeroed() };
        let config = Mc2CcTilingConfig::builder().group_name(comm.name());
        let config = config.op_type(CmdType::AllReduce).reduce_op(ReduceKind::Sum);
        let config = config.source_type(DataType::F32).build();
        Mc2InitTilingConfig::builder().product(Product::A3).build().fill(&mut tiling, &[config])?;
        let x = rank.device().upload(&[1.0 + rank.index() as f32; 64], &stream)?;
        let mut y = rank.device().zeros::<f32>(64, &stream)?;
        let mut z = rank.device().zeros::<f32>(64, &stream)?;
        let mut loaded = kernel.load(rank.device())?;
        let launch = loaded.launch(1).tiling(&tiling).group(&mut comm);
        launch.input(&x).output(&mut y).output(&mut z).submit(&stream)?.wait()?;
        Ok::<_, hccl::Error>(y.to_vec(&stream).wait()?[0])
    });
    let found = runtime.findings().iter().map(ToString::to_string).collect();
    Ok((outcome.unwrap_or_default(), found))
}

/// The launch of one rank cannot know what others write; when it runs, all is known.
#[test]
fn what_is_read_of_a_window_was_written() -> hccl::Result<()> {
    let (first, found) = windows(64)?;
    assert_eq!((first, found), (vec![2.0, 1.0], Vec::new()));
    let (_, found) = windows(60)?;
    assert_eq!(found.len(), 2, "one on each rank: {found:#?}");
    for text in &found {
        assert!(
            text.starts_with("unwritten: bytes 240..256 of the input window of rank "),
            "{text}"
        );
        assert!(
            text.contains("read: kernel through_windows, ") && text.contains("again.rs:"),
            "{text}"
        );
    }
    Ok(())
}
