//! Groups: one thread issues for all ranks of a process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use futures::executor::block_on;
use hccl::batch::Direction;
use hccl::error::Code;
use hccl::group::Recorder;
use hccl::prelude::*;
use hccl::{Error, Result};
use hccl_tests::{Devices, both_backends, products, runtime_with};

/// All ranks, which one thread drives.
struct World {
    devices: Vec<Device>,
    comms: Vec<Communicator>,
    streams: Vec<Stream>,
}

impl World {
    fn new(runtime: &Runtime, ranks: usize) -> World {
        let devices: Vec<Device> = (0..ranks).map(|rank| runtime.device(rank).unwrap()).collect();
        let comms = Communicator::init_all(&devices).wait().unwrap();
        let streams = devices.iter().map(|device| device.stream().unwrap()).collect();
        World { devices, comms, streams }
    }

    /// Makes a buffer for each rank.
    fn upload(&self, data: impl Fn(i32) -> Vec<i32>) -> Vec<DeviceBuffer<i32>> {
        let ranks = self.devices.iter().zip(&self.streams).enumerate();
        ranks
            .map(|(rank, (device, stream))| device.upload(&data(rank as i32), stream).unwrap())
            .collect()
    }

    fn download(&self, buffers: &[DeviceBuffer<i32>]) -> Vec<Vec<i32>> {
        let ranks = buffers.iter().zip(&self.streams);
        ranks.map(|(buffer, stream)| buffer.to_vec(stream).wait().unwrap()).collect()
    }
}

/// The parts of a collective, and its tables of counts.
struct Shares {
    parts: Partition,
    to: [Partition; 2],
    from: [Partition; 2],
    matrix: CountMatrix,
}

type Act = for<'env> fn(
    Recorder<'_, 'env>,
    u32,
    &'env DeviceBuffer<i32>,
    &'env mut DeviceBuffer<i32>,
    &'env Shares,
) -> Result<()>;

/// Every collective on two ranks, which send 0 to 7 and 10 to 17, with the elements that they
/// receive. Elements after these stay unwritten.
const COLLECTIVES: &[(Act, [&[i32]; 2])] = &[
    (
        |on, _, send, recv, _| {
            on.all_reduce(send, recv.slice_mut(..8)?, Sum);
            Ok(())
        },
        [&[10, 12, 14, 16, 18, 20, 22, 24]; 2],
    ),
    (
        |on, _, send, recv, _| {
            on.reduce_scatter(send, recv.slice_mut(..4)?, Max);
            Ok(())
        },
        [&[10, 11, 12, 13], &[14, 15, 16, 17]],
    ),
    (
        |on, rank, send, recv, shares| {
            let parts = &shares.parts;
            on.reduce_scatter_v(send, recv.slice_mut(..parts.count(rank))?, Min, parts);
            Ok(())
        },
        [&[0, 1, 2], &[3, 4, 5, 6, 7]],
    ),
    (
        |on, rank, _, recv, _| {
            // Rank 1 receives a part that rank 0 has not written.
            let part = if rank == 0 { recv.slice_mut(..8)? } else { recv.slice_mut(8..)? };
            on.broadcast(part, 0);
            Ok(())
        },
        [&[], &[]],
    ),
    (
        |on, _, send, recv, _| {
            on.all_gather(send, recv);
            Ok(())
        },
        [&[0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17]; 2],
    ),
    (
        |on, rank, send, recv, shares| {
            let parts = &shares.parts;
            on.all_gather_v(send.slice(..parts.count(rank))?, recv, parts);
            Ok(())
        },
        [&[0, 1, 2, 10, 11, 12, 13, 14]; 2],
    ),
    (
        |on, rank, send, recv, _| {
            on.scatter((rank == 1).then_some(send), recv.slice_mut(..4)?, 1);
            Ok(())
        },
        [&[10, 11, 12, 13], &[14, 15, 16, 17]],
    ),
    (
        |on, _, send, recv, _| {
            on.all_to_all(send, recv.slice_mut(..8)?);
            Ok(())
        },
        [&[0, 1, 2, 3, 10, 11, 12, 13], &[4, 5, 6, 7, 14, 15, 16, 17]],
    ),
    (
        |on, rank, send, recv, shares| {
            let (to, from) = (&shares.to[rank as usize], &shares.from[rank as usize]);
            on.all_to_all_v(send, recv, to, from);
            Ok(())
        },
        [&[0, 10, 11, 12, 13, 14], &[1, 2, 3, 15, 16]],
    ),
    (
        |on, rank, send, recv, Shares { matrix, .. }| {
            on.all_to_all_vc(send, recv.slice_mut(..matrix.received_by(rank))?, matrix);
            Ok(())
        },
        [&[0, 1, 10, 11, 12, 13], &[2, 3, 4, 5, 6, 7, 14, 15, 16, 17]],
    ),
];

