//! Launches and kernels that are refused, and the errors for them.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::ranks::slow;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl::prelude::*;
use hccl_examples::kernels::*;
use hccl_tests::{own_devices, runtime_with};
use std::sync::Arc;
use std::time::Duration;

use super::{RANKS, filled, halves, small};

/// Gives arguments that do not match those of the kernel. They are refused, and nothing is
/// launched.
#[test]
fn arguments_are_checked_before_a_launch() {
    let runtime = runtime_with(2);
    let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (stream, other_stream) = (device.stream().unwrap(), other.stream().unwrap());
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let elsewhere = other.upload(&halves(0..16), &other_stream).unwrap();
    let wide = device.upload(&[1.0_f32; 16], &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let tiling = vadd::VaddTiling { total: 16, tile: 16 };
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();

    let text = |result: hccl::Result<Work>| result.map(drop).unwrap_err().to_string();
    let launch = kernel.launch(1).tiling(&tiling).input(&x).output(&mut z);
    assert!(text(launch.submit(&stream)).contains("takes 3 tensors, but 2 were given"));
    let launch = kernel.launch(1).input(&x).input(&x).output(&mut z);
    assert!(text(launch.submit(&stream)).contains("give it with `.tiling(&..)`"));
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&wide).output(&mut z);
    let found = text(launch.submit(&stream));
    assert!(found.contains("an input `y` of f16, but an input of f32 was given"), "{found}");
    let launch = kernel.launch(0).tiling(&tiling).input(&x).input(&x).output(&mut z);
    assert!(text(launch.submit(&stream)).contains("0 blocks"));
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&elsewhere).output(&mut z);
    assert!(matches!(launch.submit(&stream), Err(hccl::Error::WrongDevice { .. })));
    stream.synchronize().unwrap();
}

/// Covers tiling structs that the server could not read or would misread, and values that a field
/// does not accept.
#[test]
fn a_tiling_struct_that_is_not_filled_for_the_product_is_refused() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut comm = Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap().remove(0);
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let kernel = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    let mut kernel = kernel.load(&device).unwrap();
    let good = reduce_scatter::ReduceScatterRoundsTiling {
        tile_num: 1,
        tile_len: 8,
        tail_num: 1,
        tail_len: 8,
        ..Tiling::zeroed()
    };
    let member = Mc2CcTilingConfig::builder()
        .group_name(comm.name())
        .op_type(CmdType::ReduceScatter)
        .source_type(DataType::F16)
        .build();
    let fill = |product| {
        let mut tiling = good;
        let init = Mc2InitTilingConfig::builder().product(product).build();
        init.fill(&mut tiling, std::slice::from_ref(&member)).unwrap();
        tiling
    };
    let far = reduce_scatter::ReduceScatterRoundsTiling { tile_num: 256, ..fill(Product::A3) };
    for (tiling, problem) in [
        (good, "was not filled: use `Mc2InitTilingConfig::fill`"),
        (fill(Product::A2), "was filled for the A2, but the device is of the product A3"),
        (far, "tile_num"),
    ] {
        let launch = kernel.launch(1).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
        let refused = launch.submit(&stream).map(drop).unwrap_err();
        assert!(matches!(refused, hccl::Error::Tiling(_)), "{refused}");
        assert!(refused.to_string().contains(problem), "{refused}");
    }
    let tiling = fill(Product::A3);
    let launch = kernel.launch(1).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
    launch.submit(&stream).unwrap().wait().unwrap();
    assert_eq!(y.to_vec(&stream).wait().unwrap(), halves(0..16));
}

/// Checks that no server waits for a kernel that was never launched.
#[test]
fn too_many_blocks_are_refused_before_the_server_is_launched() {
    let runtime = runtime_with(1);
    runtime.set_deadline(Duration::from_secs(20));
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut comm = Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap().remove(0);
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let kernel = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let mut kernel = kernel.load(&device).unwrap();
    let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 16, ..Tiling::zeroed() };
    let tiling = filled(tiling, CmdType::ReduceScatter, comm.name());
    for blocks in [65_536, 2] {
        let launch = kernel.launch(blocks).tiling(&tiling).group(&mut comm);
        match launch.input(&x).output(&mut y).submit(&stream) {
            Ok(work) => {
                assert_eq!(blocks, 2);
                work.wait().unwrap();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("65536 blocks: launch at most 65535"), "{text}");
            }
        }
    }
    assert_eq!(y.to_vec(&stream).wait().unwrap(), halves(0..16));
}

