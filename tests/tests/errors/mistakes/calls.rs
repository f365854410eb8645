//! Mistakes of one rank, which are reported before anything is issued.

use std::time::Duration;

use hccl::comm::Deterministic;
use hccl::prelude::*;
use hccl::{Error, Result};

use super::{Member, Told, one, patient, ranks};

pub(super) fn of_calls() -> Vec<Told> {
    let runtime = patient(2);
    let on = |mistake, act: fn(&mut Member) -> Result<()>| {
        ranks(
            mistake,
            &runtime,
            move |member| {
                if member.rank() == 0 { act(member) } else { Ok(()) }
            },
        )
    };
    let mut told = vec![
        on("a sum into a shorter buffer", |m| {
            let (send, mut recv) = (m.floats(8), m.floats(7));
            m.comm.all_reduce(&send, &mut recv, Sum, &m.stream).map(drop)
        }),
        on("a sum into a fresh buffer of another length", |m| {
            let (send, recv) = (m.floats(8), m.device.alloc::<f32>(9)?);
            Ok(m.comm.all_reduce(&send, recv, Sum, &m.stream).map(drop)?)
        }),
        on("a root that does not exist", |m| {
            let mut x = m.floats(8);
            m.comm.broadcast(&mut x, 2, &m.stream).map(drop)
        }),
        on("a type that the product does not reduce", |m| {
            let mut x = m.device.zeros::<f64>(8, &m.stream)?;
            m.comm.all_reduce_in_place(&mut x, Sum, &m.stream).map(drop)
        }),
        on("a stream of another device", |m| {
            let mut x = m.floats(8);
            let elsewhere = m.device.runtime().device(1)?.stream()?;
            m.comm.all_reduce_in_place(&mut x, Sum, &elsewhere).map(drop)
        }),
        on("an operation after an abort", |m| {
            m.comm.abort_handle().abort()?;
            m.comm.barrier(&m.stream).map(drop)
        }),
        on("a part after an abort", |m| {
            m.comm.abort_handle().abort()?;
            m.comm.subset(&[0], 1).wait().map(drop)
        }),
        on("a part with the name of another", |m| {
            let _part = m.comm.subset(&[0], 1).wait()?;
            m.comm.subset(&[0], 1).wait().map(drop)
        }),
    ];
    told.push(ranks("an abort while the peer waits", &runtime, |m| {
        m.comm.barrier(&m.stream)?.wait()?;
        if m.rank() == 0 {
            std::thread::sleep(Duration::from_millis(50));
            return m.comm.abort_handle().abort();
        }
        m.comm.barrier(&m.stream)?.wait()
    }));
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    let build = |rank, config| {
        let builder = Communicator::builder().device(&device).rank(rank).world_size(2);
        builder.root_info(&root).config(config).build().wait().map(drop).unwrap_err()
    };
    told.push(one("a rank that is not below the number of ranks", build(2, CommConfig::default())));
    let strict = CommConfig::builder().deterministic(Deterministic::Strict).build();
    told.push(one("a setting that the product does not have", build(0, strict)));
    let long = CommConfig::builder().exec_timeout(Duration::from_millis(1500)).build();
    told.push(one("a setting that CANN would ignore", build(0, long)));
    told
}

