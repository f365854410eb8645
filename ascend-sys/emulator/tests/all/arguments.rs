//! The mistakes that each operation rejects on each product, and the order of its checks: every
//! mistake alone, and every two mistakes at once.

mod operations;

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::{Rank, on_block};
use ascend_emulator_testing::{hccl, ok, refuses};
use ascend_sys::*;
use operations::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const TOO_MANY: u64 = 0x8_0000_0000;
const RANKS: usize = 3;

/// The arguments of a call. They are correct until a mistake changes them. An operation need not
/// use all of them.
#[derive(Clone)]
struct Arguments {
    send: *mut c_void,
    recv: *mut c_void,
    count: u64,
    recv_count: u64,
    dtype: u32,
    recv_type: u32,
    op: u32,
    peer: u32,
    comm: HcclComm,
    stream: aclrtStream,
    counts: Vec<u64>,
    places: Vec<u64>,
    recv_counts: Vec<u64>,
    recv_places: Vec<u64>,
    matrix: Vec<u64>,
    /// Whether each array is NULL.
    without: [bool; 4],
}

impl Arguments {
    fn list(&self, index: usize) -> *const c_void {
        let lists = [&self.counts, &self.places, &self.recv_counts, &self.recv_places];
        if self.without[index] { null_mut() } else { lists[index].as_ptr().cast() }
    }
}

/// Returns whether the second mistake undoes the first one, or damages the same argument in another
/// way.
fn collide(one: &Mistake, other: &Mistake, arguments: &Arguments) -> bool {
    let (mut a, mut b) = (arguments.clone(), arguments.clone());
    (one.2)(&mut a);
    (other.2)(&mut a);
    (other.2)(&mut b);
    (one.2)(&mut b);
    let view = |a: &Arguments| {
        let numbers =
            [a.count, a.recv_count, a.dtype.into(), a.recv_type.into(), a.op.into(), a.peer.into()];
        let pointers = [a.send, a.recv, a.comm, a.stream];
        let lists =
            [&a.counts, &a.places, &a.recv_counts, &a.recv_places, &a.matrix].map(Vec::clone);
        (numbers, pointers, lists, a.without)
    };
    view(&a) != view(&b)
}

fn arguments(rank: &Rank) -> Arguments {
    Arguments {
        send: rank.upload(&[0; 4096]),
        recv: rank.upload(&[0; 4096]),
        count: 4,
        recv_count: 4,
        dtype: 4,
        recv_type: 4,
        op: 0,
        // This is also the root of rooted operations when the caller is rank 0.
        peer: 0,
        comm: rank.comm,
        stream: rank.stream,
        counts: vec![4, 3, 2],
        places: vec![0, 4, 7],
        recv_counts: vec![1, 3, 2],
        recv_places: vec![0, 4, 7],
        matrix: vec![4, 3, 2, 1, 1, 1, 2, 2, 2],
        without: [false; 4],
    }
}

#[test]
fn every_mistake_alone_and_every_two_at_once() {
    for product in [2, 3, 950] {
        let config = AscendExtBlockConfig { deviceCount: RANKS as u32, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            if rank.rank == 0 {
                let right = arguments(rank);
                for Operation { name, call, mistakes } in operations(product) {
                    let mut right = right.clone();
                    if ["HcclSend", "HcclRecv"].contains(&name) {
                        right.peer = 1;
                    }
                    for (n, first) in mistakes.iter().enumerate() {
                        for second in &mistakes[n..] {
                            // Only the root has this buffer, and in this case the rank is not the
                            // root.
                            let roots = matches!(
                                (name, first.0),
                                ("HcclReduce", "recvBuf NULL") | ("HcclScatter", "sendBuf NULL")
                            );
                            if collide(first, second, &right) || (roots && second.0 == ROOT.0) {
                                continue;
                            }
                            let mut wrong = right.clone();
                            (first.2)(&mut wrong);
                            (second.2)(&mut wrong);
                            let _ = common::message();
                            let code = call(&wrong);
                            let text = common::message();
                            let what =
                                format!("{product}: {name}: {} and {}: {text}", first.0, second.0);
                            assert_eq!(code, first.1, "{what}");
                            assert!(text.starts_with("EI0003: Hccl"), "{what}");
                            assert!(text.contains(name), "{what}");
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn a_count_of_zero_is_looked_at_before_all_else() {
    for product in [2, 3, 950] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let mut a = arguments(rank);
            (a.count, a.recv_count) = (0, 0);
            for Operation { name, call, mistakes } in operations(product) {
                let counted =
                    !name.ends_with('V') && !name.ends_with("VC") && name != "HcclBarrier";
                if !counted {
                    continue;
                }
                for mistake in mistakes.iter().filter(|mistake| !mistake.0.contains("count")) {
                    let mut wrong = a.clone();
                    (mistake.2)(&mut wrong);
                    assert_eq!(call(&wrong).0, 0, "{name}, {}: {}", mistake.0, common::message());
                }
            }
            rank.sync();
        });
    }
}

#[test]
fn types_of_8_bits_by_product() {
    for product in [2, 3, 950] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let mut right = arguments(rank);
            right.counts = vec![4];
            (right.places, right.recv_places) = (vec![0], vec![0]);
            right.recv_counts = vec![4];
            right.matrix = vec![4];
            for Operation { name, call, mistakes } in operations(product) {
                let moves = mistakes.iter().any(|mistake| mistake.0 == TYPE.0)
                    && !mistakes.iter().any(|mistake| mistake.0 == UNSIGNED.0);
                for dtype in 14..=17 {
                    let wrong = Arguments { dtype, recv_type: dtype, ..right.clone() };
                    if moves {
                        let code = call(&wrong);
                        let expected = if product == 950 { 0 } else { NO.0 };
                        assert_eq!(code.0, expected, "{product}: {name}, type {dtype}");
                    }
                }
            }
            rank.sync();
        });
    }
}

#[test]
fn reduce_scatter_with_counts_takes_fewer_types_and_operators() {
    for (product, types, products) in [
        (2, &[0, 1, 2, 3, 4, 11][..], &[][..]),
        (3, &[0, 1, 2, 3, 4, 5, 11], &[]),
        (950, &[0, 1, 2, 3, 4, 5, 11], &[0, 2, 3, 4, 5]),
    ] {
        let config = AscendExtBlockConfig { deviceCount: 1, product, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let mut a = arguments(rank);
            (a.counts, a.places) = (vec![4], vec![0]);
            let call = operations(product).into_iter().find(|op| op.name == "HcclReduceScatterV");
            let call = call.unwrap().call;
            for dtype in 0..18 {
                for op in 0..4 {
                    let code = call(&Arguments { dtype, op, ..a.clone() });
                    let list = if op == 1 { products } else { types };
                    let expected = if list.contains(&dtype) { 0 } else { NO.0 };
                    assert_eq!(code.0, expected, "{product}, type {dtype}, op {op}");
                }
            }
            rank.sync();
        });
    }
}

