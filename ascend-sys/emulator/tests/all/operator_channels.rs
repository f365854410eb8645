//! Tests of channels and communication memory: errors and their codes, how the two ends are
//! matched, and the memory that the ends reach.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common;
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{self, Rank, on_block};
use ascend_emulator_testing::{call, hccl, issue, not_issued, ok, refuses};
use ascend_sys::*;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

/// Calls `HcclChannelAcquire`, and returns its result and the error text.
fn acquire(rank: &Rank, engine: CommEngine, descs: &[HcclChannelDesc]) -> (HcclResult, String) {
    let _ = common::message();
    let mut channels = vec![0; descs.len()];
    let (it, count, to) = (descs.as_ptr(), descs.len() as u32, channels.as_mut_ptr());
    let code = call!(HcclChannelAcquire(rank.comm, engine, it, count, to));
    (code, common::message())
}

fn refused(rank: &Rank, engine: CommEngine, descs: &[HcclChannelDesc], pieces: &[&str]) {
    let (code, text) = acquire(rank, engine, descs);
    assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
    for piece in pieces {
        assert!(text.contains(piece), "{piece:?} is not in: {text}");
    }
}

#[test]
fn what_is_refused_of_channels_and_with_which_code() {
    for product in PRODUCTS {
        // Rank 1 never calls: all mistakes of rank 0 are reported before any wait for rank 1.
        on_product(product, 2, |rank| {
            if rank.rank == 1 {
                return;
            }
            let comm = rank.comm;
            let good = desc(1, protocol_of(product), 1);
            let (it, mut to) = (&raw const good, 0);
            let to = &raw mut to;
            refuses!(HCCL_E_PTR, ["comm"], HcclChannelAcquire(null_mut(), CPU, it, 1, to));
            refuses!(HCCL_E_PTR, ["channelDescs"], HcclChannelAcquire(comm, CPU, null(), 1, to));
            refuses!(HCCL_E_PTR, ["channels"], HcclChannelAcquire(comm, CPU, it, 1, null_mut()));
            refuses!(HCCL_E_PARA, ["channelNum is 0"], HcclChannelAcquire(comm, CPU, it, 0, to));
            let many = (1 << 20) + 1;
            refuses!(HCCL_E_PARA, ["1048576"], HcclChannelAcquire(comm, CPU, it, many, to));
            let mut bad = good;
            bad.header.magicWord = 0x0fcf_0f0f;
            refused(rank, CPU, &[good, bad], &["channelDescs[1]", "HcclChannelDescInit"]);
            for size in [0, 15] {
                bad = good;
                bad.header.size = size;
                refused(rank, CPU, &[bad], &["header.size is", "the header alone has 16"]);
            }
            refused(rank, CPU, &[desc(2, good.channelProtocol, 1)], &["remoteRank 2"]);
            refused(rank, CPU, &[desc(0, good.channelProtocol, 1)], &["this rank itself"]);
            refused(rank, CPU, &[desc(1, good.channelProtocol, 65)], &["65", "at most 64"]);
            refused(rank, CommEngine(6), &[good], &["engine"]);
            refused(rank, CommEngine(-1), &[good], &["engine"]);
            let mut memories = desc(1, if product == 950 { ROCE } else { HCCS }, 1);
            memories.memHandleNum = 1;
            refused(rank, AIV, &[memories], &["memHandleNum is 1", "NULL"]);
            let mut handle: HcclMemHandle = null_mut();
            memories.memHandles = &mut handle;
            memories.memHandleNum = 257;
            refused(rank, AIV, &[memories], &["257"]);
            memories.memHandleNum = 1;
            refused(rank, AIV, &[memories], &["not a handle of memory"]);
            if product != 950 {
                refused(rank, CPU, &[good, good], &["channelDescs[1]", "same protocol"]);
                refused(rank, CCU, &[good], &["CCU"]);
            }
        });
    }
}

#[test]
fn a_description_of_another_version_is_read_as_far_as_it_reaches() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let good = desc(1 - rank.rank, protocol_of(product), 3);
            let mut newer = good;
            (newer.header.version, newer.header.size) = (9, good.header.size + 64);
            // This description ends after the number of notifies, so the fields after that must not
            // be read as a list of memory.
            let mut older = good;
            older.header.size = std::mem::offset_of!(HcclChannelDesc, notifyNum) as u32 + 4;
            (older.memHandles, older.memHandleNum) = (std::ptr::dangling_mut(), 7);
            // The other rank passes the current version, and the two descriptions are compared.
            let said = |version| if rank.rank == 0 { version } else { good };
            channels(rank, CPU_TS, &[said(newer)]);
            let other = if product == 950 { CPU } else { AIV };
            channels(rank, other, &[said(older)]);
        });
    }
}

