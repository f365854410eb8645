//! Kernels are checked without a launch, on all ranks, and the report lists the checked parts.

use hccl::dtype::ReduceKind;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_tests::runtime_with;

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct ReportTiling {
    init: Mc2InitTiling,
    reduce: Mc2CcTiling,
    count: u64,
}

fn tiling(count: u64) -> ReportTiling {
    let mut tiling = ReportTiling { count, ..Tiling::zeroed() };
    let reduce = Mc2CcTilingConfig::builder()
        .group_name("world")
        .op_type(CmdType::AllReduce)
        .reduce_op(ReduceKind::Sum)
        .source_type(DataType::F32)
        .build();
    Mc2InitTilingConfig::builder()
        .product(Product::A3)
        .build()
        .fill(&mut tiling, &[reduce])
        .unwrap();
    tiling
}

fn rules(report: &Report) -> Vec<&'static str> {
    report.findings().map(|finding| finding.rule).collect()
}

/// Makes the most common mistake: no unit waits for another one.
#[kernel(mix = "aiv_only")]
fn without_a_queue(k: Kernel, x: Input<f32>, y: Output<f32>) {
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    k.copy_in(&a, x, 64);
    k.muls(&b, &a, 2.0, 64);
    k.copy_out(y, &b, 64);
}

#[kernel(mix = "aiv_only")]
fn with_waits(k: Kernel, x: Input<f32>, y: Output<f32>) {
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    k.copy_in(&a, x, 64);
    k.wait_for(Pipe::Vector, Pipe::In);
    k.muls(&b, &a, 2.0, 64);
    k.wait_for(Pipe::Out, Pipe::Vector);
    k.copy_out(y, &b, 64);
}

#[test]
fn the_missing_waits_are_named() {
    let check = |kernel: Recorded<()>| kernel.check(&(), 1, 1, Product::A3, &[256, 256]);
    let report = check(without_a_queue::record().unwrap());
    assert_eq!(rules(&report), ["units", "units"]);
    let text = report.to_string();
    assert!(
        text.starts_with(
            "`without_a_queue` on Atlas A3, 1 block, 1 rank: 2 errors, all of it checked\n"
        ),
        "{text}"
    );
    for wait in ["k.wait_for(Pipe::Vector, Pipe::In)", "k.wait_for(Pipe::Out, Pipe::Vector)"] {
        assert!(text.contains(wait), "{text}");
    }
    assert!(report.errors().all(|error| error.witness.is_some()));
    let report = check(with_waits::record().unwrap());
    assert!(report.is_good(true), "{report}");
    assert_eq!(
        report.to_string(),
        "`with_waits` on Atlas A3, 1 block, 1 rank: no error, all of it checked\n   = in every order of units, cores and turns, with this tiling and `x` of 256 bytes, `y` of 256 bytes"
    );
}

/// Has a branch that depends on data, and a mistake after it.
#[kernel(mix = "aiv_1_0")]
fn behind_a_branch(k: Kernel<ReportTiling>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.reduce);
        let first = x.get(0);
        k.when(first.gt(0.0), || k.comment("positive"));
        let task = hccl.all_reduce(x, y, t.count * 2, Sum).commit_all();
        hccl.wait(&task);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

#[test]
fn what_depends_on_data_is_told_and_hides_nothing() {
    let kernel = behind_a_branch::record().unwrap();
    let report = kernel.check(&tiling(64), 2, 2, Product::A3, &[256, 256]);
    assert_eq!(rules(&report), ["bounds", "data"], "{report}");
    let report = kernel.check(&tiling(32), 2, 2, Product::A3, &[256, 256]);
    assert_eq!(rules(&report), ["data"], "{report}");
    assert!(report.is_good(false) && !report.is_good(true) && !report.is_complete());
    assert!(report.to_string().contains("no error, not all of it checked"), "{report}");
}

/// Sends workspace memory that no core has written.
#[kernel(mix = "aiv_1_0")]
fn sends_the_workspace(k: Kernel<ReportTiling>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    let _ = x;
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.reduce);
        let task = hccl.all_reduce(k.workspace::<f32>(0), y, t.count, Sum).commit_all();
        hccl.wait(&task);
        k.sync_all_aiv();
        hccl.finalise();
    });
}

#[test]
fn a_workspace_that_nobody_wrote_is_not_sent() {
    let kernel = sends_the_workspace::record().unwrap();
    let report = kernel.check(&tiling(64), 2, 4, Product::A3, &[256, 256, 4096]);
    assert_eq!(rules(&report), ["unwritten"], "{report}");
}

