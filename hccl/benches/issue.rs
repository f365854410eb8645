//! What issuing an operation costs on top of the C call: `cargo bench -p hccl --bench issue`.
//!
//! Each line is the best of many short batches, in nanoseconds for one call, on one idle stream of the emulator. The batches
//! of all lines take turns, so that a change of the machine's speed meets all of them; a batch is short, so that some of them
//! are not interrupted.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;

use ascend_sys::aclrtMemcpyKind;
use hccl::Runtime;

const CALLS: u32 = 500;
const BATCHES: u32 = 4000;

struct Line<'a> {
    name: &'static str,
    call: Box<dyn FnMut(u32) + 'a>,
    best: f64,
}

impl<'a> Line<'a> {
    /// `call` makes so many calls.
    fn new(name: &'static str, call: impl FnMut(u32) + 'a) -> Self {
        Self { name, call: Box::new(call), best: f64::INFINITY }
    }
}

fn main() -> hccl::Result<()> {
    let runtime = Runtime::emulator(1)?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[1.0_f32; 16], &stream)?;
    let mut y = device.zeros::<f32>(16, &stream)?;
    let w = device.zeros::<f32>(16, &stream)?;
    let mut z = device.zeros::<f32>(16, &stream)?;
    stream.synchronize()?;

    let table = ascend_emulator::table();
    let copy = table.aclrtMemcpyAsync.expect("the emulator copies");
    let create = table.aclrtCreateStream.expect("the emulator has streams");
    let current = table.aclrtGetCurrentContext.expect("the emulator has contexts");
    let mut raw_stream: *mut c_void = std::ptr::null_mut();
    // SAFETY: the out parameter is a live local; the device is current since it was opened on this thread.
    assert_eq!(unsafe { create(&mut raw_stream) }, 0);
    let (to, from) = (w.as_ptr(), x.as_ptr());
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
    let mut context: *mut c_void = std::ptr::null_mut();

    let mut lines = [
        Line::new("aclrtMemcpyAsync, 64 bytes", |calls| {
            for _ in 0..calls {
                // SAFETY: both buffers have 64 bytes and outlive the loop; nobody else writes the one or uses the other.
                black_box(unsafe { copy(to, 64, from, 64, kind, raw_stream) });
            }
        }),
        Line::new("aclrtGetCurrentContext", |calls| {
            for _ in 0..calls {
                // SAFETY: the out parameter is a live local.
                assert_eq!(unsafe { current(black_box(&mut context)) }, 0);
            }
        }),
        Line::new("copy_from, Work dropped", |calls| {
            for _ in 0..calls {
                black_box(y.copy_from(&x, &stream)).expect("the copy is issued");
            }
        }),
        Line::new("copy_from, Work waited for", |calls| {
            for _ in 0..calls {
                z.copy_from(&x, &stream).and_then(|work| work.wait()).expect("the copy is done");
            }
        }),
    ];
    for _ in 0..BATCHES {
        for line in &mut lines {
            let start = Instant::now();
            (line.call)(CALLS);
            line.best = line.best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
        }
    }
    for line in &lines {
        println!("{:<30} {:7.1} ns", line.name, line.best);
    }
    let [raw, _, issued, waited] = lines.each_ref().map(|line| line.best);
    println!("on top: {:.1} ns issued, {:.1} ns issued and waited for", issued - raw, waited - raw);
    Ok(())
}