#[test]
fn each_engine_has_the_protocols_of_its_product() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            if rank.rank == 1 {
                return;
            }
            let engines = [(CPU, 0), (CPU_TS, 1), (AICPU, 2), (AICPU_TS, 3), (AIV, 4)];
            for (engine, number) in engines {
                let taken = (-1..=10).filter(|over| {
                    let (code, text) = acquire(rank, engine, &[desc(1, CommProtocol(*over), 0)]);
                    // An acquisition that is accepted cannot meet its peer, because the other rank
                    // has left.
                    assert!(matches!(code.0, 1 | 21), "{text}");
                    code == HcclResult::HCCL_E_REMOTE
                });
                let expected: &[i32] = match (product, number) {
                    (950, 0 | 1) => &[1],
                    (950, 2 | 3) => &[1, 4, 6, 7, 9],
                    (950, _) => &[1, 4, 6],
                    (_, 4) => &[0, 3, 8],
                    _ => &[0, 1, 3, 8],
                };
                let taken: Vec<i32> = taken.collect();
                assert_eq!(taken, expected, "product {product}, engine {number}");
            }
        });
    }
}

#[test]
fn a_peer_that_does_not_come_is_a_timeout_and_the_next_try_may_succeed() {
    for product in PRODUCTS {
        let config = AscendExtBlockConfig { connectTimeoutMs: 2000, ..block(product, 2) };
        let barrier = Barrier::new(2);
        on_block(config, |rank| {
            rank.join();
            let it = desc(1 - rank.rank, protocol_of(product), 2);
            if rank.rank == 0 {
                let began = Instant::now();
                let (code, text) = acquire(rank, CPU, &[it]);
                assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{text}");
                for piece in ["EI0006", "rank 1 made no channel to rank 0", "within "] {
                    assert!(text.contains(piece), "{text}");
                }
                assert!(began.elapsed() >= Duration::from_secs(2));
            }
            barrier.wait();
            // On a busy machine, one rank may again call too late for the other rank.
            while let (code, text) = acquire(rank, CPU, &[it])
                && code != HcclResult::HCCL_SUCCESS
            {
                assert_eq!(code, HcclResult::HCCL_E_TIMEOUT, "{text}");
            }
            barrier.wait();
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn a_peer_that_is_gone_is_not_waited_for() {
    on_product(3, 2, |rank| {
        if rank.rank == 0 {
            let (code, text) = acquire(rank, CPU, &[desc(1, HCCS, 2)]);
            assert_eq!(code, HcclResult::HCCL_E_REMOTE, "{text}");
            assert!(text.contains("EI0012") && text.contains("rank 1 is gone"), "{text}");
        }
    });
}

#[test]
fn ends_that_differ_are_shown_to_both_ranks() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let peer = 1 - rank.rank;
            let usual = protocol_of(product);
            let other = if product == 950 { UB_CTP } else { ROCE };
            let engine = if product == 950 { AICPU } else { CPU };
            let (mine, theirs) = if rank.rank == 0 { (2, 3) } else { (3, 2) };
            refusal_on_both(rank, engine, desc(peer, usual, mine), &[mine, theirs]);
            let protocol = if rank.rank == 0 { usual } else { other };
            let (code, text) = acquire(rank, engine, &[desc(peer, protocol, 1)]);
            assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
            let over = if product == 950 { "UB_CTP" } else { "HCCS" };
            assert!(
                text.contains("EI0005") && text.contains("ROCE") && text.contains(over),
                "{text}"
            );
            // After the mismatch the rank can try again: the next call is independent of the failed
            // one.
            channels(rank, engine, &[desc(peer, usual, 1)]);
        });
    }
}

fn refusal_on_both(rank: &Rank, engine: CommEngine, it: HcclChannelDesc, notifies: &[u32]) {
    let (code, text) = acquire(rank, engine, &[it]);
    assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
    assert!(text.contains("EI0005"), "{text}");
    for number in notifies {
        assert!(text.contains(&format!("notifyNum {number}")), "{text}");
    }
}