#[test]
fn what_a_rank_does_not_have_may_be_null() {
    for product in [2, 3, 950] {
        on_block(AscendExtBlockConfig { deviceCount: 2, product, ..Block::config() }, |rank| {
            rank.join();
            without_what_it_has_not(rank);
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

/// Makes calls without the buffers that a rank does not need: a receive buffer on a rank that is
/// not the root, a send buffer on a rank that is not the root, and a side without counts.
fn without_what_it_has_not(rank: &Rank) {
    let (comm, stream, t) = (rank.comm, rank.stream, HcclDataType(4));
    let full = rank.upload(&[0; 64]);
    let on_root = |buffer| if rank.rank == 1 { buffer } else { null_mut() };
    let other = rank.upload(&[0; 64]);
    hccl!(HcclReduce(full, on_root(other), 4, t, HcclReduceOp(0), 1, comm, stream));
    hccl!(HcclScatter(on_root(full), other, 4, t, 1, comm, stream));
    let (counts, places) = ([0u64, 4], [0u64, 0]);
    let (counts, places) = (counts.as_ptr().cast(), places.as_ptr().cast());
    let own = u64::from(rank.rank) * 4;
    hccl!(HcclAllGatherV(on_root(full), own, other, counts, places, t, comm, stream));
    let o = HcclReduceOp(0);
    hccl!(HcclReduceScatterV(full, counts, places, on_root(other), own, t, o, comm, stream));
    let matrix = [0u64, 0, 4, 0];
    let receiver = if rank.rank == 0 { other } else { null_mut() };
    hccl!(HcclAlltoAllVC(on_root(full), matrix.as_ptr().cast(), t, receiver, t, comm, stream));
    // Only rank 1 sends, and only to rank 0.
    let (four, none) = ([4u64, 0], [0u64, 4]);
    let (sends, receives) = if rank.rank == 1 { (four, [0; 2]) } else { ([0; 2], none) };
    let (s, r) = (sends.as_ptr().cast(), receives.as_ptr().cast());
    let sender = on_root(full);
    hccl!(HcclAlltoAllV(sender, s, places, t, receiver, r, places, t, comm, stream));
    // A side with data needs its buffer.
    let (send, recv) = if rank.rank == 1 { (null_mut(), other) } else { (full, null_mut()) };
    let name = if rank.rank == 1 { "sendBuf" } else { "recvBuf" };
    refuses!(
        HCCL_E_PTR,
        [name],
        HcclAlltoAllV(send, s, places, t, recv, r, places, t, comm, stream)
    );
    rank.sync();
}

#[test]
fn a_stream_of_null_is_the_default_stream_on_950() {
    let config = AscendExtBlockConfig { deviceCount: 2, product: 950, ..Block::config() };
    on_block(config, |rank| {
        rank.join();
        let t = HcclDataType(4);
        let a = rank.upload(&[rank.rank as u8 + 1; 64]);
        let b = rank.upload(&[0; 64]);
        hccl!(HcclScatter(a, b, 8, t, 1, rank.comm, null_mut()));
        if rank.rank == 0 {
            hccl!(HcclSend(b, 8, t, 1, rank.comm, null_mut()));
        } else {
            hccl!(HcclRecv(a, 8, t, 0, rank.comm, null_mut()));
        }
        ok!(aclrtSynchronizeStream(null_mut()));
        assert_eq!(rank.download(if rank.rank == 0 { b } else { a }, 32), [2; 32]);
    });
}
