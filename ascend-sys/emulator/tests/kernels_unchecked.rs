//! What becomes of kernels that can never finish, when nobody has checked them first.
mod common;
mod kernel;
mod ranks;

use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Core, Mix, Program};
use ascend_sys::*;
use common::{Block, message};
use kernel::build::Builder;
use kernel::*;
use ranks::{Rank, on_block};
use std::sync::Once;
use std::time::{Duration, Instant};

const INT32: u32 = 2;

/// Kernels run whatever the checker would say.
fn unchecked() {
    static ONCE: Once = Once::new();
    // SAFETY: before anything else in this program reads the environment: every test begins here.
    ONCE.call_once(|| unsafe { std::env::set_var("ASCEND_EMULATOR_KERNELS", "unchecked") });
}

fn on_ranks<R: Send>(ranks: u32, run: impl Fn(&mut Rank) -> R + std::marker::Sync) -> Vec<R> {
    unchecked();
    on_block(AscendExtBlockConfig { deviceCount: ranks, ..Block::config() }, |rank| {
        rank.join();
        run(rank)
    })
}

/// Runs a program as it is on two ranks, with or without servers; gives how kernel and server ended.
fn run(
    program: impl Fn(u32) -> Program + std::marker::Sync,
    served: [bool; 2],
) -> Vec<[(i32, String); 2]> {
    on_ranks(2, |rank| {
        let ready = Ready::new(rank, &program(rank.rank), &[REDUCE_SCATTER]);
        let (x, y) = (rank.upload(&[0; 4096]), rank.upload(&[0; 4096]));
        let given = served[rank.rank as usize];
        if given {
            ready.serve();
        }
        ready.run(rank, 2, &[x, y]);
        let kernel = rank.sync_fails();
        let server = call!(aclrtSynchronizeStream(ready.stream));
        [kernel, (server, message())]
    })
}

fn calls(change: impl Fn(&mut Vec<Call>)) -> Program {
    let mut calls = vec![Call::new(REDUCE_SCATTER, 0, 64, 128, 2)];
    change(&mut calls);
    kernel(&calls, Number::I32, INT32)
}

/// A reduce-scatter of two turns, and then what a test wants.
fn custom(
    body: impl Fn(&mut Builder, ascend_program::ClientId, ascend_program::TaskId),
) -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let (x, y) = (b.input("x", Number::I32), b.output("y", Number::I32));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[REDUCE_SCATTER]);
        let task = b.task("tiles", client);
        let call = Call::new(REDUCE_SCATTER, 0, 64, 128, 2);
        let operation = operation(b, &call, x, y, INT32);
        b.prepare(task, operation, 2, false);
        body(b, client, task);
    });
    b.done()
}

