//! Values that are dropped, forgotten or left behind by a panic while the device uses them, for
//! every operation of a communicator.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use hccl::Result;
use hccl::operator::Operator;
use hccl::prelude::*;
use hccl_tests::both_backends;

type Buffer = DeviceBuffer<i32>;
type Act = fn(&mut Communicator, &Buffer, &mut Buffer, &Stream) -> Result<Work>;

/// The operations on two ranks, from 8 elements to 8.
const OPERATIONS: &[(&str, Act)] = &[
    ("all_reduce", |comm, x, y, stream| comm.all_reduce(x, y, Sum, stream)),
    ("all_reduce_in_place", |comm, _, y, stream| comm.all_reduce_in_place(y, Sum, stream)),
    ("reduce", |comm, x, y, stream| {
        let recv = (comm.rank() == 1).then_some(y);
        comm.reduce(x, recv, Sum, 1, stream)
    }),
    ("reduce_in_place", |comm, _, y, stream| comm.reduce_in_place(y, Sum, 0, stream)),
    ("reduce_scatter", |comm, x, y, stream| {
        comm.reduce_scatter(x, y.slice_mut(2..6)?, Sum, stream)
    }),
    ("reduce_scatter_in_place", |comm, _, y, stream| comm.reduce_scatter_in_place(y, Sum, stream)),
    ("reduce_scatter_v", |comm, x, y, stream| {
        let parts = Partition::packed([3, 5])?;
        let own = ..parts.count(comm.rank());
        comm.reduce_scatter_v(x, y.slice_mut(own)?, Sum, &parts, stream)
    }),
    ("broadcast", |comm, _, y, stream| comm.broadcast(y, 1, stream)),
    ("all_gather", |comm, x, y, stream| comm.all_gather(x.slice(4..)?, y, stream)),
    ("all_gather_in_place", |comm, _, y, stream| comm.all_gather_in_place(y, stream)),
    ("all_gather_v", |comm, x, y, stream| {
        let parts = Partition::packed([3, 5])?;
        let own = ..parts.count(comm.rank());
        comm.all_gather_v(x.slice(own)?, y, &parts, stream)
    }),
    ("scatter", |comm, x, y, stream| {
        let send = (comm.rank() == 0).then_some(x);
        comm.scatter(send, y.slice_mut(..4)?, 0, stream)
    }),
    ("all_to_all", |comm, x, y, stream| comm.all_to_all(x, y, stream)),
    ("all_to_all_v", |comm, x, y, stream| {
        let parts = Partition::with_displacements([4, 4], [4, 0])?;
        comm.all_to_all_v(x, y, &parts, &parts, stream)
    }),
    ("all_to_all_vc", |comm, x, y, stream| {
        comm.all_to_all_vc(x, y, &CountMatrix::new(2, vec![4; 4])?, stream)
    }),
    ("send and recv", |comm, x, y, stream| match comm.rank() {
        0 => comm.send(x, 1, stream),
        _ => comm.recv(y, 0, stream),
    }),
    ("batch", |comm, x, y, stream| {
        let peer = 1 - comm.rank();
        comm.batch().send(x, peer).recv(y, peer).submit(stream)
    }),
    ("an operator of one's own", |comm, x, y, stream| {
        comm.run(&mesh_all_gather()).input(x.slice(4..)?).output(y).submit(stream)
    }),
];

/// Makes an operator in which each rank reads the elements that the other one exposes, on a thread
/// beside the stream.
fn mesh_all_gather() -> Operator {
    Operator::all_gather("mesh_all_gather", |op, main| {
        let (n, peer) = (op.count(), 1 - op.rank());
        main.copy(op.input(), op.buffer().slice(..n));
        main.fork(2, |threads| {
            let [main, other] = threads.array();
            let exposed = main.expose(op.channel(peer));
            main.copy(op.input(), op.output().block(op.rank(), n));
            let access = other.enter(op.channel(peer));
            other.read(access.buffer().slice(..n), op.output().block(peer, n));
            other.leave(access);
            main.reclaim(exposed);
        });
    })
}

/// The way in which everything except the destination ends.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Dropped,
    Forgotten,
    Panicked,
}

fn buffers(device: &Device, rank: u32, stream: &Stream) -> Result<(Buffer, Buffer)> {
    let numbers = |from: i32| (from..).take(8).collect::<Vec<i32>>();
    let first = 100 * (1 + rank as i32);
    Ok((device.upload(&numbers(first), stream)?, device.upload(&numbers(-first), stream)?))
}

#[test]
fn what_is_in_flight_is_left_alone() {
    both_backends(|runtime| {
        for (name, act) in OPERATIONS {
            for fate in [Fate::Dropped, Fate::Forgotten, Fate::Panicked] {
                let outcome = runtime.run_ranks(2, |rank| in_flight(&rank, *act, fate));
                for (expected, found) in outcome.unwrap() {
                    assert_eq!(found, expected, "{name}, {fate:?}");
                }
            }
        }
    });
}

/// Returns the expected and the actual contents of the destination.
fn in_flight(rank: &Rank, act: Act, fate: Fate) -> Result<(Vec<i32>, Vec<i32>)> {
    let (device, me) = (rank.device(), rank.index());
    let (stream, other) = (device.stream()?, device.stream()?);
    let mut comm = rank.communicator()?;
    // The operation runs once to its end, which also makes the links.
    let (x, mut y) = buffers(device, me, &stream)?;
    act(&mut comm, &x, &mut y, &stream)?.wait()?;
    let expected = y.to_vec(&stream).wait()?;

    let (x, mut y) = buffers(device, me, &stream)?;
    stream.synchronize()?;
    let (open, gate) = mpsc::channel::<()>();
    drop(stream.host_fn(move || _ = gate.recv())?);
    match fate {
        Fate::Dropped => {
            drop(act(&mut comm, &x, &mut y, &stream)?);
            drop((x, comm));
        }
        Fate::Forgotten => {
            std::mem::forget(act(&mut comm, &x, &mut y, &stream)?);
            std::mem::forget((x, comm));
        }
        Fate::Panicked => {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let (x, mut comm) = (x, comm);
                let _work = act(&mut comm, &x, &mut y, &stream);
                std::panic::resume_unwind(Box::new(()));
            }));
            assert!(panicked.is_err());
        }
    }
    // New allocations do not get memory that an operation in flight uses.
    for _ in 0..4 {
        drop(device.upload(&[7_777; 8], &other)?);
        drop(device.upload(&[7_777; 8], &other)?);
        other.synchronize()?;
    }
    drop(open);
    let found = y.to_vec(&stream).wait()?;
    Ok((expected, found))
}
