//! Operations of communicators in graphs: their executions, and the errors if the ranks differ.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::*;
use ascend_emulator_testing::{call, fails, hccl, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Duration;

const INT64: HcclDataType = HcclDataType::HCCL_DATA_TYPE_INT64;

fn begin(stream: aclrtStream) {
    ok!(aclmdlRICaptureBegin(stream, aclmdlRICaptureMode(2)));
}

fn end(stream: aclrtStream) -> aclmdlRI {
    let mut graph = null_mut();
    ok!(aclmdlRICaptureEnd(stream, &mut graph));
    graph
}

fn numbers(rank: &Rank, values: &[i64]) -> *mut c_void {
    rank.upload(&values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>())
}

fn values(buffer: *const c_void, count: usize) -> Vec<i64> {
    let bytes = read(buffer, count * 8);
    bytes.chunks_exact(8).map(|chunk| i64::from_ne_bytes(chunk.try_into().unwrap())).collect()
}

fn all_reduce(rank: &Rank, buffer: *mut c_void, count: u64) {
    hccl!(HcclAllReduce(buffer, buffer, count, INT64, SUM, rank.comm, rank.stream));
}

#[test]
fn collectives_and_messages_run_at_every_execution() {
    on_ranks(3, |rank| {
        let (me, next, previous) = (i64::from(rank.rank), (rank.rank + 1) % 3, (rank.rank + 2) % 3);
        let (large, small) = (numbers(rank, &vec![1; 30_000]), numbers(rank, &[me]));
        let (all, from) = (numbers(rank, &[0; 6]), numbers(rank, &[-1]));
        // The parts are unequal: rank r gives r + 1 elements.
        let own = numbers(rank, &vec![me; rank.rank as usize + 1]);
        let (mut counts, mut at) = ([1u64, 2, 3], [0u64, 1, 3]);
        let own_count = u64::from(rank.rank) + 1;
        begin(rank.stream);
        all_reduce(rank, large, 30_000);
        hccl!(HcclAllGatherV(
            own,
            own_count,
            all,
            counts.as_ptr().cast(),
            at.as_ptr().cast(),
            INT64,
            rank.comm,
            rank.stream
        ));
        let item = |kind, buf, peer| HcclSendRecvItem {
            sendRecvType: kind,
            buf,
            count: 1,
            dataType: INT64,
            remoteRank: peer,
        };
        let mut items = [
            item(HcclSendRecvType::HCCL_SEND, small, next),
            item(HcclSendRecvType::HCCL_RECV, from, previous),
        ];
        hccl!(HcclBatchSendRecv(items.as_mut_ptr(), 2, rank.comm, rank.stream));
        hccl!(HcclBarrier(rank.comm, rank.stream));
        if rank.rank == 0 {
            hccl!(HcclSend(from, 1, INT64, 1, rank.comm, rank.stream));
        } else if rank.rank == 1 {
            hccl!(HcclRecv(small, 1, INT64, 0, rank.comm, rank.stream));
        }
        let graph = end(rank.stream);
        ok!(aclrtSynchronizeStream(rank.stream));
        assert_eq!((values(large, 2), values(from, 1)), (vec![1, 1], vec![-1]));
        // The arrays of the calls were copied when they were captured.
        std::hint::black_box((counts.as_mut_slice(), at.as_mut_slice())).0.fill(9);
        std::hint::black_box(&mut items)[0].count = 9;
        ok!(aclmdlRIExecuteAsync(graph, rank.stream));
        rank.sync();
        assert_eq!(values(all, 6), [0, 1, 1, 2, 2, 2]);
        assert_eq!(
            (values(large, 30_000), values(from, 1)),
            (vec![3; 30_000], vec![previous.into()])
        );
        // Rank 1 has got from rank 0 the data that rank 0 had got from rank 2.
        assert_eq!(values(small, 1), [[0, 2, 2][rank.rank as usize]]);
        // Calls come in between, on any streams, and the numbers of operations continue.
        let other = stream();
        for _ in 0..2 {
            ok!(aclmdlRIExecuteAsync(graph, rank.stream));
            hccl!(HcclAllReduce(large, large, 30_000, INT64, SUM, rank.comm, other));
            ok!(aclmdlRIExecuteAsync(graph, other));
        }
        ok!(aclrtSynchronizeStream(other));
        rank.sync();
        assert_eq!(values(large, 1), [3i64.pow(7)]);
        ok!(aclmdlRIDestroy(graph));
    });
}

#[test]
fn graphs_of_different_captures_do_not_pair() {
    let texts = on_ranks(2, |rank| {
        let buffer = numbers(rank, &[1; 4]);
        let graphs: Vec<aclmdlRI> = (0..2)
            .map(|_| {
                begin(rank.stream);
                all_reduce(rank, buffer, 4);
                end(rank.stream)
            })
            .collect();
        ok!(aclmdlRIExecute(graphs[1], -1));
        ok!(aclmdlRIExecuteAsync(graphs[rank.rank as usize], rank.stream));
        let (code, text) = rank.sync_fails();
        assert_eq!(code, 507018, "{text}");
        graphs.into_iter().for_each(|graph| ok!(aclmdlRIDestroy(graph)));
        text
    });
    for text in texts {
        for piece in
            ["different captures", "capture 1 of the communicator", "capture 2 of the communicator"]
        {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }
}

#[test]
fn a_captured_collective_of_nothing_is_no_first_call() {
    let captured = Barrier::new(2);
    on_ranks(2, |rank| {
        let buffer = numbers(rank, &[1; 4]);
        begin(rank.stream);
        hccl!(HcclBroadcast(buffer, 0, INT64, 0, rank.comm, rank.stream));
        let graph = end(rank.stream);
        captured.wait();
        if rank.rank == 1 {
            // The other rank meets this one in its call, so it needs some time to get there.
            std::thread::sleep(Duration::from_millis(30));
        }
        all_reduce(rank, buffer, 4);
        ok!(aclmdlRIExecuteAsync(graph, rank.stream));
        rank.sync();
        assert_eq!(values(buffer, 4), [2; 4]);
        ok!(aclmdlRIDestroy(graph));
    });
}

#[test]
fn a_replay_does_not_pair_with_a_call() {
    let texts = on_ranks(2, |rank| {
        let buffer = numbers(rank, &[1; 4]);
        begin(rank.stream);
        all_reduce(rank, buffer, 4);
        let graph = end(rank.stream);
        if rank.rank == 0 {
            ok!(aclmdlRIExecuteAsync(graph, rank.stream));
        } else {
            all_reduce(rank, buffer, 4);
        }
        let (_, text) = rank.sync_fails();
        ok!(aclmdlRIDestroy(graph));
        text
    });
    for text in texts {
        assert!(text.contains("not captured") && text.contains("capture 1"), "{text}");
    }
}

#[test]
fn a_graph_does_not_outlive_its_communicator() {
    on_ranks(1, |rank| {
        let buffer = numbers(rank, &[1; 4]);
        let mut comm = null_mut();
        hccl!(HcclCommInitRootInfo(1, &root_info(), 0, &mut comm));
        begin(rank.stream);
        hccl!(HcclAllReduce(buffer, buffer, 4, INT64, SUM, comm, rank.stream));
        let graph = end(rank.stream);
        ok!(aclmdlRIExecute(graph, -1));
        // A successful suspension has a code of its own.
        assert_eq!(call!(HcclCommSuspend(comm)), HcclResult::HCCL_E_SUSPENDING);
        fails!(507011, ["is suspended"], aclmdlRIExecuteAsync(graph, rank.stream));
        hccl!(HcclCommResume(comm));
        ok!(aclmdlRIExecute(graph, -1));
        hccl!(HcclCommDestroy(comm));
        fails!(507011, ["communicator", "destroyed"], aclmdlRIExecuteAsync(graph, rank.stream));
        ok!(aclmdlRIDestroy(graph));
        begin(rank.stream);
        all_reduce(rank, buffer, 4);
        let graph = end(rank.stream);
        rank.free(buffer);
        fails!(
            107000,
            ["node 0", "HcclAllReduce", "freed by aclrtFree"],
            aclmdlRIExecuteAsync(graph, rank.stream)
        );
        ok!(aclmdlRIDestroy(graph));
    });
}