/// Checks that a kernel that would leave its tensor is stopped before its first block. The error
/// has the line.
#[test]
fn sizes_that_do_not_fit_come_back_from_the_work() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let tiling = vadd::VaddTiling { total: 1 << 12, tile: 16 };
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&x).output(&mut z);
    let error = launch.submit(&stream).and_then(|work| work.wait()).unwrap_err().to_string();
    assert!(error.contains("vadd.rs"), "{error}");
}

#[kernel(mix = "aiv_only")]
fn fills_workspace(k: Kernel, y: Output<u64>) {
    let all = k.workspace::<u64>(0);
    all.set(15, 7);
    all.clean(15);
    y.set(0, all.get(15));
    y.clean(0);
}

/// Launches a kernel with workspaces of several sizes. The last element that it uses is the 16th
/// one.
#[test]
fn a_workspace_that_is_too_small_is_told_with_the_line() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut y = device.zeros::<u64>(1, &stream).unwrap();
    let mut kernel = fills_workspace::record().unwrap().load(&device).unwrap();
    let error = kernel.launch(1).output(&mut y).submit(&stream).map(drop).unwrap_err();
    assert!(error.to_string().contains("uses its workspace"), "{error}");
    for (bytes, good) in [(127, false), (128, true)] {
        let mut workspace = device.zeros::<u8>(bytes, &stream).unwrap();
        let launch = kernel.launch(1).output(&mut y).workspace(&mut workspace);
        match launch.submit(&stream).and_then(|work| work.wait()) {
            Ok(()) => assert!(good, "{bytes} bytes"),
            Err(error) => {
                let text = error.to_string();
                assert!(!good && text.contains("refused.rs"), "{bytes} bytes: {text}");
                assert!(text.contains("elements 15..16 of `workspace`, which has 15"), "{text}");
            }
        }
    }
    assert_eq!(y.to_vec(&stream).wait().unwrap(), [7]);
}

/// Launches an exchange of blocks of different lengths, which the A2 does not have.
#[test]
fn a_kernel_for_another_product_is_refused_by_name() {
    let runtime = own_devices().devices(1).product(Product::A2).build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let comm = Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root);
    let mut comm = comm.build().wait().unwrap();
    let recorded = all_to_all_v::all_to_all_v_custom::record().unwrap();
    let mut kernel = recorded.load(&device).unwrap();
    // This tiling was filled for another product than that of the device.
    let other = filled(Tiling::zeroed(), CmdType::AllToAllV, comm.name());
    // For the A2 no tiling with this operation can be made.
    let mut tiling = all_to_all_v::AllToAllVTiling::zeroed();
    let member = Mc2CcTilingConfig::builder().group_name(comm.name()).op_type(CmdType::AllToAll);
    let init = Mc2InitTilingConfig::builder().product(Product::A2).build();
    init.fill(&mut tiling, &[member.build()]).unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let launch = kernel.launch(1).tiling(&tiling).group(&mut comm).input(&x).output(&mut y);
    let error = launch.submit(&stream).and_then(|work| work.wait()).unwrap_err().to_string();
    assert!(error.contains("A2 has no AlltoAllV"), "{error}");
    let launch = kernel.launch(1).tiling(&other).group(&mut comm).input(&x).output(&mut y);
    let error = launch.submit(&stream).map(drop).unwrap_err().to_string();
    assert!(error.contains("filled for a product other than the A2"), "{error}");
}

mod others {
    use hccl::kernel::*;

    /// A struct like that of `vadd`, with the two numbers exchanged.
    #[derive(Tiling)]
    #[repr(C)]
    pub struct VaddTiling {
        pub tile: u64,
        pub total: u64,
    }

