//! Windows: some rank must have written the memory that a rank reads from a window. This is tested
//! in the check of all ranks, at a launch, and in the run.

use hccl::Rank;
use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_tests::{own_devices, runtime_with};

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Windows {
    init: Mc2InitTiling,
    reduce: Mc2CcTiling,
    count: u64,
}

/// Writes `count` numbers of each rank to the window of the next rank. When all ranks have written,
/// each reads 64 numbers of its own window.
#[kernel(mix = "aiv_1_0")]
fn through_windows(k: Kernel<Windows>, x: Input<f32>, y: Output<f32>, z: Output<f32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.reduce);
        let next = (hccl.rank() + 1) % hccl.ranks();
        let a = k.scratch::<f32>(64).get();
        k.copy_in(&a, x, 64);
        k.wait_for(Pipe::Out, Pipe::In);
        k.copy_out(hccl.window_in::<f32>(next), &a, t.count);
        k.wait_for(Pipe::Scalar, Pipe::Out);
        // When this collective is complete, all ranks have written.
        let written = hccl.all_reduce(x, z, 64, Sum).commit_all();
        hccl.wait(&written);
        k.sync_all_aiv();
        k.wait_for(Pipe::In, Pipe::Out);
        k.copy_in(&a, hccl.window_in::<f32>(hccl.rank()), 64);
        k.wait_for(Pipe::Out, Pipe::In);
        k.copy_out(y, &a, 64);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

fn tiling(group: &str, count: u64) -> hccl::Result<Windows> {
    let mut tiling = Windows { count, ..Tiling::zeroed() };
    let config = Mc2CcTilingConfig::builder().group_name(group);
    let config = config.op_type(CmdType::AllReduce).reduce_op(ReduceKind::Sum);
    let config = config.source_type(DataType::F32).build();
    Mc2InitTilingConfig::builder().product(Product::A3).build().fill(&mut tiling, &[config])?;
    Ok(tiling)
}

/// Launches a kernel, and launches it again strictly. Returns the rules of the first launch's
/// notes, and the rank's result.
fn launches(rank: &Rank, count: u64) -> hccl::Result<(Vec<&'static str>, f32)> {
    let stream = rank.device().stream()?;
    let mut comm = rank.communicator()?;
    let tiling = tiling(comm.name(), count)?;
    let x = rank.device().upload(&[1.0 + rank.index() as f32; 64], &stream)?;
    let mut y = rank.device().zeros::<f32>(64, &stream)?;
    let mut z = rank.device().zeros::<f32>(64, &stream)?;
    let mut loaded = through_windows::record()?.load(rank.device())?;
    let launch = loaded.launch(1).tiling(&tiling).group(&mut comm);
    let work = launch.input(&x).output(&mut y).output(&mut z).submit(&stream)?;
    let noted = work.notes().iter().map(|note| note.rule).collect();
    work.wait()?;
    // The next launch writes to the window that the other rank may still read.
    comm.barrier(&stream)?.wait()?;
    // A strict launch does not demand facts that one rank cannot know.
    let launch = loaded.launch(1).tiling(&tiling).group(&mut comm);
    launch.input(&x).output(&mut y).output(&mut z).strict().submit(&stream)?.wait()?;
    Ok((noted, y.to_vec(&stream).wait()?[0]))
}

/// Compares the check of all ranks, which sees the contents of a window, with the launch of one
/// rank, which cannot and reports that.
#[test]
fn what_is_read_of_a_window_was_written_by_some_rank() -> hccl::Result<()> {
    let kernel = through_windows::record()?;
    let check = |count| {
        let tiling = tiling("world", count)?;
        Ok::<_, hccl::Error>(kernel.check(&tiling, 1, 4, Product::A3, &[256; 3]))
    };
    let report = check(64)?;
    assert!(report.is_good(true), "{report}");
    assert_eq!(report.findings().count(), 0, "{report}");
    let report = check(63)?;
    let errors: Vec<_> = report.errors().collect();
    assert_eq!(report.findings().map(|finding| finding.rule).collect::<Vec<_>>(), ["windows"]);
    assert!(errors[0].message.contains("byte 252 of the input window of rank 0"), "{report}");

    let runtime = runtime_with(2);
    let outcome = runtime.run_ranks(2, |rank| launches(&rank, 64))?;
    assert_eq!(outcome, [(vec!["windows"], 2.0), (vec!["windows"], 1.0)]);
    Ok(())
}

/// Checks reads of a window in checked mode, in which everything is known when the kernel runs.
#[test]
fn what_is_read_of_a_window_was_written() -> hccl::Result<()> {
    let checked = |count| {
        let devices = own_devices().devices(2).product(Product::A3);
        let runtime = devices.checked(true).build()?;
        let outcome = runtime.run_ranks(2, |rank| launches(&rank, count));
        let found: Vec<_> = runtime.findings().iter().map(ToString::to_string).collect();
        Ok::<_, hccl::Error>((outcome, found))
    };
    let (outcome, found) = checked(64)?;
    let first: Vec<_> = outcome?.into_iter().map(|(_, first)| first).collect();
    assert_eq!((first, found), (vec![2.0, 1.0], Vec::new()));
    let (_, found) = checked(60)?;
    assert_eq!(found.len(), 2, "one on each rank: {found:#?}");
    for text in &found {
        let unwritten = "unwritten: bytes 240..256 of the input window of rank ";
        assert!(text.starts_with(unwritten), "{text}");
        let read = "read: kernel through_windows, ";
        assert!(text.contains(read) && text.contains("windows.rs:"), "{text}");
    }
    Ok(())
}