/// Lets two cores exchange blocks through the workspace. A flag of the unit `pipe` signals that the
/// blocks are there.
fn exchange_blocks(k: Kernel, y: Output<f32>, pipe: Pipe) {
    let w = k.workspace::<f32>(0);
    let out = k.queue::<f32>(Position::VecOut, 1, 32);
    let me = k.block_index().cast::<u64>();
    let a = out.alloc();
    k.fill(&a, 1.0, 32);
    out.enqueue(a);
    let a = out.dequeue();
    k.copy_out(w.at(me * 32), &a, 32);
    out.free(a);
    k.cross_core_set_flag(Mode::Kind, pipe, 8);
    k.cross_core_wait_flag(8);
    let both = k.queue::<f32>(Position::VecIn, 1, 32);
    let a = both.alloc();
    k.copy_in(&a, w.at((k.value(1u64) - me) * 32), 32);
    both.enqueue(a);
    let a = both.dequeue();
    let b = out.alloc();
    k.muls(&b, &a, 2.0, 32);
    both.free(a);
    out.enqueue(b);
    let b = out.dequeue();
    k.copy_out(y.at(me * 32), &b, 32);
    out.free(b);
}

#[kernel(mix = "aiv_1_0")]
fn with_a_flag_of_vectors(k: Kernel, y: Output<f32>) {
    exchange_blocks(k, y, Pipe::Vector);
}

#[kernel(mix = "aiv_1_0")]
fn with_a_flag_of_copies(k: Kernel, y: Output<f32>) {
    exchange_blocks(k, y, Pipe::Out);
}

/// Checks that a flag after the vector unit does not cover the copy out, which another unit makes.
#[test]
fn a_flag_is_of_one_unit() {
    let check = |kernel: Recorded<()>| kernel.check(&(), 2, 1, Product::A3, &[256, 4096]);
    let report = check(with_a_flag_of_vectors::record().unwrap());
    assert_eq!(rules(&report), ["race"], "{report}");
    let report = check(with_a_flag_of_copies::record().unwrap());
    assert!(report.is_good(true), "{report}");
}

#[test]
fn a_report_says_for_what_a_kernel_was_proved_good() {
    let report = with_waits::record().unwrap().check(&(), 1, 1, Product::A2, &[256, 512]);
    let text = report.to_string();
    let proved = "no error, all of it checked\n   = in every order of units, cores and turns, with this tiling and `x` of 256 bytes, `y` of 512 bytes";
    assert!(text.ends_with(proved), "{text}");
}

/// Lets a core wait for a tensor for ever, so that it does not reach the barrier.
#[kernel(mix = "aiv_1_0")]
fn hangs_for_a_reason(k: Kernel, y: Output<f32>) {
    k.when(k.block_index().lt(1), || k.sync_all_aiv());
    let queue = k.queue::<f32>(Position::VecOut, 1, 64);
    let a = queue.alloc();
    let b = queue.alloc();
    k.fill(&b, 1.0, 64);
    queue.free(a);
    queue.enqueue(b);
    let b = queue.dequeue();
    k.copy_out(y, &b, 64);
    queue.free(b);
}

#[test]
fn causes_come_before_what_they_may_have_caused() {
    let report = hangs_for_a_reason::record().unwrap().check(&(), 2, 1, Product::A2, &[256]);
    let rules = rules(&report);
    // The barrier comes before the queue in the source.
    let (queue, hang) = (
        rules.iter().position(|rule| *rule == "queue"),
        rules.iter().position(|rule| *rule == "hang"),
    );
    assert!(queue.is_some() && hang.is_some() && queue < hang, "{report}");
}

#[test]
fn sizes_that_are_not_given_are_told() {
    let report = with_waits::record().unwrap().check(&(), 1, 1, Product::A2, &[256]);
    assert!(report.is_good(false) && !report.is_complete());
    let text = report.to_string();
    assert!(
        text.ends_with(
            "\n   = bounds of y were not checked: no size was given; pass all sizes to `check`"
        ),
        "{text}"
    );
}

/// Copies as many elements as the first element of `x` says.
#[kernel(mix = "aiv_only")]
fn as_many_as_x_says(k: Kernel, x: Input<u32>, y: Output<u32>) {
    let a = k.scratch::<u32>(64).get();
    let count = x.get(0);
    k.copy_in(&a, x, count);
    k.wait_for(Pipe::Out, Pipe::In);
    k.copy_out(y, &a, count);
}

#[kernel(mix = "aiv_only")]
fn all_of_x(k: Kernel, x: Input<u32>, y: Output<u32>) {
    let a = k.scratch::<u32>(64).get();
    k.copy_in(&a, x, 64);
    k.wait_for(Pipe::Out, Pipe::In);
    k.copy_out(y, &a, 64);
}

