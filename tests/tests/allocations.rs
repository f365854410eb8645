//! After the first rounds, an operation allocates nothing on the thread that issues it and waits
//! for it: not in `hccl` and not in the emulator.

use counting_allocator::on_this_thread;
use futures::executor::block_on;
use hccl::operator::*;
use hccl::prelude::*;

const WARM_UP: usize = 200;
const COUNTED: usize = 200;
const ROUNDS: usize = 10;

#[test]
fn no_operation_allocates_after_warm_up() {
    let runtime = Runtime::emulator(2).unwrap();
    let counts = runtime
        .run_ranks(2, |rank| -> hccl::Result<Vec<(&str, usize, u64)>> {
            let device = rank.device();
            let stream = device.stream()?;
            let other = device.stream()?;
            let data = vec![2.0_f32; 100_000];
            let mut comm = rank.communicator()?;
            let peer = 1 - comm.rank();
            let gather = Operator::all_gather("mesh_all_gather", mesh_all_gather);
            // One size is sent inside the meeting, and the other one is cut into chunks.
            let mut counts = Vec::with_capacity(64);
            for len in [16, 100_000] {
                let send = device.zeros::<f32>(len, &stream)?;
                let mut recv = device.zeros::<f32>(len, &stream)?;
                let mut host = runtime.host_buffer::<f32>(len)?;
                let both = device.zeros::<f32>(2 * len, &stream)?;
                let mut gathered = device.zeros::<f32>(2 * len, &stream)?;
                let (parts, own) = (Partition::even(2 * len, 2), comm.rank() as usize);
                let matrix = CountMatrix::new(2, vec![len as u64; 4]).map_err(hccl::Error::from)?;
                let mut count =
                    |name, operation: &mut dyn FnMut() -> hccl::Result<Work>| -> hccl::Result<()> {
                        for _ in 0..WARM_UP {
                            operation()?.wait()?;
                        }
                        // If a rank loses its core, the other one sleeps, and a list of sleepers
                        // may grow then. An operation that allocates does so in every round.
                        let mut fewest = u64::MAX;
                        for _ in 0..ROUNDS {
                            let before = on_this_thread();
                            for _ in 0..COUNTED {
                                operation()?.wait()?;
                            }
                            fewest = fewest.min(on_this_thread() - before);
                        }
                        counts.push((name, len, fewest));
                        Ok(())
                    };
                count("all_reduce", &mut || comm.all_reduce(&send, &mut recv, Sum, &stream))?;
                count("all_reduce, awaited", &mut || {
                    let mut work = comm.all_reduce(&send, &mut recv, Sum, &stream)?;
                    block_on(&mut work)?;
                    Ok(work)
                })?;
                count("all_reduce_in_place", &mut || {
                    comm.all_reduce_in_place(&mut recv, Max, &stream)
                })?;
                count("broadcast", &mut || comm.broadcast(&mut recv, 0, &stream))?;
                count("reduce", &mut || {
                    comm.reduce(&send, (own == 1).then_some(&mut recv), Sum, 1, &stream)
                })?;
                count("reduce_in_place", &mut || comm.reduce_in_place(&mut recv, Max, 0, &stream))?;
                count("reduce_scatter", &mut || {
                    comm.reduce_scatter(&both, &mut recv, Sum, &stream)
                })?;
                count("reduce_scatter_v", &mut || {
                    comm.reduce_scatter_v(&both, &mut recv, Sum, &parts, &stream)
                })?;
                count("all_gather", &mut || comm.all_gather(&send, &mut gathered, &stream))?;
                count("all_gather_in_place", &mut || {
                    comm.all_gather_in_place(&mut gathered, &stream)
                })?;
                count("all_gather_v", &mut || {
                    comm.all_gather_v(&send, &mut gathered, &parts, &stream)
                })?;
                count("scatter", &mut || {
                    comm.scatter((own == 0).then_some(&both), &mut recv, 0, &stream)
                })?;
                count("all_to_all", &mut || comm.all_to_all(&both, &mut gathered, &stream))?;
                count("all_to_all_v", &mut || {
                    comm.all_to_all_v(&both, &mut gathered, &parts, &parts, &stream)
                })?;
                count("all_to_all_vc", &mut || {
                    comm.all_to_all_vc(&both, &mut gathered, &matrix, &stream)
                })?;
                count("send and recv", &mut || match own {
                    0 => comm.send(&send, peer, &stream),
                    _ => comm.recv(&mut recv, peer, &stream),
                })?;
                count("barrier", &mut || comm.barrier(&stream))?;
                count("batch", &mut || {
                    comm.batch().send(&send, peer).recv(&mut recv, peer).submit(&stream)
                })?;
                count("an operator of one's own", &mut || {
                    comm.run(&gather).input(&send).output(&mut gathered).submit(&stream)
                })?;
                let capture = device.begin_capture()?;
                comm.all_reduce(&send, &mut recv, Sum, &capture)?;
                comm.barrier(&capture)?;
                recv.copy_from(&send, &capture)?;
                comm.batch().send(&send, peer).recv(&mut recv, peer).submit(&capture)?;
                comm.all_gather_v(&send, &mut gathered, &parts, &capture)?;
                comm.all_to_all_vc(&both, &mut gathered, &matrix, &capture)?;
                let mut graph = capture.end()?;
                count("replay", &mut || graph.replay(&stream))?;
                count("copy_from", &mut || recv.copy_from(&send, &stream))?;
                count("copy_from, dropped", &mut || {
                    drop(recv.copy_from(&send, &stream)?);
                    recv.copy_from(&send, &stream)
                })?;
                count("upload", &mut || recv.upload(&data[..len], &stream))?;
                count("copy_from, behind another stream", &mut || {
                    drop(recv.copy_from(&send, &stream)?);
                    recv.copy_from(&send, &other)
                })?;
                count("there and back over pinned memory", &mut || {
                    drop(recv.copy_to(&mut host, &stream)?);
                    assert_eq!(host.as_slice()?.len(), len);
                    drop(recv.copy_from_host(&host, &other)?);
                    recv.copy_from_host(&host, &stream)
                })?;
            }
            Ok(counts)
        })
        .unwrap();
    for (name, len, count) in counts.into_iter().flatten() {
        assert_eq!(count, 0, "{COUNTED} times {name} of {len} elements allocated {count} times");
    }
}

/// Records a mesh all-gather on two threads, one of them only for a copy.
fn mesh_all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let n = op.count();
    main.copy(op.input(), op.buffer().slice(..n));
    main.fork(2, |threads| {
        let [main, sub] = threads.array();
        sub.copy(op.input(), op.output().block(op.rank(), n));
        let channel = op.channel(op.peer(1));
        let exposed = main.expose(channel);
        let access = main.enter(channel);
        main.read(access.buffer().slice(..n), op.output().block(access.peer(), n));
        main.leave(access);
        main.reclaim(exposed);
    });
}
