//! Recording of communication operators: the tasks that the function records for one rank, and the
//! mistakes that one rank alone shows.

use ascend_operator::{Memory, Signal, Task};
use hccl::operator::*;
use hccl::prelude::*;

/// Returns the mistakes of an operator on `ranks` ranks, as text.
fn refused(operator: &Operator, ranks: u32) -> String {
    operator.record::<f32>(ranks, 8).expect_err("it must be refused").to_string()
}

fn gather(
    function: impl Fn(&Recorder<'_>, &mut MainThread<'_>) + Send + Sync + 'static,
) -> Operator {
    Operator::all_gather("gather", function)
}

#[test]
fn a_fork_starts_and_ends_its_sub_threads() {
    let operator = gather(|op, main| {
        main.fork(3, |threads| {
            for (part, thread) in (0..).zip(threads.iter()) {
                thread.copy(op.input().part(part, 3), op.output().slice(..8).part(part, 3));
            }
        });
    });
    let recorded = operator.record::<f32>(1, 8).unwrap();
    let threads = &recorded.tasks().ranks[0].threads;
    let of = |thread: usize| threads[thread].iter().map(|step| step.task).collect::<Vec<_>>();
    let signal = |thread, index| Signal::Thread { rank: 0, thread, index };
    assert_eq!(threads.len(), 3);
    for sub in [1, 2] {
        let tasks = of(sub);
        assert_eq!(tasks.len(), 3);
        assert_eq!(tasks[0], Task::Wait(signal(sub as u32, 0)));
        assert_eq!(tasks[2], Task::Record(signal(0, sub as u32 - 1)));
    }
    let main = of(0);
    assert_eq!(main[..2], [1, 2].map(|sub| Task::Record(signal(sub, 0))));
    assert_eq!(main[3..], [0, 1].map(|index| Task::Wait(signal(0, index))));
}

#[test]
fn sub_threads_are_the_same_from_fork_to_fork() {
    let operator = gather(|_, main| {
        main.fork(2, |_| {});
        main.fork(3, |_| {});
        main.fork(1, |_| {});
    });
    let recorded = operator.record::<f32>(1, 8).unwrap();
    let lengths: Vec<usize> = recorded.tasks().ranks[0].threads.iter().map(Vec::len).collect();
    assert_eq!(lengths, [6, 4, 2]);
}

#[test]
fn exposing_and_entering_are_the_halves_of_a_handshake() {
    let operator = Operator::send("send", 0, 1, |op, main| {
        let n = op.count();
        if op.rank() == 0 {
            main.copy(op.input(), op.buffer().slice(..n));
            let exposed = main.expose(op.channel(1));
            main.reclaim(exposed);
        } else {
            let access = main.enter(op.channel(0));
            main.read(access.buffer().slice(..n), op.output());
            main.leave(access);
        }
    });
    let recorded = operator.record::<i32>(2, 5).unwrap();
    let tasks = |rank: usize| {
        let steps = recorded.tasks().ranks[rank].threads[0].iter();
        steps.map(|step| step.task).collect::<Vec<_>>()
    };
    let at = |rank, index| Signal::Channel { rank, peer: 1 - rank, index };
    assert_eq!(tasks(0)[1..], [Task::Record(at(1, 0)), Task::Wait(at(0, 1))]);
    let [Task::Wait(first), Task::Copy { from, to }, Task::Record(last)] = tasks(1)[..] else {
        panic!("{:?}", tasks(1))
    };
    assert_eq!((first, last), (at(1, 0), at(0, 1)));
    assert_eq!((from.rank, from.memory, from.bytes), (0, Memory::Buffer, 20));
    assert_eq!((to.rank, to.memory, to.start), (1, Memory::Output, 0));
    assert_eq!(recorded.tasks().ranks[0].channels, [(1, 2)]);
}

#[test]
fn signals_are_notifies_behind_the_handshake() {
    let operator = Operator::other("ping", 0, 0, |op, main| {
        let channel = op.channel(op.peer(1));
        main.signal(channel, 3);
        main.await_signal(channel, 3);
    });
    let recorded = operator.record::<u8>(2, 0).unwrap();
    assert_eq!(recorded.tasks().ranks[1].channels, [(0, 6)]);
    let wait = recorded.tasks().ranks[1].threads[0][1].task;
    assert_eq!(wait, Task::Wait(Signal::Channel { rank: 1, peer: 0, index: 5 }));
}