#[test]
fn the_same_channel_is_given_again_and_several_in_one_call_are_apart_on_950() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let peer = 1 - rank.rank;
            let it = desc(peer, protocol_of(product), 2);
            let first = channels(rank, CPU, &[it]);
            assert_eq!(channels(rank, CPU_TS, &[it]), first);
            if product == 950 {
                let three = channels(rank, CPU, &[it, it, it]);
                assert_eq!(three[0], first[0]);
                assert!(three[1] != three[0] && three[2] != three[1] && three[2] != three[0]);
                assert_eq!(channels(rank, CPU, &[it, it]), three[..2]);
                let mut found = [7; 4];
                let asked = [it, it, desc(peer, ROCE, 2), it];
                let to = found.as_mut_ptr();
                hccl!(HcclChannelQuery(rank.comm, CPU, asked.as_ptr(), 4, to));
                assert_eq!(found, [three[0], three[1], three[2], 0]);
                hccl!(HcclChannelQuery(rank.comm, AICPU, asked.as_ptr(), 1, to));
                assert_eq!(found[0], 0);
            } else {
                // A channel over another protocol is another channel. Each rank may order its list
                // differently.
                let roce = desc(peer, ROCE, 2);
                let both = if rank.rank == 0 { [it, roce] } else { [roce, it] };
                let two = channels(rank, CPU, &both);
                assert_eq!(two[rank.rank as usize], first[0]);
                assert_ne!(two[0], two[1]);
                let mut none = 0;
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    ["Ascend 950 does"],
                    HcclChannelQuery(rank.comm, CPU, &it, 1, &mut none)
                );
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    ["Ascend 950 does"],
                    HcclChannelDestroy(rank.comm, first.as_ptr(), 1)
                );
            }
        });
    }
}

#[test]
fn a_mesh_is_acquired_in_any_order() {
    on_product(3, 5, |rank| {
        let mut peers: Vec<u32> = (0..5).filter(|peer| *peer != rank.rank).collect();
        peers.rotate_left(rank.rank as usize % 4);
        let descs: Vec<_> = peers.iter().map(|peer| desc(*peer, HCCS, 1)).collect();
        let all = channels(rank, AICPU, &descs);
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        for channel in &all {
            issue!(HcommChannelNotifyRecordOnThread(thread, *channel, 0));
        }
        for channel in &all {
            issue!(HcommChannelNotifyWaitOnThread(thread, *channel, 0, LONG));
        }
        finish(rank);
    });
}

#[test]
fn only_channels_of_the_collective_unit_are_destroyed() {
    on_product(950, 2, |rank| {
        let peer = 1 - rank.rank;
        // A channel of the CCU always has eight notifies, so the two ranks may ask for different
        // numbers.
        let unit = channels(rank, CCU, &[desc(peer, UB_CTP, rank.rank)])[0];
        let other = channels(rank, CPU, &[desc(peer, ROCE, 1)])[0];
        let thread = threads(rank, CPU, 1, 0)[0];
        issue!(HcommChannelNotifyRecordOnThread(thread, unit, 7));
        issue!(HcommChannelNotifyWaitOnThread(thread, unit, 7, LONG));
        finish(rank);
        let comm = rank.comm;
        refuses!(HCCL_E_PTR, ["channels"], HcclChannelDestroy(comm, null(), 1));
        refuses!(HCCL_E_PARA, ["channelNum"], HcclChannelDestroy(comm, &unit, 0));
        // The call tries to destroy all channels of the list, and reports the first error.
        refuses!(
            HCCL_E_NOT_SUPPORT,
            ["CCU"],
            HcclChannelDestroy(comm, [other, 5, unit].as_ptr(), 3)
        );
        refuses!(HCCL_E_NOT_FOUND, ["channel"], HcclChannelDestroy(comm, &unit, 1));
    });
}

