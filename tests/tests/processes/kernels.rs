//! Kernels that communicate, on ranks in several processes.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use hccl::dtype::ReduceKind;
use hccl::f16;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::{Recorded, Tiling};
use hccl::prelude::*;
use hccl_examples::kernels::all_to_all::{AllToAllTiling, all_to_all_custom};
use hccl_examples::kernels::reduce_scatter::{ReduceScatterRoundsTiling, reduce_scatter_rounds};

use crate::ranks::{Place, Processes, is_rank, names_the_dead, run};

/// The numbers of ranks in each process: one process for each rank, or processes mixed with
/// threads.
const MIXES: [&[u32]; 4] = [&[1, 1], &[1, 1, 1], &[2, 1], &[1, 3]];

mod windows {
    use hccl::kernel::*;

    #[derive(Clone, Copy, Tiling)]
    #[repr(C)]
    pub struct Sizes {
        pub init: Mc2InitTiling,
        pub sum: Mc2CcTiling,
        pub count: u64,
    }

    /// Writes to the input window of the next rank, and returns the data that the rank before has
    /// written. The ranks wait for a sum in between.
    #[kernel(mix = "aiv_1_0")]
    pub fn pass_on(k: Kernel<Sizes>, x: Input<f32>, flag: Output<f32>, y: Output<f32>) {
        let t = k.tiling();
        k.on_aiv(|| {
            let hccl = k.hccl(0).init().configure(&t.sum);
            let next = (hccl.rank() + 1) % hccl.ranks();
            let a = k.scratch::<f32>(64).get();
            k.copy_in(&a, x, 64);
            k.wait_for(Pipe::Out, Pipe::In);
            k.copy_out(hccl.window_in::<f32>(next), &a, 64);
            k.wait_for(Pipe::Scalar, Pipe::Out);
            let task = hccl.all_reduce(x, flag, t.count, Sum).commit_all();
            hccl.wait(&task);
            k.wait_for(Pipe::In, Pipe::Scalar);
            k.copy_in(&a, hccl.window_in::<f32>(hccl.rank()).as_input(), 64);
            k.wait_for(Pipe::Out, Pipe::In);
            k.copy_out(y, &a, 64);
            k.sync_all_aiv();
            hccl.finalise();
        });
    }

    /// Writes to its own output window, and returns the contents of all ranks' output windows,
    /// which it reads in place.
    #[kernel(mix = "aiv_1_0")]
    pub fn look_at_all(k: Kernel<Sizes>, x: Input<f32>, flag: Output<f32>, y: Output<f32>) {
        let t = k.tiling();
        k.on_aiv(|| {
            let hccl = k.hccl(0).init().configure(&t.sum);
            let a = k.scratch::<f32>(64).get();
            k.copy_in(&a, x, 64);
            k.wait_for(Pipe::Out, Pipe::In);
            k.copy_out(hccl.window_out::<f32>(hccl.rank()), &a, 64);
            k.wait_for(Pipe::Scalar, Pipe::Out);
            let task = hccl.all_reduce(x, flag, t.count, Sum).commit_all();
            hccl.wait(&task);
            k.range(..hccl.ranks(), |rank| {
                k.wait_for(Pipe::In, Pipe::Scalar);
                k.copy_in(&a, hccl.window_out::<f32>(rank).as_input(), 64);
                k.wait_for(Pipe::Out, Pipe::In);
                k.copy_out(y.at(rank.cast::<u64>() * 64), &a, 64);
                k.wait_for(Pipe::Scalar, Pipe::Out);
            });
            k.sync_all_aiv();
            hccl.finalise();
        });
    }
}

/// Returns a tiling struct with its communication filled in.
pub fn filled<T: Tiling>(mut tiling: T, operation: CmdType, dtype: DataType, group: &str) -> T {
    let config = Mc2CcTilingConfig::builder().group_name(group).op_type(operation);
    let config = config.source_type(dtype);
    let member = match operation {
        CmdType::AllReduce | CmdType::ReduceScatter => config.reduce_op(ReduceKind::Sum).build(),
        _ => config.build(),
    };
    let init = Mc2InitTilingConfig::builder().product(Product::A3).build();
    init.fill(&mut tiling, &[member]).unwrap();
    tiling
}

fn halves(numbers: impl IntoIterator<Item = u32>) -> Vec<f16> {
    numbers.into_iter().map(|number| f16::from_f32(number as f32)).collect()
}

/// Launches [`all_to_all_custom`] and compares the results.
pub fn exchange(place: &Place, comm: &mut Communicator, each: u32) -> hccl::Result<()> {
    let (device, me, ranks) = (&place.device, place.rank, place.ranks);
    let stream = device.stream()?;
    let tiling = AllToAllTiling { data_count: each.into(), ..Tiling::zeroed() };
    let tiling = filled(tiling, CmdType::AllToAll, DataType::F16, comm.name());
    let value = |from: u32, to: u32, at: u32| 100 * from + 10 * to + at % 10;
    let sent = (0..ranks).flat_map(|to| (0..each).map(move |at| value(me, to, at)));
    let x = device.upload(&halves(sent), &stream)?;
    let mut y = device.zeros::<f16>((ranks * each) as usize, &stream)?;
    let mut kernel = all_to_all_custom::record()?.load(device)?;
    for _ in 0..2 {
        let launch = kernel.launch(8).tiling(&tiling).group(comm);
        launch.input(&x).output(&mut y).submit(&stream)?.wait()?;
    }
    let expected = (0..ranks).flat_map(|from| (0..each).map(move |at| value(from, me, at)));
    assert_eq!(y.to_vec(&stream).wait()?, halves(expected));
    Ok(())
}