#[test]
fn a_notify_orders_two_threads_and_is_used_again() {
    let operator = gather(|_, main| {
        main.fork(2, |threads| {
            let [a, b] = threads.array();
            let mut notify = b.notify();
            for _ in 0..3 {
                notify = b.wait(a.record(notify));
            }
        });
    });
    let recorded = operator.record::<f32>(1, 8).unwrap();
    let main = &recorded.tasks().ranks[0].threads[0];
    let signal = Signal::Thread { rank: 0, thread: 1, index: 1 };
    assert_eq!(main.iter().filter(|step| step.task == Task::Record(signal)).count(), 3);
}

#[test]
fn every_step_has_the_line_that_recorded_it() {
    let line = line!() + 1;
    let operator = gather(|op, main| main.copy(op.input(), op.output().block(op.rank(), 8)));
    let recorded = operator.record::<f32>(2, 8).unwrap();
    let source = recorded.tasks().ranks[1].threads[0][0].source;
    assert_eq!((source.line(), source.file().ends_with("recording.rs")), (line, true));
}

#[test]
fn nothing_is_recorded_of_what_has_no_elements() {
    let operator =
        gather(|op, main| main.copy(op.input(), op.output().block(op.rank(), op.count())));
    assert_eq!(operator.record::<f32>(3, 0).unwrap().tasks().tasks(), 0);
}

#[test]
fn the_parts_of_a_buffer_are_all_of_it() {
    let operator = gather(|op, _| {
        let input = op.input();
        for parts in 1..20 {
            let lengths: Vec<usize> =
                (0..parts).map(|part| input.part(part, parts).len()).collect();
            assert_eq!(lengths.iter().sum::<usize>(), input.len());
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
            let chunks: Vec<usize> = input.chunks(parts as usize).map(|c| c.len()).collect();
            assert_eq!(chunks.len(), input.len().div_ceil(parts as usize));
            assert_eq!(chunks.iter().sum::<usize>(), input.len());
        }
    });
    for count in [0, 1, 7, 64] {
        operator.record::<f32>(2, count).unwrap();
    }
}

#[test]
fn peers_are_counted_around_the_ring() {
    let operator = gather(|op, _| {
        let (rank, ranks) = (op.rank(), op.ranks());
        assert_eq!([op.peer(1), op.peer(-1)], [(rank + 1) % ranks, (rank + ranks - 1) % ranks]);
        assert_eq!([op.peer(i64::MAX), op.peer(i64::MIN)].map(|peer| peer < ranks), [true; 2]);
        let others: Vec<u32> = op.others().collect();
        assert_eq!(others.len() as u32, ranks - 1);
        assert!(others.iter().zip(1..).all(|(peer, distance)| *peer == op.peer(distance)));
    });
    for ranks in 1..6 {
        operator.record::<f32>(ranks, 1).unwrap();
    }
}

#[test]
fn a_range_outside_of_a_buffer_is_refused_with_its_line() {
    let line = line!() + 1;
    let operator = gather(|op, main| main.copy(op.input().slice(4..9), op.output().slice(..5)));
    let text = refused(&operator, 4);
    assert!(text.contains("elements 4..9 do not lie in a buffer of length 8"), "{text}");
    assert!(text.contains(&format!("recording.rs:{line}:")), "{text}");
    assert!(text.contains("on rank 0 and 3 more"), "{text}");
}

#[test]
fn lengths_that_differ_are_refused() {
    let operator = gather(|op, main| main.copy(op.input(), op.output()));
    let text = refused(&operator, 2);
    assert!(text.contains("the source has 8 elements, but the destination has 16"), "{text}");
}

#[test]
fn a_half_that_is_missing_is_refused() {
    let text = refused(&gather(|op, main| _ = main.expose(op.channel(op.peer(1)))), 2);
    assert!(text.contains("exposed to rank 1 here is never reclaimed"), "{text}");
    let text = refused(&gather(|op, main| _ = main.enter(op.channel(op.peer(1)))), 2);
    assert!(text.contains("buffer of rank 1 that is entered here is never left"), "{text}");
    let operator = gather(|_, main| {
        main.fork(2, |threads| {
            let [a, b] = threads.array();
            _ = a.record(b.notify());
        });
    });
    let text = refused(&operator, 1);
    assert!(text.contains("recorded here is never waited for: call `wait` on thread 1"), "{text}");
}

#[test]
fn a_half_that_comes_twice_is_refused() {
    let operator = gather(|op, main| {
        _ = main.expose(op.channel(op.peer(1)));
        let exposed = main.expose(op.channel(op.peer(1)));
        main.reclaim(exposed);
    });
    let text = refused(&operator, 2);
    assert!(text.contains("the buffer was already exposed to rank 1 at"), "{text}");
    let operator = gather(|op, main| {
        _ = main.enter(op.channel(op.peer(1)));
        let access = main.enter(op.channel(op.peer(1)));
        main.leave(access);
    });
    let text = refused(&operator, 2);
    assert!(text.contains("the buffer of rank 1 was already entered at"), "{text}");
}