#[test]
fn a_channel_whose_other_end_is_gone_is_made_anew() {
    let barrier = Barrier::new(2);
    on_product(950, 2, |rank| {
        let it = desc(1 - rank.rank, UB_CTP, 8);
        let first = channels(rank, CCU, &[it])[0];
        barrier.wait();
        if rank.rank == 0 {
            hccl!(HcclChannelDestroy(rank.comm, &first, 1));
        }
        barrier.wait();
        let mut found = 7;
        hccl!(HcclChannelQuery(rank.comm, CCU, &it, 1, &mut found));
        assert_eq!(found, 0);
        barrier.wait();
        let second = channels(rank, CCU, &[it])[0];
        assert_ne!(second, first);
        let thread = threads(rank, CPU, 1, 0)[0];
        issue!(HcommChannelNotifyRecordOnThread(thread, second, 3));
        issue!(HcommChannelNotifyWaitOnThread(thread, second, 3, LONG));
        finish(rank);
    });
}

#[test]
fn the_buffer_is_twice_what_the_configuration_says_and_counts_as_memory() {
    for product in PRODUCTS {
        on_block(block(product, 1), |rank| {
            let (mut before, mut after, mut total) = (0, 0, 0);
            let kind = aclrtMemAttr::ACL_HBM_MEM;
            let mut config = ranks::config("sized");
            config.hcclBufferSize = 3;
            let mut comm = null_mut();
            hccl!(HcclCommInitRootInfoConfig(1, &rank.info, 0, &config, &mut comm));
            rank.comm = comm;
            ok!(aclrtGetMemInfo(kind, &mut before, &mut total));
            let (own, size) = buffer(rank);
            assert_eq!(size, 6 << 20);
            assert_eq!(buffer(rank), (own, size));
            ok!(aclrtGetMemInfo(kind, &mut after, &mut total));
            assert_eq!(before - after, 6 << 20);
            let mut unused: *mut c_void = null_mut();
            let (mut n, to) = (0, &raw mut unused);
            refuses!(HCCL_E_PTR, ["comm"], HcclGetHcclBuffer(null_mut(), to, &mut n));
            refuses!(HCCL_E_PTR, ["buffer"], HcclGetHcclBuffer(comm, null_mut(), &mut n));
            refuses!(HCCL_E_PTR, ["size"], HcclGetHcclBuffer(comm, to, null_mut()));
            if product == 950 {
                common::write(at(own, 100_000), &[1; 1000]);
                hccl!(HcclGetHcclBufferCleared(comm, to, &mut n));
                assert_eq!((unused, n), (own, size));
                assert!(common::read(own, 6 << 20).iter().all(|byte| *byte == 0));
            } else {
                refuses!(
                    HCCL_E_NOT_SUPPORT,
                    ["Ascend 950 does"],
                    HcclGetHcclBufferCleared(comm, to, &mut n)
                );
            }
            hccl!(HcclCommDestroy(comm));
            ok!(aclrtGetMemInfo(kind, &mut after, &mut total));
            assert_eq!(before, after);
        });
    }
}

#[test]
fn a_device_without_memory_has_no_buffer() {
    let config = AscendExtBlockConfig { memoryBytes: 128 << 20, ..block(3, 1) };
    on_block(config, |rank| {
        rank.join();
        let (mut address, mut size) = (null_mut(), 0);
        refuses!(
            HCCL_E_MEMORY,
            ["EI0011", "419430400 bytes"],
            HcclGetHcclBuffer(rank.comm, &mut address, &mut size)
        );
        hccl!(HcclCommDestroy(rank.comm));
    });
}

