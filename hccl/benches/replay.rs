//! Measures the time that a replay saves: `cargo bench -p hccl --bench replay`.
//!
//! It issues twenty operations one by one, and the same twenty as a replay of a graph, on one idle
//! stream of the emulator. The operations are small, so issuing takes most of the time. Batches of
//! both ways take turns. Each figure is the best time for all twenty, in nanoseconds.

use std::hint::black_box;
use std::time::Instant;

use hccl::prelude::*;

const OPERATIONS: usize = 20;
const STEPS: u32 = 50;
const BATCHES: u32 = 2000;

/// Returns the best time of a step for each of the two ways, in nanoseconds.
fn race(mut one_by_one: impl FnMut(), mut replay: impl FnMut()) -> [f64; 2] {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..BATCHES {
        for (way, best) in best.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..STEPS {
                if way == 0 { one_by_one() } else { replay() }
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(STEPS));
        }
    }
    best
}

fn report(what: &str, [one_by_one, replay]: [f64; 2]) {
    println!(
        "{OPERATIONS} x {what:<28} one by one {one_by_one:7.0} ns, one replay {replay:7.0} ns, ratio {:.2}",
        one_by_one / replay
    );
}

fn main() -> hccl::Result<()> {
    let runtime = Runtime::emulator(1)?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[1.0_f32; 16], &stream)?;
    let mut y = device.zeros::<f32>(16, &stream)?;

    let capture = device.begin_capture()?;
    for _ in 0..OPERATIONS {
        y.copy_from(&x, &capture)?;
    }
    let mut graph = capture.end()?;
    let copies = race(
        || {
            for _ in 0..OPERATIONS {
                black_box(y.copy_from(&x, &stream)).expect("the copy is issued");
            }
        },
        || drop(black_box(graph.replay(&stream)).expect("the graph is replayed")),
    );
    report("copy_from of 64 bytes", copies);

    let root = RootInfo::new(&device)?;
    let comm = Communicator::builder().device(&device).rank(0).world_size(1);
    let mut comm = comm.root_info(&root).build().wait()?;
    let capture = device.begin_capture()?;
    for _ in 0..OPERATIONS {
        comm.all_reduce(&x, &mut y, Sum, &capture)?;
    }
    let mut graph = capture.end()?;
    let reductions = race(
        || {
            for _ in 0..OPERATIONS {
                black_box(comm.all_reduce(&x, &mut y, Sum, &stream)).expect("it is issued");
            }
        },
        || drop(black_box(graph.replay(&stream)).expect("the graph is replayed")),
    );
    report("all_reduce of 16 floats", reductions);
    Ok(())
}