/// Returns mistakes in shapes, roots and shares, on rank 1 of 2.
pub(super) fn of_counts() -> Vec<Told> {
    let runtime = patient(2);
    let on =
        |mistake, act: fn(&mut Member) -> Result<Work>| {
            ranks(mistake, &runtime, move |member| {
                if member.rank() == 1 { act(member).map(drop) } else { Ok(()) }
            })
        };
    let mut told = vec![
        on("a gather into too short a buffer", |m| {
            let (x, mut y) = (m.floats(4), m.floats(7));
            m.comm.all_gather(&x, &mut y, &m.stream)
        }),
        on("a buffer that two ranks cannot share", |m| {
            m.comm.all_gather_in_place(&mut m.floats(7), &m.stream)
        }),
        on("a source that is not as long as all parts", |m| {
            let (x, mut y) = (m.floats(9), m.floats(4));
            m.comm.reduce_scatter(&x, &mut y, Sum, &m.stream)
        }),
        on("a root without a destination", |m| {
            let x = m.floats(4);
            m.comm.reduce(&x, None::<&mut DeviceBuffer<f32>>, Sum, 1, &m.stream)
        }),
        on("a destination of another rank than the root", |m| {
            let (x, mut y) = (m.floats(4), m.floats(4));
            m.comm.reduce(&x, Some(&mut y), Sum, 0, &m.stream)
        }),
        on("a source of another rank than the root", |m| {
            let (x, mut y) = (m.floats(8), m.floats(4));
            m.comm.scatter(Some(&x), &mut y, 0, &m.stream)
        }),
        on("a message to a rank that is not there", |m| {
            let x = m.floats(4);
            m.comm.send(&x, 2, &m.stream)
        }),
        on("a message from oneself", |m| m.comm.recv(&mut m.floats(4), 1, &m.stream)),
        on("a reduction in parts of a type that the product does not take there", |m| {
            let (x, mut y) = (m.floats(4), m.floats(2));
            m.comm.reduce_scatter_v(&x, &mut y, Prod, &Partition::even(4, 2), &m.stream)
        }),
        on("a partition for another number of ranks", |m| {
            let (x, mut y) = (m.floats(4), m.floats(12));
            m.comm.all_gather_v(&x, &mut y, &Partition::even(12, 3), &m.stream)
        }),
        on("a source that is not as long as its part", |m| {
            let (x, mut y) = (m.floats(4), m.floats(8));
            m.comm.all_gather_v(&x, &mut y, &Partition::packed([5, 3])?, &m.stream)
        }),
        on("a part that ends outside the buffer", |m| {
            let (x, mut y) = (m.floats(3), m.floats(8));
            let parts = Partition::with_displacements([5, 3], [0, 6])?;
            m.comm.all_gather_v(&x, &mut y, &parts, &m.stream)
        }),
        on("parts of a destination that overlap", |m| {
            let (x, mut y) = (m.floats(3), m.floats(8));
            let parts = Partition::with_displacements([5, 3], [0, 4])?;
            m.comm.all_gather_v(&x, &mut y, &parts, &m.stream)
        }),
        on("a fresh destination with a gap", |m| {
            let x = m.floats(3);
            let parts = Partition::with_displacements([4, 3], [0, 5])?;
            Ok(m.comm.all_gather_v(&x, m.device.alloc(8)?, &parts, &m.stream)?.1)
        }),
        on("unequal halves of a message to oneself in an all-to-all", |m| {
            let (x, mut y) = (m.floats(8), m.floats(8));
            let (from, to) = (Partition::packed([4, 4])?, Partition::packed([5, 3])?);
            m.comm.all_to_all_v(&x, &mut y, &from, &to, &m.stream)
        }),
        on("a source that is not as long as its row", |m| {
            let (x, mut y) = (m.floats(6), m.floats(6));
            m.comm.all_to_all_vc(&x, &mut y, &CountMatrix::new(2, vec![1, 2, 3, 4])?, &m.stream)
        }),
        on("a destination that is not as long as its column", |m| {
            let (x, mut y) = (m.floats(7), m.floats(5));
            m.comm.all_to_all_vc(&x, &mut y, &CountMatrix::new(2, vec![1, 2, 3, 4])?, &m.stream)
        }),
    ];
    let most = hccl::collective::MOST_ELEMENTS;
    told.push(one(
        "as many displacements as there are not counts",
        Partition::with_displacements([1, 2], [0]).unwrap_err(),
    ));
    told.push(one("parts beyond counting", Partition::packed([usize::MAX / 2, 1]).unwrap_err()));
    told.push(one("a matrix with a row too few", CountMatrix::new(2, vec![1, 2]).unwrap_err()));
    told.push(one(
        "a block of too many elements",
        CountMatrix::new(1, vec![most as u64 + 1]).unwrap_err(),
    ));
    told
}

pub(super) fn of_groups() -> Vec<Told> {
    let runtime = patient(2);
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let mut comms = Communicator::init_all(&devices).wait().unwrap();
    let [one_comm, other] = &mut comms[..] else { unreachable!("two devices") };
    let streams = devices.each_ref().map(|device| device.stream().unwrap());
    let mut x = devices[0].zeros::<f32>(8, &streams[0]).unwrap();
    let mut y = devices[1].zeros::<f32>(9, &streams[1]).unwrap();
    // The names of these communicators contain numbers.
    let named = |error: Error, comm: &Communicator| error.to_string().replace(comm.name(), "world");
    let mixed = hccl::group(|group| {
        let (one, other) = x.split_at_mut(4)?;
        group.on(one_comm, &streams[0]).recv(one, 1).all_reduce_in_place(other, Sum);
        Ok(())
    });
    let mixed = mixed.unwrap_err();
    let shared = hccl::group(|group| {
        group.on(one_comm, &streams[0]).all_reduce_in_place(&mut x, Sum);
        group.on(other, &streams[0]).all_reduce_in_place(&mut y, Sum);
        Ok(())
    });
    let shared = shared.unwrap_err();
    let second = hccl::group(|group| {
        let (one, other) = x.split_at_mut(4)?;
        group.on(one_comm, &streams[0]).all_reduce_in_place(one, Sum).broadcast(other, 5);
        Ok(())
    });
    let second = named(second.unwrap_err(), one_comm);
    let differ = hccl::group(|group| {
        group.on(one_comm, &streams[0]).all_reduce_in_place(&mut x, Sum);
        group.on(other, &streams[1]).all_reduce_in_place(&mut y, Sum);
        Ok(())
    });
    let differ = named(differ.unwrap_err(), one_comm);
    vec![
        one("messages and collectives in one group", mixed),
        one("two communicators of a group on one stream", shared),
        ("the second operation of a group", vec![("-".into(), second)]),
        ("ranks of a group that disagree", vec![("-".into(), differ)]),
    ]
}

pub(super) fn of_batches() -> Vec<Told> {
    let runtime = patient(2);
    let on =
        |mistake, act: fn(&mut Member) -> Result<Work>| {
            ranks(mistake, &runtime, move |member| {
                if member.rank() == 1 { act(member).map(drop) } else { Ok(()) }
            })
        };
    vec![
        on("a message to a rank that does not exist", |m| {
            let x = m.floats(8);
            m.comm.batch().send(&x, 2).submit(&m.stream)
        }),
        on("two messages to one peer", |m| {
            let x = m.floats(8);
            m.comm.batch().send(&x, 0).send(&x, 0).submit(&m.stream)
        }),
        on("half a message to oneself", |m| {
            let x = m.floats(8);
            m.comm.batch().send(&x, 1).submit(&m.stream)
        }),
        on("unequal halves of a message to oneself", |m| {
            let (x, mut y) = (m.floats(8), m.floats(9));
            m.comm.batch().send(&x, 1).recv(&mut y, 1).submit(&m.stream)
        }),
    ]
}