#[test]
fn a_turn_moves_blocks_between_kernels_of_all_processes() {
    for each in MIXES {
        run("kernels::a_turn_moves_blocks_between_kernels_of_all_processes", each, |place| {
            let mut comm = place.communicator();
            // A small exchange sends its data together with the arrival, and a large one does not.
            exchange(&place, &mut comm, 16).unwrap();
            exchange(&place, &mut comm, 4096).unwrap();
        });
    }
}

#[test]
fn rounds_of_a_kernel_reduce_what_the_ranks_of_all_processes_have() {
    for each in MIXES {
        run(
            "kernels::rounds_of_a_kernel_reduce_what_the_ranks_of_all_processes_have",
            each,
            |place| {
                let (device, ranks) = (&place.device, place.ranks);
                let stream = device.stream().unwrap();
                let mut comm = place.communicator();
                let tiling =
                    ReduceScatterRoundsTiling { tile_len: 128, tail_len: 44, ..Tiling::zeroed() };
                let mut tiling = filled(tiling, CmdType::ReduceScatter, DataType::F16, comm.name());
                tiling.set_tile_num(2).unwrap().set_tail_num(1).unwrap();
                let x = halves((0..ranks * 300).map(|at| place.rank + at % 100));
                let x = device.upload(&x, &stream).unwrap();
                let mut y = device.zeros::<f16>(300, &stream).unwrap();
                let mut kernel = reduce_scatter_rounds::record().unwrap().load(device).unwrap();
                let launch = kernel.launch(8).tiling(&tiling).group(&mut comm);
                launch.input(&x).output(&mut y).submit(&stream).unwrap().wait().unwrap();
                let all: u32 = (0..ranks).sum();
                let sum = |at| all + ranks * ((place.rank * 300 + at) % 100);
                assert_eq!(y.to_vec(&stream).wait().unwrap(), halves((0..300).map(sum)));
            },
        );
    }
}

/// Returns the communicator, the kernel and the tiling struct for one of [`windows`].
fn with_windows(place: &Place, recorded: &Recorded<windows::Sizes>) -> Windowed {
    let comm = place.communicator();
    let tiling = windows::Sizes { count: 64, ..Tiling::zeroed() };
    let tiling = filled(tiling, CmdType::AllReduce, DataType::F32, comm.name());
    let kernel = recorded.load(&place.device).unwrap();
    Windowed { comm, kernel, tiling }
}

struct Windowed {
    comm: Communicator,
    kernel: hccl::kernel::Loaded<windows::Sizes>,
    tiling: windows::Sizes,
}

impl Windowed {
    /// Launches the kernel on 64 times the same number, and returns the result.
    fn launch(&mut self, place: &Place, number: f32) -> hccl::Result<Vec<f32>> {
        let stream = place.device.stream()?;
        let x = place.device.upload(&[number; 64], &stream)?;
        let mut flag = place.device.zeros::<f32>(64, &stream)?;
        let mut y = place.device.zeros::<f32>(64 * place.ranks as usize, &stream)?;
        let launch = self.kernel.launch(1).tiling(&self.tiling).group(&mut self.comm);
        launch.input(&x).output(&mut flag).output(&mut y).submit(&stream)?.wait()?;
        // The windows are in use until here.
        self.comm.barrier(&stream)?.wait()?;
        y.to_vec(&stream).wait()
    }
}

#[test]
fn what_a_kernel_writes_to_a_window_is_in_the_memory_of_the_other_process() {
    const NAME: &str =
        "kernels::what_a_kernel_writes_to_a_window_is_in_the_memory_of_the_other_process";
    for each in MIXES {
        run(NAME, each, |place| pass_on(&place));
    }
}

/// Tests that each rank writes to a window of the next one.
pub fn pass_on(place: &Place) {
    let mut all = with_windows(place, &windows::pass_on::record().unwrap());
    for turn in 0..5 {
        let number = |rank: u32| (10 * turn + rank) as f32;
        let found = all.launch(place, number(place.rank)).unwrap();
        let before = (place.rank + place.ranks - 1) % place.ranks;
        assert_eq!(found[..64], [number(before); 64]);
    }
}

#[test]
fn a_kernel_reads_the_windows_of_ranks_in_all_processes() {
    for each in MIXES {
        run("kernels::a_kernel_reads_the_windows_of_ranks_in_all_processes", each, |place| {
            look_at_all(&place)
        });
    }
}

