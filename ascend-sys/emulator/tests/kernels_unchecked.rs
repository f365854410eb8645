//! Tests of kernels that can never finish, which run here without a check before the launch.

use ascend_emulator_testing::common::{self, Block, message};
use ascend_emulator_testing::kernel::build::Builder;
use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ranks::{self, Rank, on_block};
use ascend_emulator_testing::{alone, call, fails, hccl, ok};
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::{Core, Mix, Program};
use ascend_sys::*;
use std::sync::Once;
use std::time::{Duration, Instant};

const INT32: u32 = 2;

/// Makes kernels run even if the checker would refuse them.
fn unchecked() {
    static ONCE: Once = Once::new();
    // SAFETY: every test begins with this call, so nothing in this program has read the environment
    // yet.
    ONCE.call_once(|| unsafe { std::env::set_var("ASCEND_EMULATOR_KERNELS", "unchecked") });
}

fn on_ranks<R: Send>(ranks: u32, run: impl Fn(&mut Rank) -> R + std::marker::Sync) -> Vec<R> {
    unchecked();
    on_block(AscendExtBlockConfig { deviceCount: ranks, ..Block::config() }, |rank| {
        rank.join();
        run(rank)
    })
}

/// Runs a program unchecked on two ranks, each with or without a server, and returns the results of
/// the kernel and of the server on each rank.
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

/// Returns a kernel that prepares a reduce-scatter of two turns, and then has the steps of a test.
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
    alone!(beside);
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
    // The other rank reports that rank 1 is the cause, and no rank waits for a time limit.
    let (code, text) = &ended[0][0];
    assert!(*code != 0 && text.contains("rank 1"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_wait_without_a_commit_returns_at_once() {
    // As on hardware, the call returns -1, which the kernel ignores, and then Finalize hangs.
    let program = |_| {
        custom(|b, client, task| {
            b.wait(task);
            b.sync_vectors();
            b.finalize(client);
        })
    };
    // The second rank to fail may report the failure of the other rank instead of its own.
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
        assert!(text.contains("beyond its end"), "{text}");
        assert!(text.contains("kernel.rs:") && text.contains("turn 15"), "{text}");
    }
}

/// Runs an all-reduce in each of two groups. The output of the second one ends too early on rank 1.
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
        // The communicators of both groups can still be destroyed.
        hccl!(HcclCommDestroy(other));
        hccl!(HcclCommDestroy(rank.comm));
        [kernel, served]
    });
    for (rank, ended) in ended.iter().enumerate() {
        assert!(ended.iter().all(|(code, _)| *code != 0), "rank {rank}: {ended:?}");
    }
    let [(_, kernel), (_, server)] = &ended[1];
    let text = format!("{kernel}\n{server}");
    assert!(text.contains("beyond its end"), "{text}");
    assert!(text.contains("second") && text.contains("kernel.rs:"), "{text}");
    let [(_, kernel), (_, server)] = &ended[0];
    assert!(format!("{kernel}\n{server}").contains("rank 1"), "{kernel}\n{server}");
    assert!(start.elapsed() < Duration::from_secs(120));
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
        // The flag is set when both blocks have raised it, but block 1 waits for it first. So the
        // whole kernel is stopped.
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

/// Runs a program of three tensors on two ranks of a product. Returns the last tensor of each rank,
/// or its failure.
fn on_product(
    product: u32,
    program: &Program,
    operations: &[u32],
) -> Vec<Result<Vec<i32>, String>> {
    unchecked();
    on_block(
        AscendExtBlockConfig { deviceCount: 2, product, ..Block::config() },
        |rank: &mut Rank| {
            rank.join();
            let ready = Ready::new(rank, program, operations);
            let filled = |number: i32| rank.upload(&ints([number; 8192]));
            let tensors = [filled(1), filled(10), filled(100)];
            ready.serve();
            ready.run(rank, 2, &tensors);
            let (code, text) = rank.sync_fails();
            let _ = call!(aclrtSynchronizeStream(ready.stream));
            let found = to_ints(&rank.download(tensors[2], 4 * 8192));
            ready.end();
            hccl!(HcclCommDestroy(rank.comm));
            if code == 0 { Ok(found) } else { Err(text) }
        },
    )
}

