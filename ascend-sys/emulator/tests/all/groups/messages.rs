//! Tests of messages in groups.

use super::world::World;
use ascend_emulator_testing::common::{self, Block, message};
use ascend_emulator_testing::ranks::{FP32, group_result};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::ffi::c_void;

/// Sends or receives a message of one float.
fn message_of(
    world: &World,
    rank: usize,
    send: bool,
    buffer: *mut c_void,
    peer: u32,
) -> HcclResult {
    world.set(rank);
    let (comm, stream) = (world.comms[rank], world.streams[rank]);
    if send {
        call!(HcclSend(buffer, 1, FP32, peer, comm, stream))
    } else {
        call!(HcclRecv(buffer, 1, FP32, peer, comm, stream))
    }
}

#[test]
fn messages_of_a_group_go_out_together() {
    for product in [2, 3, 950] {
        const RANKS: usize = 4;
        let config = AscendExtBlockConfig { deviceCount: 4, product, ..Block::config() };
        let world = World::with(config);
        let sent: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[rank as f32])).collect();
        let received: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[99.0; 2])).collect();
        // The second time, all the ranks are already connected.
        for _ in 0..2 {
            hccl!(HcclGroupStart());
            for rank in world.ranks() {
                let (left, right) = ((rank + RANKS - 1) % RANKS, (rank + 1) % RANKS);
                // Each rank sends first. Without a group, the ranks would wait for one another in a
                // ring.
                for peer in [left, right] {
                    let code = message_of(&world, rank, true, sent[rank], peer as u32);
                    assert_eq!(code.0, 0, "{}", message());
                }
                for (place, peer) in [left, right].into_iter().enumerate() {
                    let into = received[rank].wrapping_byte_add(4 * place);
                    assert_eq!(message_of(&world, rank, false, into, peer as u32).0, 0);
                }
            }
            hccl!(HcclGroupEnd());
            for rank in world.ranks() {
                world.set(rank);
                ok!(aclrtSynchronizeStream(world.streams[rank]));
                let (left, right) = ((rank + RANKS - 1) % RANKS, (rank + 1) % RANKS);
                let found = world.download(rank, received[rank], 2);
                assert_eq!(found, [left as f32, right as f32], "rank {rank}, product {product}");
            }
        }
        assert_eq!(group_result(4 * RANKS as u32 - 1).0, 0);
    }
}

#[test]
fn messages_on_several_streams_of_a_rank_are_one_batch_that_all_wait_for() {
    let world = World::of(2);
    let buffers: Vec<_> =
        world.ranks().map(|rank| world.upload(rank, &[rank as f32, 10.0 + rank as f32])).collect();
    let into: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[0.0; 2])).collect();
    world.set(0);
    let other = common::stream();
    let comm = world.comms[0];
    hccl!(HcclGroupStart());
    hccl!(HcclSend(buffers[0], 1, FP32, 1, comm, world.streams[0]));
    hccl!(HcclRecv(into[0], 1, FP32, 1, comm, other));
    assert_eq!(message_of(&world, 1, true, buffers[1], 0).0, 0);
    assert_eq!(message_of(&world, 1, false, into[1], 0).0, 0);
    hccl!(HcclGroupEnd());
    world.set(0);
    ok!(aclrtSynchronizeStream(other));
    assert_eq!(world.download(0, into[0], 1), [1.0]);
    world.set(1);
    ok!(aclrtSynchronizeStream(world.streams[1]));
    assert_eq!(world.download(1, into[1], 1), [0.0]);
}

#[test]
fn messages_have_their_own_limits_and_mistakes() {
    let world = World::with(AscendExtBlockConfig {
        deviceCount: 2,
        product: 950,
        connectTimeoutMs: 200,
        ..Block::config()
    });
    let buffer = world.upload(0, &[1.0]);
    hccl!(HcclGroupStart());
    for _ in 0..2048 {
        assert_eq!(message_of(&world, 0, true, buffer, 1).0, 0);
    }
    let (comm, stream) = (world.comms[0], world.streams[0]);
    refuses!(HCCL_E_INTERNAL, ["2048"], HcclSend(buffer, 1, FP32, 1, comm, stream));
    // No rank receives the messages. On this product the end of the group reports that.
    refuses!(HCCL_E_INTERNAL, ["EI0006", "rank 1"], HcclGroupEnd());
    let (code, text) = group_result(2047);
    assert_eq!(HcclResult(code), HcclResult::HCCL_E_TIMEOUT, "{text}");

    // A message of a group does not match a message outside a group.
    let world = World::of(2);
    let buffers: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[1.0])).collect();
    let (comms, streams) = (world.comms.clone(), world.streams.clone());
    std::thread::scope(|scope| {
        let (comm, stream, buffer) = (comms[1] as usize, streams[1] as usize, buffers[1] as usize);
        let device = world.block.first + 1;
        scope.spawn(move || {
            ok!(aclrtSetDevice(device));
            let (comm, stream) = (comm as HcclComm, stream as aclrtStream);
            hccl!(HcclRecv(buffer as *mut c_void, 1, FP32, 0, comm, stream));
            assert_ne!(call!(aclrtSynchronizeStream(stream)), 0);
            assert!(message().contains("EI0005"));
        });
        hccl!(HcclGroupStart());
        assert_eq!(message_of(&world, 0, true, buffers[0], 1).0, 0);
        hccl!(HcclGroupEnd());
        assert_ne!(call!(aclrtSynchronizeStream(streams[0])), 0);
    });

    // Messages and collectives do not match either.
    let world = World::of(2);
    let buffer = world.upload(0, &[1.0]);
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, buffer, 1).0, 0);
    let (comm, stream) = (world.comms[0], world.streams[0]);
    refuses!(HCCL_E_NOT_SUPPORT, ["one purpose"], HcclSend(buffer, 1, FP32, 1, comm, stream));
    let comm = world.comms[1] as usize;
    std::thread::scope(|scope| {
        scope.spawn(move || hccl!(HcclCommDestroy(comm as HcclComm)));
    });
    hccl!(HcclGroupEnd());
}