    #[kernel(mix = "aiv_only")]
    pub fn vadd(k: Kernel<VaddTiling>, x: Input<f16>, y: Input<f16>, z: Output<f16>) {
        let _ = (x, y);
        z.set(0, z.get(k.tiling().tile));
    }

    use hccl::f16;

    #[kernel(mix = "aiv_only")]
    pub fn other(k: Kernel<super::vadd::VaddTiling>, x: Input<f16>, y: Output<f16>) {
        y.set(k.tiling().total, x.get(0));
    }
}

/// Launches a saved kernel like a newly recorded one, and checks that it is refused if its layout
/// or arguments do not match.
#[test]
fn a_saved_kernel_is_told_by_its_layout_and_arguments() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let recorded = vadd::vadd::record().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = recorded.load_saved(&device, &recorded.to_bytes()).unwrap();
    let tiling = vadd::VaddTiling { total: 16, tile: 16 };
    let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&x).output(&mut z);
    launch.submit(&stream).unwrap().wait().unwrap();
    assert_eq!(z.to_vec(&stream).wait().unwrap(), halves((0..16).map(|n| 2 * n)));

    let refused = |saved: &[u8], pieces: &[&str]| {
        let text = recorded.load_saved(&device, saved).map(drop).unwrap_err().to_string();
        for piece in pieces {
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        }
    };
    let with_another_struct = others::vadd::record().unwrap().to_bytes();
    let pieces = ["was recorded with another tiling struct", "layout hash 0x", "Record it again"];
    refused(&with_another_struct, &pieces);
    refused(&others::other::record().unwrap().to_bytes(), &["is `other`, not `vadd`"]);
    let mut renamed = others::other::record().unwrap().program().clone();
    renamed.name = "vadd".into();
    refused(&renamed.to_bytes(), &["has other arguments", "saved: input f16, output f16"]);
    refused(b"\x7fELF and more", &["not a recorded kernel", "load_object"]);
    let mut newer = recorded.to_bytes();
    newer[8] = 99;
    refused(&newer, &["has version 99"]);
    refused(&recorded.to_bytes()[..40], &["damaged"]);
    // SAFETY: the emulator accepts only recorded kernels.
    let text = unsafe { recorded.load_object(&device, b"\x7fELF and more") };
    let text = text.map(drop).unwrap_err().to_string();
    assert!(text.contains("recorded"), "{text}");
}

/// Checks that the error comes in every way to wait. In checked mode, events are the only sign of
/// completion.
#[test]
fn what_is_refused_is_an_error_where_races_are_looked_for() {
    let devices = own_devices().devices(1).checked(true);
    let runtime = devices.build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let far = vadd::VaddTiling { total: 1 << 12, tile: 16 };
    for asks in [false, true] {
        let launch = kernel.launch(1).tiling(&far).input(&x).input(&x).output(&mut z);
        let work = launch.submit(&stream).unwrap();
        if asks {
            while !work.is_done() {
                std::thread::yield_now();
            }
        }
        let error = work.wait().unwrap_err().to_string();
        assert!(error.contains("vadd.rs"), "{error}");
        stream.synchronize().unwrap();
    }
    let well = vadd::VaddTiling { total: 16, tile: 16 };
    let launch = kernel.launch(1).tiling(&well).input(&x).input(&x).output(&mut z);
    let work = launch.submit(&stream).unwrap();
    assert!(work.is_done());
    work.wait().unwrap();
    assert_eq!(z.to_vec(&stream).wait().unwrap(), halves((0..16).map(|n| 2 * n)));
}

