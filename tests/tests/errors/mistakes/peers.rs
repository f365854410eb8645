//! Mistakes of several ranks: they disagree, do not take part, or fail.

use hccl::prelude::*;
use hccl::{Error, Result};

use super::{Member, PATIENCE, Told, impatient, later, one, patient, ranks};

/// Returns disagreements between ranks: in the first operation, where the call returns the error,
/// and in a later one.
pub(super) fn between_ranks() -> Vec<Told> {
    type Act = fn(&mut Member) -> Result<Work>;
    let runtime = patient(3);
    let disagreements: [(&str, &str, Act); 6] = [
        ("counts that differ, in the first operation", "counts that differ", |m| {
            let mut x = m.floats(if m.rank() == 1 { 1001 } else { 1000 });
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
        }),
        ("types that differ, in the first operation", "types that differ", |m| {
            let mut x = m.floats(1000);
            let mut y = m.device.zeros::<i32>(1000, &m.stream)?;
            if m.rank() == 1 {
                m.comm.all_reduce_in_place(&mut y, Sum, &m.stream)
            } else {
                m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
            }
        }),
        ("reductions that differ, in the first operation", "reductions that differ", |m| {
            let mut x = m.floats(1000);
            if m.rank() == 1 {
                m.comm.all_reduce_in_place(&mut x, Max, &m.stream)
            } else {
                m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
            }
        }),
        ("roots that differ, in the first operation", "roots that differ", |m| {
            let mut x = m.floats(1000);
            let root = m.rank() % 2;
            m.comm.broadcast(&mut x, root, &m.stream)
        }),
        ("operations that differ, in the first operation", "operations that differ", |m| {
            let mut x = m.floats(1000);
            match m.rank() {
                1 => m.comm.barrier(&m.stream),
                _ => m.comm.all_reduce_in_place(&mut x, Sum, &m.stream),
            }
        }),
        ("nothing on one rank, in the first operation", "nothing on one rank", |m| {
            let mut x = m.floats(if m.rank() == 1 { 0 } else { 1000 });
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)
        }),
    ];
    let mut told = Vec::new();
    for (first, after, act) in disagreements {
        let last = move |m: &mut Member| {
            m.let_rank_1_be_last();
            act(m)
        };
        told.push(ranks(first, &runtime, |m| last(m)?.wait()));
        told.push(later(after, &runtime, last));
    }
    let runtime = patient(2);
    told.push(ranks("an operation after one that failed", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        m.everyone.wait();
        let mut x = m.floats(if m.rank() == 1 { 1001 } else { 1000 });
        let failed =
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream).and_then(|work| work.wait());
        assert!(failed.is_err());
        m.comm.barrier(&m.stream).map(drop)
    }));
    let lengths: Act = |m| {
        let mut x = m.floats(if m.rank() == 0 { 10 } else { 11 });
        if m.rank() == 0 {
            m.comm.batch().send(&x, 1).submit(&m.stream)
        } else {
            m.comm.batch().recv(&mut x, 0).submit(&m.stream)
        }
    };
    let types: Act = |m| {
        let x = m.floats(10);
        let mut y = m.device.zeros::<i64>(10, &m.stream)?;
        if m.rank() == 0 {
            m.comm.batch().send(&x, 1).submit(&m.stream)
        } else {
            m.comm.batch().recv(&mut y, 0).submit(&m.stream)
        }
    };
    told.push(ranks("a message whose lengths differ", &runtime, |m| lengths(m)?.wait()));
    told.push(ranks("a message whose types differ", &runtime, |m| types(m)?.wait()));
    told.push(ranks("a batch against a collective", &runtime, |m| {
        let x = m.floats(10);
        if m.rank() == 0 {
            m.comm.batch().send(&x, 1).submit(&m.stream)?.wait()
        } else {
            m.comm.barrier(&m.stream)?.wait()
        }
    }));
    told.push(ranks("counts that differ in a part", &runtime, |m| {
        let Some(mut part) = m.comm.subset(&[1, 0], 5).wait()? else { return Ok(()) };
        part.barrier(&m.stream)?.wait()?;
        let mut x = m.floats(if part.rank() == 1 { 4 } else { 3 });
        part.all_reduce_in_place(&mut x, Sum, &m.stream)?.wait()
    }));
    told.push(ranks("settings that differ in a part", &runtime, |m| {
        m.let_rank_1_be_last();
        let config = CommConfig::builder().buffer_mib(1 + m.rank()).build();
        let part = m.comm.subset_with(&[1, 0], 5, config).wait()?;
        part.map_or(Ok(()), |mut part| part.barrier(&m.stream)?.wait())
    }));
    told
}