#[test]
fn a_peer_s_buffer_is_left_after_every_use() {
    // Threads of a fork use a buffer that was entered before the fork. The main thread leaves it
    // after the fork.
    let right = gather(|op, main| {
        let n = op.count();
        let access = main.enter(op.channel(op.peer(1)));
        main.fork(2, |threads| {
            for (half, thread) in (0..).zip(threads.iter()) {
                let theirs = access.buffer().slice(..n).part(half, 2);
                thread.read(theirs, op.output().block(0, n).part(half, 2));
            }
        });
        main.leave(access);
    });
    right.record::<f32>(2, 8).unwrap();
    // One thread enters the buffer, and another one uses it.
    let early = gather(|op, main| {
        main.fork(2, |threads| {
            let [a, b] = threads.array();
            let access = a.enter(op.channel(op.peer(1)));
            b.read(access.buffer().slice(..8), op.output().slice(..8));
            a.leave(access);
        });
    });
    let text = refused(&early, 2);
    assert!(
        text.contains(
            "thread 1 uses the buffer of rank 1, which thread 0 has entered in this fork"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "thread 0 leaves the buffer of rank 1 while other threads of the fork may still use it"
        ),
        "{text}"
    );
    // The buffer is left within the fork in which another thread uses it.
    let late = gather(|op, main| {
        let access = main.enter(op.channel(op.peer(1)));
        main.fork(2, |threads| {
            let [a, b] = threads.array();
            b.read(access.buffer().slice(..8), op.output().slice(..8));
            a.leave(access);
        });
    });
    let text = refused(&late, 2);
    assert!(text.contains("thread 0 leaves the buffer of rank 1 while other threads"), "{text}");
    // A use in an earlier fork has ended when the next one begins.
    let later = gather(|op, main| {
        let access = main.enter(op.channel(op.peer(1)));
        main.fork(2, |threads| {
            threads.get(1).read(access.buffer().slice(..8), op.output().slice(..8));
        });
        main.fork(2, |threads| threads.get(1).leave(access));
    });
    later.record::<f32>(2, 8).unwrap();
}

#[test]
fn a_panic_that_is_caught_leaves_no_thread_without_its_end() {
    let operator = gather(|_, main| {
        let fork = std::panic::AssertUnwindSafe(|| main.fork(2, |_| panic!("on purpose")));
        std::panic::catch_unwind(fork).unwrap_err();
    });
    let recorded = operator.record::<f32>(1, 8).unwrap();
    let lengths: Vec<usize> = recorded.tasks().ranks[0].threads.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 2]);
}

#[test]
fn what_no_memory_has_and_no_rank_is_is_refused() {
    let nothing = |_: &Recorder<'_>, _: &mut MainThread<'_>| {};
    let text =
        Operator::all_gather("", nothing).record::<f64>(2, usize::MAX).unwrap_err().to_string();
    assert!(text.contains("beyond any memory") && text.contains("recording.rs:"), "{text}");
    Operator::other("", u64::MAX, 0, nothing).record::<f64>(2, 0).unwrap_err();
    let text = refused(&Operator::broadcast("", 2, nothing), 2);
    assert!(text.contains("names rank 2, but the number of ranks is 2"), "{text}");
    let counts = CountMatrix::new(2, vec![1; 4]).unwrap();
    let text = refused(&Operator::all_to_all_v("", &counts, nothing), 3);
    assert!(
        text.contains("the matrix is for 2 ranks, but the operator is recorded for 3"),
        "{text}"
    );
    let text = refused(&gather(|_, main| main.fork(u32::MAX, |_| {})), 1);
    assert!(text.contains("4294967295 threads is too large: at most 4096"), "{text}");
}

#[test]
fn a_channel_to_nobody_is_refused() {
    let text = refused(&gather(|op, _| _ = op.channel(op.rank())), 2);
    assert!(text.contains("rank 0 of 2 opens a channel to itself"), "{text}");
    let text = refused(&gather(|op, _| _ = op.channel(op.ranks())), 2);
    assert!(text.contains("opens a channel to rank 2"), "{text}");
}