#[test]
fn registered_memory_is_reached_over_a_channel_that_names_it() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let comm = rank.comm;
            let memory = upload(&[rank.rank as u8; 4096]);
            let kind = CommMemType::COMM_MEM_TYPE_DEVICE;
            let mem = CommMem { type_: kind, addr: memory, size: 4096 };
            let mut handle = null_mut();
            let to = &raw mut handle;
            refuses!(HCCL_E_PTR, ["comm"], HcclCommMemReg(null_mut(), c"a".as_ptr(), &mem, to));
            refuses!(HCCL_E_PTR, ["memTag"], HcclCommMemReg(comm, null(), &mem, to));
            refuses!(HCCL_E_PTR, ["mem"], HcclCommMemReg(comm, c"a".as_ptr(), null(), to));
            refuses!(
                HCCL_E_PTR,
                ["memHandle"],
                HcclCommMemReg(comm, c"a".as_ptr(), &mem, null_mut())
            );
            refuses!(HCCL_E_PARA, ["memTag"], HcclCommMemReg(comm, c"".as_ptr(), &mem, to));
            let long = std::ffi::CString::new("x".repeat(256)).unwrap();
            refuses!(HCCL_E_PARA, ["memTag"], HcclCommMemReg(comm, long.as_ptr(), &mem, to));
            let reserved = c"HcclBuffer".as_ptr();
            refuses!(HCCL_E_PARA, ["memTag"], HcclCommMemReg(comm, reserved, &mem, to));
            let empty = CommMem { size: 0, ..mem };
            refuses!(HCCL_E_PARA, ["size is 0"], HcclCommMemReg(comm, c"a".as_ptr(), &empty, to));
            let large = CommMem { size: 4097, ..mem };
            refuses!(
                HCCL_E_PARA,
                ["beyond the end"],
                HcclCommMemReg(comm, c"a".as_ptr(), &large, to)
            );
            let host = CommMem { type_: CommMemType::COMM_MEM_TYPE_HOST, ..mem };
            refuses!(HCCL_E_PARA, ["host memory"], HcclCommMemReg(comm, c"a".as_ptr(), &host, to));
            hccl!(HcclCommMemReg(comm, c"weights".as_ptr(), &mem, to));
            refuses!(HCCL_E_PARA, ["already"], HcclCommMemReg(comm, c"weights".as_ptr(), &mem, to));
            let mut it = desc(1 - rank.rank, if product == 950 { ROCE } else { HCCS }, 2);
            (it.memHandles, it.memHandleNum) = (to, 1);
            let channel = channels(rank, AIV, &[it])[0];
            let (mut count, mut memories, mut tags) = (0, null_mut(), null_mut());
            hccl!(HcclChannelGetRemoteMems(comm, channel, &mut count, &mut memories, &mut tags));
            assert_eq!(count, 2);
            // SAFETY: both arrays have two entries, and they live as long as the channel.
            let (memories, tags) = unsafe {
                (std::slice::from_raw_parts(memories, 2), std::slice::from_raw_parts(tags, 2))
            };
            // SAFETY: each tag is a NUL-terminated string that lives as long as the channel.
            let tags = [tags[0], tags[1]].map(|tag| unsafe { CStr::from_ptr(tag) });
            assert_eq!(tags, [c"HcclBuffer", c"weights"]);
            let theirs = remote_buffer(rank, channel);
            assert_eq!((memories[0].addr, memories[0].size), theirs);
            assert_eq!(memories[1].size, 4096);
            let output = common::malloc(4096);
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            issue!(HcommReadOnThread(thread, channel, output, memories[1].addr, 4096));
            issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
            issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
            finish(rank);
            assert_eq!(common::read(output, 4096), [1 - rank.rank as u8; 4096]);
            // The read would end one byte after the memory that was exchanged.
            not_issued!(
                HCCL_E_PARA,
                ["src", "has exchanged", "\"weights\"", "(4096 bytes)"],
                HcommReadOnThread(thread, channel, output, at(memories[1].addr, 1), 4096)
            );
        });
    }
}