/// Returns a kernel that prepares an all-reduce from x to y and one from y to z, each with the
/// given turns of 64 elements, and then has the steps of a test and the end.
fn chained(
    turns: [u64; 2],
    commit: bool,
    body: impl Fn(&mut Builder, [ascend_program::TaskId; 2]),
) -> Program {
    let mut b = Builder::new(Mix::MixAiv10);
    let [x, y, z] = [("x", false), ("y", true), ("z", true)]
        .map(|(name, output)| b.parameter(name, Number::I32, output));
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[ALL_REDUCE]);
        let tasks = ["first", "second"].map(|name| b.task(name, client));
        for ((task, repeat), (from, to)) in tasks.iter().zip(turns).zip([(x, y), (y, z)]) {
            let call = Call::new(ALL_REDUCE, 0, 64, 0, repeat);
            let operation = operation(b, &call, from, to, INT32);
            b.prepare(*task, operation, repeat, commit);
        }
        body(b, tasks);
        b.sync_vectors();
        b.finalize(client);
    });
    b.done()
}

/// Checks that turns run in the order of their commits on a 950, and on the other products in the
/// order in which they were prepared.
#[test]
fn turns_of_a_950_run_in_the_order_of_their_commits() {
    let program = chained([1, 1], false, |b, [first, second]| {
        b.commit(second);
        b.commit(first);
        b.wait(first);
        b.wait(second);
    });
    for (product, expected) in [(A2, 4), (A3, 4), (ASCEND950, 20)] {
        for found in on_product(product, &program, &[ALL_REDUCE]) {
            assert_eq!(found.unwrap()[..65], [[expected; 64].as_slice(), &[100]].concat());
        }
    }
}

/// Checks that A2 and A3 accept waits in another order, as the hardware does. A task with no turns
/// does not count as a task.
#[test]
fn a2_and_a3_take_waits_in_any_order_and_a_repeat_of_nothing() {
    let crossed = chained([1, 1], true, |b, [first, second]| {
        b.wait(second);
        b.wait(first);
    });
    let none = chained([1, 0], false, |b, [first, second]| {
        b.commit(first);
        // There is no second task, so its calls do nothing.
        b.commit(second);
        b.wait(second);
        b.wait(first);
    });
    for product in [A2, A3] {
        for (program, expected) in [(&crossed, 4), (&none, 100)] {
            for found in on_product(product, program, &[ALL_REDUCE]) {
                assert_eq!(found.unwrap()[0], expected, "{product}");
            }
        }
    }
}

/// Checks a turn that is committed once too often. It is ignored, except on a 950, which runs it on
/// the data that follows.
#[test]
fn a_950_runs_a_turn_that_is_committed_too_often() {
    let program = chained([1, 1], false, |b, [first, second]| {
        b.commit(first);
        b.wait(first);
        b.times(2, |b| b.commit(second));
        b.wait(second);
        // The engine may still run the extra turn. This call waits for that turn, which has the
        // next place.
        b.wait(second);
    });
    for (product, expected) in [(A3, 100), (ASCEND950, 20)] {
        for found in on_product(product, &program, &[ALL_REDUCE]) {
            let found = found.unwrap();
            assert_eq!((found[63], found[64], found[128]), (4, expected, 100), "{product}");
        }
    }
}

/// Checks turns beyond the 64 places of a 950's engine. They are not queued until a wait frees a
/// place.
#[test]
fn turns_beyond_64_places_need_waits_on_a_950() {
    let waits = chained([100, 20], true, |b, [first, second]| {
        b.times(100, |b| b.wait(first));
        b.times(20, |b| b.wait(second));
    });
    for found in on_product(ASCEND950, &waits, &[ALL_REDUCE]) {
        let found = found.unwrap();
        assert_eq!((found[20 * 64 - 1], found[20 * 64]), (4, 100));
    }
    let none = chained([100, 20], true, |_, _| ());
    for product in [A2, A3] {
        assert!(on_product(product, &none, &[ALL_REDUCE]).iter().all(Result::is_ok));
    }
    hangs(&none, &["waits in Finalize", "server of rank"]);
}