#[test]
fn a_notify_is_used_by_the_threads_that_it_is_for() {
    let own = gather(|_, main| {
        main.fork(2, |threads| {
            let [a, _] = threads.array();
            _ = a.wait(a.record(a.notify()));
        });
    });
    let text = refused(&own, 1);
    assert!(text.contains("thread 0 records a notify of its own"), "{text}");
    let other = gather(|_, main| {
        main.fork(2, |threads| {
            let [a, b] = threads.array();
            _ = a.wait(a.record(b.notify()));
        });
    });
    let text = refused(&other, 1);
    assert!(text.contains("thread 0 waits for a notify of thread 1"), "{text}");
}

#[test]
fn a_reduction_needs_an_operator_that_reduces() {
    let text = refused(&gather(|op, main| main.reduce(op.input(), op.output().slice(..8))), 2);
    assert!(text.contains("the operator has no reduction"), "{text}");
    let sum = Operator::all_reduce("sum", Sum, |op, main| main.reduce(op.input(), op.output()));
    sum.record::<f32>(2, 8).unwrap();
}

#[test]
fn a_thread_that_the_fork_has_not_is_refused() {
    let operator = gather(|op, main| {
        main.fork(2, |threads| threads.get(2).copy(op.input(), op.output()));
    });
    let text = refused(&operator, 1);
    assert!(text.contains("thread 2 does not exist"), "{text}");
}

#[test]
fn an_operator_can_refuse_what_it_is_recorded_for() {
    let operator = gather(|op, _| {
        if !op.ranks().is_power_of_two() {
            op.refuse(format!("{} ranks are no power of two: use the ring", op.ranks()));
        }
    });
    operator.record::<f32>(4, 8).unwrap();
    assert!(refused(&operator, 6).contains("6 ranks are no power of two: use the ring"));
}

#[test]
fn sizes_are_those_of_the_goal() {
    let look = |operator: &Operator| {
        let recorded = operator.record::<u16>(3, 10).unwrap();
        let sizes = recorded.tasks().ranks.iter().map(|rank| (rank.input / 2, rank.output / 2));
        sizes.collect::<Vec<_>>()
    };
    let nothing = |_: &Recorder<'_>, _: &mut MainThread<'_>| {};
    assert_eq!(look(&Operator::all_gather("", nothing)), [(10, 30); 3]);
    assert_eq!(look(&Operator::all_reduce("", Sum, nothing)), [(10, 10); 3]);
    assert_eq!(look(&Operator::reduce_scatter("", Max, nothing)), [(30, 10); 3]);
    assert_eq!(look(&Operator::broadcast("", 1, nothing)), [(0, 10), (10, 10), (0, 10)]);
    assert_eq!(look(&Operator::reduce("", Min, 2, nothing)), [(10, 0), (10, 0), (10, 10)]);
    assert_eq!(look(&Operator::scatter("", 0, nothing)), [(30, 10), (0, 10), (0, 10)]);
    assert_eq!(look(&Operator::gather("", 0, nothing)), [(10, 30), (10, 0), (10, 0)]);
    assert_eq!(look(&Operator::all_to_all("", nothing)), [(30, 30); 3]);
    assert_eq!(look(&Operator::send("", 2, 0, nothing)), [(0, 10), (0, 0), (10, 0)]);
    assert_eq!(look(&Operator::other("", 4, 5, nothing)), [(4, 5); 3]);
    let counts = CountMatrix::new(3, vec![0, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let uneven = Operator::all_to_all_v("", &counts, nothing);
    assert_eq!(look(&uneven), [(3, 9), (12, 12), (21, 15)]);
}

#[test]
fn the_communication_buffer_is_as_large_as_said() {
    let operator = gather(|op, _| assert_eq!(op.buffer().len(), 250));
    let recorded =
        operator.on(2).count(3).dtype(hccl::dtype::DType::F32).buffer_bytes(1003).record();
    assert_eq!(recorded.unwrap().tasks().ranks[0].buffer, 1000);
}

#[test]
fn in_place_the_input_lies_in_the_output() {
    let nothing = |_: &Recorder<'_>, _: &mut MainThread<'_>| {};
    let recorded = Operator::all_gather("", nothing).on(3).count(4).in_place().record().unwrap();
    let starts: Vec<_> = recorded.tasks().ranks.iter().map(|rank| rank.in_place).collect();
    assert_eq!(starts, [Some(0), Some(16), Some(32)]);
    let recorded = Operator::broadcast("", 1, nothing).on(2).count(4).in_place().record().unwrap();
    let starts: Vec<_> = recorded.tasks().ranks.iter().map(|rank| rank.in_place).collect();
    assert_eq!(starts, [None, Some(0)]);
}