#[test]
fn addresses_that_a_primitive_may_not_name_are_told_with_what_it_may() {
    on_product(3, 2, |rank| {
        let thread = threads(rank, CPU_TS, 1, 0)[0];
        let channel = channels(rank, CPU, &[desc(1 - rank.rank, HCCS, 1)])[0];
        let ((own, size), (theirs, _)) = (buffer(rank), remote_buffer(rank, channel));
        let memory = common::malloc(1000);
        let mut pageable = [0u8; 64];
        let host: *mut c_void = pageable.as_mut_ptr().cast();
        not_issued!(HCCL_E_PTR, ["thread is 0"], HcommLocalCopyOnThread(0, own, memory, 8));
        not_issued!(HCCL_E_PTR, ["dst"], HcommLocalCopyOnThread(thread, null_mut(), memory, 8));
        not_issued!(HCCL_E_PTR, ["src"], HcommLocalCopyOnThread(thread, own, null(), 8));
        not_issued!(HCCL_E_PTR, ["channel is 0"], HcommReadOnThread(thread, 0, own, theirs, 8));
        not_issued!(
            HCCL_E_PARA,
            ["dst", "1 byte beyond the end", "(1000 bytes, by aclrtMalloc)"],
            HcommLocalCopyOnThread(thread, memory, own, 1001)
        );
        not_issued!(
            HCCL_E_PARA,
            ["src", "over a channel"],
            HcommLocalCopyOnThread(thread, memory, theirs, 8)
        );
        not_issued!(HCCL_E_PARA, ["pageable"], HcommLocalCopyOnThread(thread, host, memory, 8));
        not_issued!(
            HCCL_E_PARA,
            ["dst", "\"HcclBuffer\"", "(419430400 bytes)", "beyond the end"],
            HcommWriteOnThread(thread, channel, at(theirs, size as usize - 4), memory, 8)
        );
        // A rank's own buffer is not memory of the peer, and the peer has not exchanged its other
        // memory.
        not_issued!(
            HCCL_E_PARA,
            ["src", "has exchanged", "memory of device"],
            HcommReadOnThread(thread, channel, memory, own, 8)
        );
        let (int32, sum) = (HcommDataType::HCOMM_DATA_TYPE_INT32, HcommReduceOp::HCOMM_REDUCE_SUM);
        not_issued!(
            HCCL_E_PARA,
            ["not aligned"],
            HcommLocalReduceOnThread(thread, at(memory, 2), own, 4, int32, sum)
        );
        // Copies that have nothing to do are accepted.
        issue!(HcommLocalCopyOnThread(thread, memory, own, 0));
        issue!(HcommLocalCopyOnThread(thread, memory, memory, 8));
        issue!(HcommReadOnThread(thread, channel, memory, theirs, 0));
        not_issued!(
            HCCL_E_PARA,
            ["there is no notify 1", "has 1 at each end"],
            HcommChannelNotifyRecordOnThread(thread, channel, 1)
        );
        not_issued!(
            HCCL_E_PARA,
            ["there is no notify 64"],
            HcommChannelNotifyWaitOnThread(thread, channel, 64, 1)
        );
        // This handshake keeps each rank alive until the other rank has made its calls.
        issue!(HcommChannelNotifyRecordOnThread(thread, channel, 0));
        issue!(HcommChannelNotifyWaitOnThread(thread, channel, 0, LONG));
        finish(rank);
    });
}

#[test]
fn types_and_operators_that_are_not_reduced_in_transfer_are_refused() {
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            let thread = threads(rank, CPU_TS, 1, 0)[0];
            let memory = upload(&[1; 64]);
            for dtype in (0..20).chain([255]) {
                for op in [0, 1, 2, 3, 255] {
                    let (kind, how) = (HcommDataType(dtype), HcommReduceOp(op));
                    let to = at(memory, 32);
                    let code = call!(HcommLocalReduceOnThread(thread, to, memory, 1, kind, how));
                    let good = [0, 1, 2, 3, 4, 11].contains(&dtype) && [0, 2, 3].contains(&op);
                    assert_eq!(code, if good { 0 } else { 1 }, "type {dtype}, operator {op}");
                }
            }
            finish(rank);
        });
    }
}

#[test]
fn configurations_of_channels_are_checked() {
    on_product(950, 2, |rank| {
        let mut config = null_mut();
        refuses!(HCCL_E_PTR, ["config"], HcclChannelConfigCreate(null_mut()));
        hccl!(HcclChannelConfigCreate(&mut config));
        let shared = HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE;
        let tag = HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_SHARED_QUEUE_TAG;
        hccl!(HcclChannelConfigSetInt(config, shared, 1));
        hccl!(HcclChannelConfigSetStr(config, tag, c"one".as_ptr()));
        refuses!(HCCL_E_PARA, ["0 or 1"], HcclChannelConfigSetInt(config, shared, 2));
        refuses!(HCCL_E_PARA, ["number"], HcclChannelConfigSetInt(config, tag, 1));
        refuses!(HCCL_E_PARA, ["text"], HcclChannelConfigSetStr(config, shared, c"".as_ptr()));
        refuses!(HCCL_E_PTR, ["value"], HcclChannelConfigSetStr(config, tag, null()));
        let it = desc(1 - rank.rank, ROCE, 1);
        let mut channel = 0;
        hccl!(HcclChannelAcquireWithConfig(rank.comm, CPU, &it, 1, config, &mut channel));
        assert_eq!(channels(rank, CPU, &[it]), [channel]);
        hccl!(HcclChannelConfigDestroy(config));
        refuses!(HCCL_E_PARA, ["is gone"], HcclChannelConfigDestroy(config));
        refuses!(
            HCCL_E_PARA,
            ["is gone"],
            HcclChannelAcquireWithConfig(rank.comm, CPU, &it, 1, config, &mut channel)
        );
    });
}