/// Lets several threads wait for the work at once. Each gets the error: an answer for one thread is
/// not used for the next one.
#[test]
fn all_threads_that_ask_are_told_that_a_kernel_was_refused() {
    let devices = own_devices().devices(1).checked(true);
    let runtime = devices.build().unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut z = device.zeros::<f16>(16, &stream).unwrap();
    let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
    let far = vadd::VaddTiling { total: 1 << 12, tile: 16 };
    for round in 0..if slow() { 40 } else { 200 } {
        let mut submit = || {
            let launch = kernel.launch(1).tiling(&far).input(&x).input(&x).output(&mut z);
            launch.submit(&stream).unwrap()
        };
        // The tasks run when all threads wait.
        let start = Arc::new(Barrier::new(5));
        let begin = start.clone();
        stream.host_fn(move || begin.wait()).unwrap();
        let works = [submit(), submit()];
        std::thread::scope(|scope| {
            for asker in 0..4 {
                let (work, start) = (&works[asker % 2], start.clone());
                scope.spawn(move || {
                    start.wait();
                    if asker >= 2 {
                        while !work.is_done() {
                            std::hint::spin_loop();
                        }
                    }
                    assert!(work.wait().is_err(), "round {round}, asker {asker}");
                });
            }
        });
        stream.synchronize().unwrap();
    }
}

/// Checks that the server of a refused kernel does not wait for ever: the communicator has failed,
/// and all resources can be released.
#[test]
fn a_refused_kernel_says_why_and_leaves_no_server_waiting() {
    let kernel = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let runtime = runtime_with(RANKS as usize);
    let bounds = (8, 301, "reduce_scatter.rs");
    // 65 blocks are more than the emulator runs at a time.
    let cores = (65, 300, "65 blocks, whose cores wait for each other");
    for (blocks, recv_count, piece) in [bounds, cores] {
        let errors = runtime.run_ranks(RANKS, |rank| {
            let device = rank.device();
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let tiling = reduce_scatter::ReduceScatterTiling { recv_count, ..Tiling::zeroed() };
            let tiling = filled(tiling, CmdType::ReduceScatter, comm.name());
            let x = device.upload(&small(rank.index()), &stream)?;
            let mut y = device.zeros::<f16>(300, &stream)?;
            let mut loaded = kernel.load(device)?;
            let launch = loaded.launch(blocks).tiling(&tiling).group(&mut comm);
            let work = launch.input(&x).output(&mut y).submit(&stream)?;
            // The limit is too short for a report of a deadlock, which would end the server, too.
            let error = work.wait_timeout(Duration::from_secs(20)).unwrap_err();
            Ok::<_, hccl::Error>(error.to_string())
        });
        for error in errors.unwrap() {
            assert!(error.contains(piece), "{error}");
        }
    }
}

/// Checks that all ranks get the error if the output of one rank is too short.
#[test]
fn all_ranks_are_told_what_is_wrong_on_one() {
    let kernel = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let runtime = runtime_with(RANKS as usize);
    let errors = runtime.run_ranks(RANKS, |rank| {
        let device = rank.device();
        let stream = device.stream()?;
        let mut comm = rank.communicator()?;
        let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 300, ..Tiling::zeroed() };
        let tiling = filled(tiling, CmdType::ReduceScatter, comm.name());
        let x = device.upload(&small(rank.index()), &stream)?;
        let room = if rank.index() == 2 { 299 } else { 300 };
        let mut y = device.zeros::<f16>(room, &stream)?;
        let mut loaded = kernel.load(device)?;
        let launch = loaded.launch(8).tiling(&tiling).group(&mut comm);
        let work = launch.input(&x).output(&mut y).submit(&stream)?;
        Ok::<_, hccl::Error>(work.wait().unwrap_err().to_string())
    });
    for error in errors.unwrap() {
        let all = ["`y` has 299 elements", "reduce_scatter.rs:"];
        assert!(all.iter().all(|piece| error.contains(piece)), "{error}");
    }
}

/// Checks that a launch needs as many communicators as the kernel has groups.
#[test]
fn a_kernel_with_a_client_is_not_launched_without_a_communicator() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&halves(0..16), &stream).unwrap();
    let mut y = device.zeros::<f16>(16, &stream).unwrap();
    let recorded = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let mut kernel = recorded.load(&device).unwrap();
    let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 16, ..Tiling::zeroed() };
    let launch = kernel.launch(1).tiling(&tiling).input(&x).output(&mut y);
    let error = launch.submit(&stream).map(drop).unwrap_err().to_string();
    assert!(error.contains("takes part in 1 group, but 0 communicators were given"), "{error}");
}