#[test]
fn a_server_that_was_never_launched_is_named() {
    let start = Instant::now();
    let ended = run(|_| calls(|_| ()), [true, false]);
    let (code, text) = &ended[1][0];
    assert_eq!(*code, ACL_ERROR_RT_TASK_TIMEOUT, "{text}");
    assert!(text.starts_with("the server of rank 1 was never launched"), "{text}");
    assert!(text.contains("RunAicpuKfcSrvLaunch") && text.contains("kernel.rs:"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_ne!(ended[0][0].0, 0, "{:?}", ended[0]);
    assert_ne!(ended[0][1].0, 0, "{:?}", ended[0]);
}

#[test]
fn a_missing_commit_ends_all_ranks_with_the_state_of_cores_and_server() {
    let program = |rank| {
        custom(move |b, client, task| {
            b.commit(task);
            if rank == 0 {
                b.commit(task);
            }
            b.times(2, |b| b.wait(task));
            b.sync_vectors();
            b.finalize(client);
        })
    };
    let start = Instant::now();
    let ended = run(program, [true, true]);
    let (_, text) = &ended[1][0];
    assert!(text.starts_with("the kernel can never finish"), "{text}");
    for piece in [
        "AIV 0",
        "waits in Finalize for turn 2 of task 0",
        "committed 1, finished 1",
        "waits for the Commit of turn 2 of 2 of task 0, tiles (ReduceScatter, src/kernel.rs:",
        "on stream",
    ] {
        assert!(text.contains(piece), "{piece:?} is not in: {text}");
    }
    // The others learn who is to blame, and nobody waits for a time limit.
    let (code, text) = &ended[0][0];
    assert!(*code != 0 && text.contains("rank 1"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_wait_without_a_commit_returns_at_once() {
    // As on hardware: -1, which nobody looks at. What hangs is Finalize.
    let program = |_| {
        custom(|b, client, task| {
            b.wait(task);
            b.sync_vectors();
            b.finalize(client);
        })
    };
    // Whoever comes second may hear of the other first.
    let ended = run(program, [true, true]);
    let texts: Vec<_> = ended.iter().map(|rank| rank[0].1.as_str()).collect();
    let texts = texts.join("\n");
    assert!(texts.contains("waits in Finalize for turn 2 of task 0"), "{texts}");
    assert!(texts.contains("committed 0, finished 0"), "{texts}");
}

#[test]
fn kernels_that_prepare_different_tasks_are_told_both_sides() {
    let ended = run(|rank| calls(|calls| calls[0].stride += u64::from(rank)), [true, true]);
    for rank in ended {
        let text = format!("{}\n{}", rank[0].1, rank[1].1);
        for piece in ["different tasks", "stride 128", "stride 129", "repeat 2", "kernel.rs:"] {
            assert!(text.contains(piece), "{piece:?} is not in: {text}");
        }
    }
}

#[test]
fn bytes_beyond_a_buffer_end_the_launch_with_the_line() {
    let ended = run(|_| calls(|calls| calls[0].repeat = 15), [true, true]);
    for rank in ended {
        let text = format!("{}\n{}", rank[0].1, rank[1].1);
        assert!(text.contains("beyond the end of its allocation"), "{text}");
        assert!(text.contains("kernel.rs:") && text.contains("turn 15"), "{text}");
    }
}

/// An all-reduce in each of two groups, the one of the second into a buffer that ends too early on rank 1.
#[test]
fn a_server_that_fails_in_one_of_two_groups_ends_the_kernels_of_both() {
    let mut b = Builder::new(Mix::MixAiv10);
    let x = b.input("x", Number::I32);
    let [y, z] = ["y", "z"].map(|name| b.output(name, Number::I32));
    b.on(Core::Aiv, |b| {
        let clients = two_clients(b);
        let tasks = [("first", y), ("second", z)].into_iter().zip(clients).map(|(task, client)| {
            let (name, to) = task;
            let task = b.task(name, client);
            let operation = operation(b, &Call::new(ALL_REDUCE, 0, 64, 0, 1), x, to, INT32);
            b.prepare(task, operation, 1, true);
            task
        });
        let tasks: Vec<_> = tasks.collect();
        tasks.into_iter().for_each(|task| b.wait(task));
        b.sync_vectors();
        clients.into_iter().for_each(|client| b.finalize(client));
    });
    let program = b.done();
    let mut second = HcclRootInfo::default();
    hccl!(HcclGetRootInfo(&mut second));
    let start = Instant::now();
    let ended = on_ranks(2, |rank| {
        let mut other = std::ptr::null_mut();
        hccl!(HcclCommInitRootInfo(2, &second, rank.rank, &mut other));
        let room = if rank.rank == 1 { 128 } else { 256 };
        let [x, y, z] = [256, 256, room].map(|bytes| rank.upload(&vec![1; bytes]));
        let operations = [ALL_REDUCE; 2];
        let server = launch_for_two(rank, other, &program, operations, &[x, y, z]);
        let kernel = rank.sync_fails();
        let served = call!(aclrtSynchronizeStream(server));
        let served = (served, message());
        // Communicators of both groups can go.
        hccl!(HcclCommDestroy(other));
        hccl!(HcclCommDestroy(rank.comm));
        [kernel, served]
    });
    for (rank, ended) in ended.iter().enumerate() {
        assert!(ended.iter().all(|(code, _)| *code != 0), "rank {rank}: {ended:?}");
    }
    let [(_, kernel), (_, server)] = &ended[1];
    let text = format!("{kernel}\n{server}");
    assert!(text.contains("beyond the end of its allocation"), "{text}");
    assert!(text.contains("second") && text.contains("kernel.rs:"), "{text}");
    let [(_, kernel), (_, server)] = &ended[0];
    assert!(format!("{kernel}\n{server}").contains("rank 1"), "{kernel}\n{server}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_core_that_finalises_too_early_leaves_the_others_waiting() {
    let program = |_| {
        custom(|b, client, task| {
            b.times(2, |b| b.commit(task));
            b.on_block(0, |b| b.finalize(client));
            b.on_block(1, |b| {
                b.sync(Sync::Await { flag: 8 });
                b.times(2, |b| b.wait(task));
            });
            b.on_block(0, |b| {
                b.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Out, flag: 8 });
            });
            b.on_block(1, |b| {
                b.sync(Sync::Raise { mode: Mode::Kind, pipe: Pipe::Out, flag: 8 });
            });
        })
    };
    for ended in run(program, [true, true]) {
        let text = &ended[0].1;
        // Block 1 waits for a flag that only it has not raised: the kernel stops with both.
        assert!(text.contains("can never finish") && text.contains("waits for flag 8"), "{text}");
    }
}

#[test]
fn a_barrier_that_a_core_misses_names_it() {
    unchecked();
    let _block = Block::one();
    let stream = common::stream();
    let mut b = Builder::new(Mix::MixAiv10);
    b.program.groups = 0;
    b.on_block(0, |b| b.sync_vectors());
    let program = b.done();
    let binary = load(&program);
    let null = std::ptr::null_mut();
    launch(function(binary, "kernel"), 3, &[Given::Pointer(null), Given::Pointer(null)], stream);
    fails!(
        ACL_ERROR_RT_AICORE_EXCEPTION,
        [
            "can never finish",
            "AIV 0: waits in SyncAll<true> for AIV 1, AIV 2",
            "AIV 1 to AIV 2: has ended"
        ],
        aclrtSynchronizeStream(stream)
    );
}