#[test]
fn each_collective_from_one_thread() {
    both_backends(|runtime| {
        let mut world = World::new(runtime, 2);
        let send = world.upload(|rank| (0..8).map(|i| 10 * rank + i).collect());
        let partition = |counts: [usize; 2]| Partition::packed(counts).unwrap();
        let shares = Shares {
            parts: partition([3, 5]),
            to: [partition([1, 3]), partition([5, 2])],
            from: [partition([1, 5]), partition([3, 2])],
            matrix: CountMatrix::new(2, vec![2, 6, 4, 4]).unwrap(),
        };
        for (at, (act, expected)) in COLLECTIVES.iter().enumerate() {
            let mut recv = world.upload(|_| vec![-1; 16]);
            let World { comms, streams, .. } = &mut world;
            let work = hccl::group(|group| {
                let ranks = comms.iter_mut().zip(&*streams).zip(send.iter().zip(&mut recv));
                for (rank, ((comm, stream), (send, recv))) in (0..).zip(ranks) {
                    act(group.on(comm, stream), rank, send, recv, &shares)?;
                }
                Ok(())
            });
            work.unwrap().wait().unwrap();
            for (found, expected) in world.download(&recv).iter().zip(expected) {
                assert_eq!(found[..expected.len()], **expected, "collective {at}");
                assert!(found[expected.len()..].iter().all(|&x| x == -1), "collective {at}");
            }
        }
    });
}

/// Records several operations of each communicator, which may be issued in another order. They are
/// numbered in the order in which they were recorded.
#[test]
fn several_operations_of_each_rank() {
    both_backends(|runtime| {
        let mut world = World::new(runtime, 2);
        let x = world.upload(|rank| vec![rank; 4]);
        let mut sums = world.upload(|_| vec![0; 4]);
        let mut maxima = world.upload(|_| vec![0; 1000]);
        let World { comms, streams, .. } = &mut world;
        let work = hccl::group(|group| {
            let ranks = comms.iter_mut().zip(&*streams);
            for ((comm, stream), (x, (sum, max))) in
                ranks.zip(x.iter().zip(sums.iter_mut().zip(&mut maxima)))
            {
                group.on(comm, stream).all_reduce(x, sum, Sum).all_reduce_in_place(max, Max);
            }
            Ok(())
        })
        .unwrap();
        block_on(work).unwrap();
        assert_eq!(world.download(&sums), [[1; 4], [1; 4]]);
        let streams = world.streams;
        let refused = world.comms[0].broadcast(&mut sums[0], 9, &streams[0]).unwrap_err();
        assert_eq!(refused.context().unwrap().sequence, 3);
    });
}

/// Sends messages around a ring. They may be recorded in any order.
#[test]
fn messages_from_one_thread() {
    for product in products() {
        let runtime = Devices::new(3).product(product).runtime();
        let mut world = World::new(&runtime, 3);
        for round in 1..=2 {
            let x = world.upload(|rank| vec![10 * round + rank; 5]);
            let mut y = world.upload(|_| vec![-1; 5]);
            let World { comms, streams, .. } = &mut world;
            let work = hccl::group(|group| {
                let ranks = comms.iter_mut().zip(&*streams).zip(x.iter().zip(&mut y));
                for (rank, ((comm, stream), (x, y))) in (0u32..).zip(ranks) {
                    group.on(comm, stream).send(x, (rank + 1) % 3).recv(y, (rank + 2) % 3);
                }
                Ok(())
            });
            work.unwrap().wait_timeout(Duration::from_secs(60)).unwrap();
            let got = world.download(&y);
            assert_eq!(got, [2, 0, 1].map(|from| vec![10 * round + from; 5]), "{product}");
            assert_eq!(world.comms[1].messages(Direction::Send, 2), round as u64);
            assert_eq!(world.comms[1].messages(Direction::Receive, 0), round as u64);
        }
    }
}

