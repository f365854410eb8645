//! Checked mode also checks kernels. If the check before the launch had to leave something out, the
//! check runs again when the kernel has ended, with the values that its cores have read.

use hccl::kernel::*;
use hccl_tests::own_devices;

/// Doubles 64 numbers if `counts` is not 0. There is no wait between the copies and the product, so
/// the copies and the product can race.
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

/// Doubles like `doubles_some`, with the waits that are missing there.
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

/// Launches the kernel twice with this number, checks the result, and returns the findings of
/// checked mode.
fn findings(kernel: &Recorded<()>, count: u32, checked: bool) -> hccl::Result<Vec<String>> {
    let runtime = own_devices().devices(1).checked(checked).build()?;
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
    assert!(text.contains("again.rs:15:") && text.contains("witness: "), "{text}");
    assert!(text.contains("help: call `k.wait_for(Pipe::Vector, Pipe::In)` in between"), "{text}");
    // No finding: nothing was doubled, the device has no checks, or the kernel waits.
    assert_eq!(findings(&kernel, 0, true)?, Vec::<String>::new());
    assert_eq!(findings(&kernel, 5, false)?, Vec::<String>::new());
    assert_eq!(findings(&waits_and_doubles_some::record()?, 5, true)?, Vec::<String>::new());
    Ok(())
}
