//! What issuing an operation costs on top of the C call: `cargo bench -p hccl --bench issue`.
//!
//! Each line is the best of 20 rounds, in nanoseconds for one call, on one idle stream of the emulator.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;

use ascend_sys::aclrtMemcpyKind;
use hccl::Runtime;

const CALLS: u32 = 100_000;

fn best(name: &str, mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    println!("{name:<44} {best:7.1} ns");
    best
}

fn main() -> hccl::Result<()> {
    let runtime = Runtime::emulator(1)?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[1.0_f32; 16], &stream)?;
    let mut y = device.zeros::<f32>(16, &stream)?;
    stream.synchronize()?;

    let table = ascend_emulator::table();
    let copy = table.aclrtMemcpyAsync.expect("the emulator copies");
    let create = table.aclrtCreateStream.expect("the emulator has streams");
    let mut raw_stream: *mut c_void = std::ptr::null_mut();
    // SAFETY: the out parameter is a live local; the device is current since it was opened on this thread.
    assert_eq!(unsafe { create(&mut raw_stream) }, 0);
    let (to, from) = (y.as_ptr(), x.as_ptr());
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
    let raw = best("aclrtMemcpyAsync, 64 bytes", || {
        // SAFETY: both buffers have 64 bytes and outlive the loop; nobody else uses them meanwhile.
        black_box(unsafe { copy(to, 64, from, 64, kind, raw_stream) });
    });
    let current = table.aclrtGetCurrentContext.expect("the emulator has contexts");
    let mut context: *mut c_void = std::ptr::null_mut();
    // SAFETY: the out parameter is a live local.
    best("aclrtGetCurrentContext", || assert_eq!(unsafe { current(black_box(&mut context)) }, 0));
    let safe = best("copy_from, Work dropped", || {
        black_box(y.copy_from(&x, &stream)).expect("the copy is issued");
    });
    let waited = best("copy_from, Work waited for", || {
        y.copy_from(&x, &stream).and_then(|work| work.wait()).expect("the copy is done");
    });
    println!("on top: {:.1} ns issued, {:.1} ns issued and waited for", safe - raw, waited - raw);
    Ok(())
}