/// Checks that a kernel can never finish on a 950. The rank that finds this first reports the
/// states of its cores and of its server.
fn hangs(program: &Program, pieces: &[&str]) {
    let texts: Vec<String> =
        on_product(ASCEND950, program, &[ALL_REDUCE]).into_iter().map(Result::unwrap_err).collect();
    assert!(texts.iter().all(|text| text.contains("the kernel can never finish")), "{texts:?}");
    let whole = |text: &String| pieces.iter().all(|piece| text.contains(piece));
    assert!(texts.iter().any(whole), "{pieces:?} are not in: {texts:?}");
}

/// Checks that one wait too many returns at once, except on a 950, where it never returns.
#[test]
fn a_wait_too_many_hangs_on_a_950_only() {
    let program = chained([1, 1], true, |b, [first, second]| {
        b.wait(first);
        b.times(2, |b| b.wait(second));
    });
    for product in [A2, A3] {
        assert!(on_product(product, &program, &[ALL_REDUCE]).iter().all(Result::is_ok));
    }
    hangs(&program, &["waits in Wait for place 2 of the engine", "server of rank"]);
}

/// Checks that every core that writes must call Finalize if there are queues.
#[test]
fn a_core_with_queues_that_does_not_finalise_is_told() {
    const BATCH_WRITE: u32 = 18;
    let mut b = Builder::new(Mix::MixAiv10);
    let (_x, items) = (b.input("x", Number::I32), b.output("y", Number::I32));
    b.output("z", Number::I32);
    b.on(Core::Aiv, |b| {
        let client = b.ready(&[BATCH_WRITE]);
        let task = b.task("batch", client);
        let (items, count, queue) = (b.at(items, 0), b.n(0), b.n(0));
        b.prepare(task, Operation::BatchWrite { items, count, queue }, 1, true);
        b.on_block(0, |b| b.hccl(Hccl::Finalize(client, false)));
    });
    let program = b.done();
    let texts = on_ranks(1, |rank| {
        let mut bytes = tiling(&[BATCH_WRITE], &ranks::name_of(rank.comm));
        (bytes[42], bytes[44]) = (1, 2);
        let ready = Ready::of(rank, &program, bytes);
        let tensors = [(); 3].map(|()| rank.upload(&[0; 256]));
        ready.serve();
        ready.run(rank, 2, &tensors);
        let (code, text) = rank.sync_fails();
        assert_ne!(code, 0);
        assert_ne!(call!(aclrtSynchronizeStream(ready.stream)), 0);
        text
    });
    let pieces = ["some core with queues has not called Finalize", "queues, the first of them"];
    for piece in pieces {
        assert!(texts[0].contains(piece), "{piece:?} is not in: {}", texts[0]);
    }
}

/// Checks that a core that polls again and again lets the other cores run. If a core never ends,
/// the error shows where the core is.
#[test]
fn cores_that_do_not_wait_run_side_by_side() {
    unchecked();
    let polls = |times| {
        let mut b = Builder::new(Mix::MixAiv10);
        b.program.groups = 0;
        let (y, seen) = (b.output("y", Number::I32), b.variable("seen", Number::I32));
        b.on_block(0, |b| {
            let flag = b.at(y, 16);
            b.times(times, |b| b.step(Step::Read(seen, Read::Global(flag))));
            let (to, value) = (b.at(y, 0), b.get(seen));
            b.step(Step::Copy(Copy::Set { to, value }));
        });
        b.on_block(1, |b| {
            let (to, value) = (b.at(y, 16), b.value(ascend_program::Of::Constant(7), Number::I32));
            b.step(Step::Copy(Copy::Set { to, value }));
        });
        b.done()
    };
    let _block = Block::one();
    let (stream, y, workspace) = (common::stream(), common::malloc(128), common::malloc(32));
    common::write(y, &[0; 128]);
    let start = |program: &Program| {
        let given = [y, workspace, std::ptr::null_mut()].map(Given::Pointer);
        launch(function(load(program), &program.name), 2, &given, stream);
    };
    start(&polls(20_000));
    ok!(aclrtSynchronizeStream(stream));
    assert_eq!(to_ints(&common::read(y, 4)), [7]);

    start(&polls(u64::MAX));
    assert_ne!(call!(aclrtSynchronizeStreamWithTimeout(stream, 50)), 0);
    ok!(aclrtStreamAbort(stream));
    fails!(
        ACL_ERROR_RT_STREAM_ABORT,
        ["AIV 0: runs, in src/kernel.rs:3:5", "AIV 1: has ended"],
        aclrtSynchronizeStream(stream)
    );
}