/// Launches each kernel ten times. The work has the notes of its own launch, and a strict launch
/// succeeds only if it was checked.
#[test]
fn a_launch_says_what_was_not_checked() -> hccl::Result<()> {
    let runtime = runtime_with(1);
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[8_u32; 64], &stream)?;
    let mut y = device.zeros::<u32>(64, &stream)?;
    let mut some = as_many_as_x_says::record()?.load(&device)?;
    let mut all = all_of_x::record()?.load(&device)?;
    for _ in 0..10 {
        let work = some.launch(1).input(&x).output(&mut y).submit(&stream)?;
        let notes: Vec<_> = work.notes().iter().map(|note| (note.severity, note.rule)).collect();
        assert_eq!(notes, [(Severity::Note, "data"), (Severity::Note, "data")]);
        work.wait()?;
        let work = all.launch(1).input(&x).output(&mut y).strict().submit(&stream)?;
        assert_eq!(work.notes(), []);
        work.wait()?;
    }
    let refused = some.launch(1).input(&x).output(&mut y).strict().submit(&stream).unwrap_err();
    assert_eq!(refused.kind(), hccl::ErrorKind::Misuse);
    let text = refused.to_string();
    assert!(text.contains("parts of the kernel `as_many_as_x_says` cannot be checked"));
    assert!(text.contains("note[data]") && text.contains("reports.rs"), "{text}");
    // No part of the refused launch has run.
    y = device.zeros::<u32>(64, &stream)?;
    assert!(some.launch(1).input(&x).output(&mut y).strict().submit(&stream).is_err());
    assert_eq!(y.to_vec(&stream).wait()?, [0; 64]);
    Ok(())
}

/// Writes one of two outputs. An output that nothing writes is a warning, on the work and in the
/// report, unless the kernel allows it.
#[kernel(mix = "aiv_only")]
fn writes_one_of_two(k: Kernel, x: Input<u32>, y: Output<u32>, z: Output<u32>) {
    let a = k.scratch::<u32>(64).get();
    k.copy_in(&a, x, 64);
    k.wait_for(Pipe::Out, Pipe::In);
    k.copy_out(y, &a, 64);
    let _ = z;
}

#[kernel(mix = "aiv_only")]
fn may_write_one_of_two(k: Kernel, x: Input<u32>, y: Output<u32>, z: Output<u32>) {
    k.allow(Warning::NeverWritten, "`z` is for the next step");
    let a = k.scratch::<u32>(64).get();
    k.copy_in(&a, x, 64);
    k.wait_for(Pipe::Out, Pipe::In);
    k.copy_out(y, &a, 64);
    let _ = z;
}

#[test]
fn lost_work_is_a_warning_that_a_kernel_allows() -> hccl::Result<()> {
    let sizes = [256; 3];
    let report = writes_one_of_two::record()?.check(&(), 1, 1, Product::A2, &sizes);
    let warnings: Vec<_> = report.warnings().map(|warning| warning.rule).collect();
    assert_eq!(warnings, ["never-written"]);
    assert!(report.is_good(true), "a warning is no error: {report}");
    assert!(report.to_string().contains("no error, 1 warning, all of it checked"), "{report}");
    let kernel = may_write_one_of_two::record()?;
    let report = kernel.check(&(), 1, 1, Product::A2, &sizes);
    assert_eq!(report.findings().count(), 0, "{report}");
    assert!(kernel.to_string().contains("allows never-written: `z` is for the next step"));
    Ok(())
}

/// Adds two constants whose sum no `i32` can hold.
#[kernel(mix = "aiv_only")]
fn beyond(k: Kernel, y: Output<i32>) {
    y.set(0, k.value(i32::MAX) + 1);
    y.clean(0);
}

#[test]
fn a_sum_of_constants_that_is_too_large_ends_the_launch() -> hccl::Result<()> {
    let runtime = runtime_with(1);
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let mut y = device.zeros::<i32>(16, &stream)?;
    let mut loaded = beyond::record()?.load(&device)?;
    let launched = loaded.launch(1).output(&mut y).submit(&stream);
    let failed = launched.and_then(|work| work.wait()).unwrap_err().to_string();
    assert!(failed.contains("2147483647 + 1 is 2147483648"), "{failed}");
    Ok(())
}

#[test]
fn a_kernel_without_a_group_has_its_findings_on_every_rank() -> hccl::Result<()> {
    let report = without_a_queue::record()?.check(&(), 1, 4, Product::A3, &[256, 256]);
    assert_eq!(rules(&report), ["units", "units"]);
    assert!(!report.to_string().contains("on rank"), "{report}");
    Ok(())
}

#[kernel(mix = "aiv_only")]
fn largest_byte(k: Kernel) {
    let values = k.scratch::<u8>(64).get();
    k.reduce_max(&values, &values, &values, 64);
}

#[kernel(mix = "aiv_only")]
fn largest_long(k: Kernel) {
    let values = k.scratch::<i64>(64).get();
    k.reduce_max(&values, &values, &values, 64);
}

#[test]
fn the_maximum_is_recorded_for_the_types_that_the_checker_accepts_on_some_product() {
    assert!(largest_byte::record().is_ok());
    let refused = largest_long::record().unwrap_err().to_string();
    assert!(refused.contains("no product has `ReduceMax` for i64"), "{refused}");
}