/// Checks that a panic, an error of the closure and a refused operation make no call and use no
/// number.
#[test]
fn what_does_not_end_well_issues_nothing() {
    both_backends(|runtime| {
        let mut world = World::new(runtime, 2);
        let mut x = world.upload(|rank| vec![rank + 1; 4]);
        let World { comms, streams, .. } = &mut world;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            hccl::group(|group| {
                group.on(&mut comms[0], &streams[0]).all_reduce_in_place(&mut x[0], Sum);
                panic!("in the midst")
            })
        }));
        assert!(panicked.is_err());
        let refused = hccl::group(|group| {
            group.on(&mut comms[0], &streams[0]).all_reduce_in_place(&mut x[0], Sum);
            Err(Error::Empty { operation: "test", what: "the list" })
        });
        assert!(matches!(refused, Err(Error::Empty { .. })));
        let refused = hccl::group(|group| {
            let (one, other) = x[0].split_at_mut(2)?;
            let on = group.on(&mut comms[0], &streams[0]);
            on.all_reduce_in_place(one, Sum).broadcast(other, 7);
            Ok(())
        })
        .unwrap_err();
        assert!(refused.to_string().starts_with("the root is 7"), "{refused}");
        assert_eq!(refused.context().unwrap().sequence, 2);

        hccl::group(|group| {
            for ((comm, stream), x) in comms.iter_mut().zip(&*streams).zip(&mut x) {
                group.on(comm, stream).all_reduce_in_place(x, Sum);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(world.download(&x), [[3; 4], [3; 4]]);
        let empty = hccl::group(|_| Ok(())).unwrap();
        assert!(empty.is_done() && empty.wait().is_ok());
    });
}

/// Checks that a group waits on the device for the work of other streams with its buffers.
#[test]
fn a_group_comes_after_what_its_buffers_wait_for() {
    both_backends(|runtime| {
        let mut world = World::new(runtime, 2);
        let mut x = world.upload(|_| vec![1; 1000]);
        let other = world.devices[0].stream().unwrap();
        let (open, gate) = mpsc::channel::<()>();
        drop(other.host_fn(move || _ = gate.recv()).unwrap());
        drop(x[0].upload(&[5; 1000], &other).unwrap());
        let opener = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(open);
        });
        let World { comms, streams, .. } = &mut world;
        let works = hccl::group(|group| {
            for ((comm, stream), x) in comms.iter_mut().zip(&*streams).zip(&mut x) {
                group.on(comm, stream).all_reduce_in_place(x, Sum);
            }
            Ok(())
        });
        assert_eq!(
            works.unwrap().into_iter().map(|work| work.wait()).filter(Result::is_ok).count(),
            2
        );
        assert_eq!(world.download(&x), [[6; 1000], [6; 1000]]);
        opener.join().unwrap();
    });
}

/// Checks a failure at the end of a group. CANN does not report such a failure, but the emulator
/// does.
#[test]
fn a_failure_at_the_end_is_told() {
    let runtime = runtime_with(2);
    let mut world = World::new(&runtime, 2);
    let mut x = world.upload(|rank| vec![0; 4 + rank as usize]);
    let World { comms, streams, .. } = &mut world;
    let error = hccl::group(|group| {
        for ((comm, stream), x) in comms.iter_mut().zip(&*streams).zip(&mut x) {
            group.on(comm, stream).all_reduce_in_place(x, Sum);
        }
        Ok(())
    })
    .unwrap_err();
    assert!(matches!(error.code(), Some(Code::Hccl(1))), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the counts differ") && text.contains("all_reduce #1"), "{text}");
    // A later error of this thread does not repeat that text.
    let later = runtime.device(0).unwrap().alloc::<u8>(1 << 50).unwrap_err().to_string();
    assert!(!later.contains("EI0005"), "{later}");
}