pub(super) fn of_absence() -> Vec<Told> {
    let runtime = impatient(3);
    let mut told = Vec::new();
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    let alone = Communicator::builder().device(&device).rank(0).world_size(3).root_info(&root);
    told.push(one(
        "a communicator whose other ranks do not come",
        alone.build().wait().unwrap_err(),
    ));
    let far = Communicator::builder().runtime(&runtime).rank(3).world_size(8).root_info(&root);
    told.push(one(
        "a communicator of a rank that has no device of its number",
        far.build().wait().unwrap_err(),
    ));
    let last = runtime.device(2).unwrap();
    let all_of_it = last.memory_info().unwrap().total;
    told.push(one(
        "more memory than the last device has",
        last.alloc::<u8>(all_of_it + 1).unwrap_err(),
    ));
    // There are two ranks, because the text names the rank that gave up first.
    told.push(ranks("a rank that does not come to the first operation", &impatient(2), |m| {
        let mut x = m.floats(1000);
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)?.wait()
    }));
    told.push(ranks("a rank that does not come to a later operation", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        let mut x = m.floats(1000);
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.all_reduce_in_place(&mut x, Sum, &m.stream)?.wait()
    }));
    let runtime = impatient(2);
    told.push(ranks("a message that is not received, the first one", &runtime, |m| {
        let x = m.floats(10);
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.batch().send(&x, 1).submit(&m.stream)?.wait()
    }));
    told.push(ranks("a message that is not received, a later one", &runtime, |m| {
        let (x, mut y) = (m.floats(10), m.floats(10));
        let peer = 1 - m.rank();
        m.comm.batch().send(&x, peer).recv(&mut y, peer).submit(&m.stream)?.wait()?;
        if m.rank() == 1 {
            return Ok(());
        }
        m.comm.batch().send(&x, peer).submit(&m.stream)?.wait()
    }));
    let runtime = patient(2);
    told.push(ranks("a wait with a short limit", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        if m.rank() == 1 {
            std::thread::sleep(PATIENCE);
            return m.comm.barrier(&m.stream)?.wait();
        }
        let work = m.comm.barrier(&m.stream)?;
        let error = work.wait_timeout(PATIENCE / 4).unwrap_err();
        work.wait()?;
        Err(error)
    }));
    told.push(ranks("two ranks that only receive", &runtime, |m| {
        let (x, mut y) = (m.floats(10), m.floats(10));
        let peer = 1 - m.rank();
        m.comm.batch().send(&x, peer).recv(&mut y, peer).submit(&m.stream)?.wait()?;
        m.comm.batch().recv(&mut y, peer).submit(&m.stream)?.wait()
    }));
    told
}

pub(super) fn of_runs() -> Vec<Told> {
    let runtime = patient(2);
    let run = |mistake, f: &(dyn Fn(Rank) -> Result<()> + Sync)| {
        one(mistake, runtime.run_ranks(2, f).unwrap_err())
    };
    vec![
        one("more ranks than devices", runtime.run_ranks(3, |_| Ok::<_, Error>(())).unwrap_err()),
        one("no ranks", runtime.run_ranks(0, |_| Ok::<_, Error>(())).unwrap_err()),
        run("a rank that returns an error", &|rank| {
            let stream = rank.device().stream()?;
            if rank.index() == 1 {
                rank.device().zeros::<f32>(4, &stream)?.upload(&[0.0; 3], &stream)?;
            }
            rank.communicator().map(drop)
        }),
        run("a rank that panics", &|rank| {
            assert!(rank.index() != 1, "index 5 is out of bounds");
            rank.communicator().map(drop)
        }),
        run("ranks that disagree", &|rank| {
            let stream = rank.device().stream()?;
            let config = CommConfig::builder().name("world").build();
            let mut comm = rank.communicator_with(config)?;
            comm.barrier(&stream)?.wait()?;
            let mut x = rank.device().zeros::<f32>(4 + rank.index() as usize, &stream)?;
            let outcome = comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait();
            if rank.index() == 1 {
                // The delay ensures that the other rank's cause is always the first one.
                std::thread::sleep(PATIENCE);
            }
            outcome
        }),
        run("a rank that returns early, to the one that waits", &|rank| {
            let config = CommConfig::builder().name("world").build();
            let mut comm = rank.communicator_with(config)?;
            let stream = rank.device().stream()?;
            comm.barrier(&stream)?.wait()?;
            if rank.index() == 1 { Ok(()) } else { comm.barrier(&stream)?.wait() }
        }),
        run("a rank that returns before the communicator is made", &|rank| {
            if rank.index() == 1 {
                // By then the other rank is inside the call.
                std::thread::sleep(PATIENCE / 2);
                return Ok(());
            }
            let config = CommConfig::builder().name("world").build();
            rank.communicator_with(config).map(drop)
        }),
    ]
}
