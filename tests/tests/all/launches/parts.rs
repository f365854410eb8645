//! Launches on parts of buffers.

use std::sync::mpsc;
use std::time::Duration;

use hccl::kernel::*;
use hccl::prelude::*;
use hccl_examples::kernels::*;

use super::{RANKS, a3, filled, halves, nothing_found, numbered, transposed};
use hccl::kernel::tiling::CmdType;
use hccl_tests::runtime_with;

/// Launches a kernel on slices. Element 0 of the kernel is the first of the slice, and elements
/// around the slice stay as they are.
#[test]
fn a_kernel_computes_in_slices() {
    let runtime = a3();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..100), &stream).unwrap();
    let mut z = device.upload(&halves([7; 100]), &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    // No part begins at a multiple of 32 bytes.
    for (count, x0, y0, z0) in [(50, 3, 49, 5), (1, 99, 98, 99), (33, 0, 67, 1)] {
        let tiling = vadd::VaddTiling { total: count, tile: 16 };
        let at = |start: usize| start..start + count as usize;
        let (first, second) = (x.slice(at(x0)).unwrap(), x.slice(at(y0)).unwrap());
        z.upload(&halves([7; 100]), &stream).unwrap();
        let launch = kernel.launch(3).tiling(&tiling).input(&first).input(second);
        let launch = launch.output(z.slice_mut(at(z0)).unwrap());
        launch.submit(&stream).unwrap().wait().unwrap();
        let mut expected = vec![7; 100];
        for n in 0..count {
            expected[z0 + n as usize] = x0 as u64 + y0 as u64 + 2 * n;
        }
        assert_eq!(z.to_vec(&stream).wait().unwrap(), halves(expected));
    }
    nothing_found(&runtime);
}

/// Checks that the end of a slice is the end of the tensor, also inside a buffer, for inputs and
/// outputs.
#[test]
fn a_kernel_stays_within_its_slices() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..100), &stream).unwrap();
    let mut z = device.zeros::<f16>(100, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let tiling = vadd::VaddTiling { total: 32, tile: 16 };
    for (read, written, problem) in [(31, 32, "`y`, which has 31"), (32, 31, "`z`, which has 31")] {
        let launch = kernel.launch(1).tiling(&tiling).input(&x).input(x.slice(..read).unwrap());
        let launch = launch.output(z.slice_mut(2..2 + written).unwrap());
        let refused = launch.submit(&stream).unwrap().wait().unwrap_err().to_string();
        assert!(refused.contains(problem), "{refused}");
    }
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&x);
    launch.output(z.slice_mut(50..).unwrap()).submit(&stream).unwrap().wait().unwrap();
    let found = z.to_vec(&stream).wait().unwrap();
    assert_eq!(found[..50], halves([0; 50]));
    assert_eq!(found[50..82], halves((0..32).map(|n| 2 * n)));
}

/// Covers the checks of slices before a launch.
#[test]
fn slices_are_checked_as_buffers_are() {
    let runtime = runtime_with(2);
    let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (stream, other_stream) = (device.stream().unwrap(), other.stream().unwrap());
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let wide = device.upload(&[1.0_f32; 16], &stream).unwrap();
    let elsewhere = other.upload(&halves(0..16), &other_stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let tiling = vadd::VaddTiling { total: 8, tile: 8 };
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(wide.slice(4..).unwrap());
    let refused = launch.output(&mut z).submit(&stream).map(drop).unwrap_err().to_string();
    assert!(refused.contains("an input `y` of f16, but an input of f32 was given"), "{refused}");
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(elsewhere.slice(4..).unwrap());
    let refused = launch.output(&mut z).submit(&stream).map(drop);
    assert!(matches!(refused, Err(hccl::Error::WrongDevice { .. })));
}

/// Checks that a launch is ordered after work that touches its part on another stream, but not
/// after work that touches another part.
#[test]
fn launches_wait_for_their_part_only() {
    let runtime = a3();
    let device = runtime.device(0).unwrap();
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let x = device.upload(&halves(0..64), &stream).unwrap();
    let mut z = device.zeros::<f16>(64, &stream).unwrap();
    stream.synchronize().unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let tiling = vadd::VaddTiling { total: 32, tile: 16 };
    let (mut first, mut second) = z.slice_mut(..).unwrap().split_at_mut(32).unwrap();
    // The other stream is blocked, and clears the first half after that.
    let (release, held) = mpsc::channel::<()>();
    let wait = move || held.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
    other.host_fn(wait).unwrap();
    first.fill_zero(&other).unwrap();
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(x.slice(32..).unwrap());
    launch.output(&mut second).submit(&stream).unwrap().wait().unwrap();
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(x.slice(32..).unwrap());
    let work = launch.output(&mut first).submit(&stream).unwrap();
    assert!(!work.is_done());
    release.send(()).unwrap();
    work.wait().unwrap();
    let sums = halves((0..32).map(|n| 2 * n + 32));
    assert_eq!(z.to_vec(&stream).wait().unwrap(), [sums.clone(), sums].concat());
    nothing_found(&runtime);
}

/// Lets the server move data within slices.
#[test]
fn a_kernel_communicates_in_slices() {
    let runtime = a3();
    let kernel = all_to_all::all_to_all_custom::record().unwrap();
    let run = |count: u64| {
        runtime.run_ranks(RANKS, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let tiling = all_to_all::AllToAllTiling { data_count: count, ..Tiling::zeroed() };
            let tiling = filled(tiling, CmdType::AllToAll, comm.name());
            let around = [halves([5; 3]), numbered(rank.index(), 512), halves([5; 7])].concat();
            let x = rank.device().upload(&around, &stream)?;
            let mut y = rank.device().zeros::<f16>(530, &stream)?;
            let mut loaded = kernel.load(rank.device())?;
            let launch = loaded.launch(2).tiling(&tiling).group(&mut comm);
            let launch = launch.input(x.slice(3..515)?).output(y.slice_mut(9..521)?);
            launch.submit(&stream)?.wait()?;
            y.to_vec(&stream).wait()
        })
    };
    for (found, expected) in run(128).unwrap().into_iter().zip(transposed(128)) {
        assert_eq!(found, [halves([0; 9]), expected, halves([0; 9])].concat());
    }
    let refused = run(129).unwrap_err().to_string();
    assert!(refused.contains("`x` for rank 3, but `x` has 512"), "{refused}");
    nothing_found(&runtime);
}