/// Tests that each rank reads the windows of all ranks.
pub fn look_at_all(place: &Place) {
    let mut all = with_windows(place, &windows::look_at_all::record().unwrap());
    let found = all.launch(place, 7.0 + place.rank as f32).unwrap();
    let expected = (0..place.ranks).flat_map(|rank| [7.0 + rank as f32; 64]);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn a_window_of_a_rank_that_has_left_is_not_written_any_more() {
    run("kernels::a_window_of_a_rank_that_has_left_is_not_written_any_more", &[1, 1], |place| {
        let mut all = with_windows(&place, &windows::pass_on::record().unwrap());
        all.launch(&place, 1.0).unwrap();
        if place.rank == 1 {
            return;
        }
        while all.comm.barrier(&place.device.stream().unwrap()).and_then(|it| it.wait()).is_ok() {}
        let error = all.launch(&place, 2.0).unwrap_err();
        assert_eq!(error.gone_ranks(), [1], "{error}");
    });
}

/// Runs tasks that differ only in the announcements of the kernels. The values that a turn compares
/// are the same on both ranks.
#[test]
fn tasks_that_differ_are_shown_with_both_sides_in_all_processes() {
    for each in [&[1, 1][..], &[2, 1]] {
        run(
            "kernels::tasks_that_differ_are_shown_with_both_sides_in_all_processes",
            each,
            |place| {
                let device = &place.device;
                let stream = device.stream().unwrap();
                let mut comm = place.communicator();
                // The total is the same on both ranks, and all blocks have the same size.
                let (tiles, tails) = if place.rank == 0 { (1, 2) } else { (2, 1) };
                let tiling =
                    ReduceScatterRoundsTiling { tile_len: 64, tail_len: 64, ..Tiling::zeroed() };
                let mut tiling = filled(tiling, CmdType::ReduceScatter, DataType::F16, comm.name());
                tiling.set_tile_num(tiles).unwrap().set_tail_num(tails).unwrap();
                let x = device.zeros::<f16>(place.ranks as usize * 192, &stream).unwrap();
                let mut y = device.upload(&halves([9; 192]), &stream).unwrap();
                let mut kernel = reduce_scatter_rounds::record().unwrap().load(device).unwrap();
                let launch = kernel.launch(1).tiling(&tiling).group(&mut comm);
                let error = launch.input(&x).output(&mut y).submit(&stream).unwrap().wait();
                let error = error.unwrap_err();
                let text = error.to_string();
                for piece in ["have prepared different tasks", "repeat 1", "repeat 2"] {
                    assert!(text.contains(piece), "{piece}: {text}");
                }
                // Nothing has been moved, either.
                assert_eq!(y.to_vec(&stream).wait().unwrap(), halves([9; 192]));
            },
        );
    }
}

#[test]
fn kernels_that_wait_for_a_process_that_was_killed_end_and_name_its_rank() {
    const NAME: &str =
        "kernels::kernels_that_wait_for_a_process_that_was_killed_end_and_name_its_rank";
    let body = |place: Place| {
        let mut comm = place.communicator();
        exchange(&place, &mut comm, 64).unwrap();
        comm.barrier(&place.device.stream().unwrap()).unwrap().wait().unwrap();
        if place.rank == 1 {
            println!("all are there");
            std::thread::sleep(Duration::from_secs(60));
        }
        let error = exchange(&place, &mut comm, 64).unwrap_err();
        names_the_dead(&error, 1);
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let mut processes = Processes::start(NAME, &[1, 1, 1]);
    let out = processes.children[1].stdout.take().unwrap();
    assert!(BufReader::new(out).lines().any(|line| line.unwrap().contains("all are there")));
    std::thread::sleep(Duration::from_millis(200));
    processes.children[1].kill().unwrap();
    let outputs = processes.outputs();
    for rank in [0, 2] {
        let err = String::from_utf8_lossy(&outputs[rank].stderr);
        assert!(outputs[rank].status.success(), "rank {rank}: {err}");
    }
}

/// Checks that a rank that launches nothing delays the other ranks until their limit. The error
/// names it.
#[test]
fn a_rank_of_another_process_that_launches_nothing_is_named() {
    run(
        "kernels::a_rank_of_another_process_that_launches_nothing_is_named",
        &[1, 1],
        |mut place| {
            // This rank waits as long as the other ranks need.
            let (mut end, patient) = (place.communicator(), place.device.stream().unwrap());
            let limit = Duration::from_secs(3);
            let runtime =
                Runtime::emulator_builder().devices(2).exec_timeout(limit).build().unwrap();
            place.device = runtime.device(place.rank as usize).unwrap();
            let mut comm = place.communicator();
            exchange(&place, &mut comm, 64).unwrap();
            if place.rank == 0 {
                let error = exchange(&place, &mut comm, 64).unwrap_err();
                let text = error.to_string();
                assert!(text.contains("rank 1 to come to the same task"), "{text}");
            }
            // A rank that leaves would be reported as gone.
            end.barrier(&patient).unwrap().wait().unwrap();
        },
    );
}
