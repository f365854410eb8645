//! What each operation refuses, on each product, and in which order it looks: every mistake alone, and every two at once.

mod common;
mod ranks;

use ascend_sys::*;
use common::Block;
use ranks::{Rank, on_block};
use std::ffi::c_void;
use std::ptr::null_mut;

const TOO_MANY: u64 = 0x8_0000_0000;
const RANKS: usize = 3;

/// The arguments of a call, all of them right. Not every operation has each.
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
    /// Which arrays are NULL.
    without: [bool; 4],
}

impl Arguments {
    fn list(&self, index: usize) -> *const c_void {
        let lists = [&self.counts, &self.places, &self.recv_counts, &self.recv_places];
        if self.without[index] { null_mut() } else { lists[index].as_ptr().cast() }
    }
}

type Call = fn(&Arguments) -> HcclResult;
type Mistake = (&'static str, HcclResult, fn(&mut Arguments));

/// An operation, and its mistakes in the order in which they are found.
struct Operation {
    name: &'static str,
    call: Call,
    mistakes: Vec<Mistake>,
}

const PTR: HcclResult = HcclResult::HCCL_E_PTR;
const PARA: HcclResult = HcclResult::HCCL_E_PARA;
const NO: HcclResult = HcclResult::HCCL_E_NOT_SUPPORT;

const COMM: Mistake = ("comm NULL", PTR, |a| a.comm = null_mut());
const STREAM: Mistake = ("stream NULL", PTR, |a| a.stream = null_mut());
const SEND: Mistake = ("sendBuf NULL", PTR, |a| a.send = null_mut());
const RECV: Mistake = ("recvBuf NULL", PTR, |a| a.recv = null_mut());
const MANY: Mistake = ("a count above the largest", PARA, |a| a.count = TOO_MANY);
const TYPE: Mistake = ("a type without a meaning", NO, |a| (a.dtype, a.recv_type) = (99, 99));
const INT128: Mistake = ("INT128", NO, |a| (a.dtype, a.recv_type) = (12, 12));
const UNSIGNED: Mistake = ("UINT8 reduced", NO, |a| a.dtype = 7);
const PROD: Mistake = ("PROD of BFP16", NO, |a| (a.dtype, a.op) = (11, 1));
const OP: Mistake = ("an operator without a meaning", NO, |a| a.op = 4);
const ROOT: Mistake = ("a root beyond the ranks", PARA, |a| a.peer = RANKS as u32);
const SAME: Mistake = ("one buffer for both", PARA, |a| a.recv = a.send);
const BEYOND: Mistake =
    ("a buffer that is too short", PARA, |a| a.send = a.send.wrapping_add(1 << 20));

fn operations(product: u32) -> Vec<Operation> {
    let mut all = vec![
        Operation {
            name: "HcclAllReduce",
            call: |a| {
                let (t, o) = (HcclDataType(a.dtype), HcclReduceOp(a.op));
                call!(HcclAllReduce(a.send, a.recv, a.count, t, o, a.comm, a.stream))
            },
            mistakes: vec![
                COMM, SEND, RECV, STREAM, MANY, TYPE, INT128, UNSIGNED, PROD, OP, BEYOND,
            ],
        },
        Operation {
            name: "HcclBroadcast",
            call: |a| {
                let t = HcclDataType(a.dtype);
                call!(HcclBroadcast(a.send, a.count, t, a.peer, a.comm, a.stream))
            },
            mistakes: vec![COMM, SEND, STREAM, MANY, TYPE, INT128, ROOT, BEYOND],
        },
        Operation {
            name: "HcclReduce",
            call: |a| {
                let (t, o) = (HcclDataType(a.dtype), HcclReduceOp(a.op));
                call!(HcclReduce(a.send, a.recv, a.count, t, o, a.peer, a.comm, a.stream))
            },
            mistakes: vec![
                COMM, SEND, RECV, STREAM, MANY, TYPE, INT128, UNSIGNED, PROD, OP, ROOT, BEYOND,
            ],
        },
        Operation {
            name: "HcclAllGather",
            call: |a| {
                let t = HcclDataType(a.dtype);
                call!(HcclAllGather(a.send, a.recv, a.count, t, a.comm, a.stream))
            },
            mistakes: vec![COMM, SEND, RECV, STREAM, MANY, TYPE, INT128, BEYOND],
        },
        Operation {
            name: "HcclReduceScatter",
            call: |a| {
                let (t, o) = (HcclDataType(a.dtype), HcclReduceOp(a.op));
                call!(HcclReduceScatter(a.send, a.recv, a.count, t, o, a.comm, a.stream))
            },
            mistakes: vec![
                COMM, SEND, RECV, STREAM, MANY, TYPE, INT128, UNSIGNED, PROD, OP, BEYOND,
            ],
        },
        Operation {
            name: "HcclAlltoAll",
            call: |a| {
                let (t, u) = (HcclDataType(a.dtype), HcclDataType(a.recv_type));
                call!(HcclAlltoAll(a.send, a.count, t, a.recv, a.recv_count, u, a.comm, a.stream))
            },
            mistakes: vec![
                COMM,
                SEND,
                RECV,
                STREAM,
                MANY,
                ("one count above the largest", PARA, |a| a.recv_count = TOO_MANY),
                TYPE,
                INT128,
                ("a count of zero on one side", PARA, |a| a.recv_count = 0),
                ("counts that differ", PARA, |a| a.recv_count = 5),
                ("types that differ", PARA, |a| a.recv_type = 3),
                SAME,
                BEYOND,
            ],
        },
        Operation {
            name: "HcclAllGatherV",
            call: |a| {
                let (t, lists) = (HcclDataType(a.dtype), (a.list(0), a.list(1)));
                call!(HcclAllGatherV(
                    a.send, a.count, a.recv, lists.0, lists.1, t, a.comm, a.stream
                ))
            },
            mistakes: vec![
                COMM,
                ("counts NULL", PTR, |a| a.without[0] = true),
                SEND,
                RECV,
                ("displacements NULL", PTR, |a| a.without[1] = true),
                STREAM,
                MANY,
                ("a listed count above the largest", PARA, |a| a.counts[2] = TOO_MANY),
                TYPE,
                INT128,
                ("the own count is another", PARA, |a| a.counts[0] = 5),
                SAME,
                ("a displacement beyond any memory", PARA, |a| a.places[1] = u64::MAX),
                ("a displacement beyond the buffer", PARA, |a| a.places[1] = 1 << 30),
                BEYOND,
            ],
        },
        Operation {
            name: "HcclReduceScatterV",
            call: |a| {
                let (t, o) = (HcclDataType(a.dtype), HcclReduceOp(a.op));
                let (counts, places) = (a.list(0), a.list(1));
                call!(HcclReduceScatterV(
                    a.send, counts, places, a.recv, a.count, t, o, a.comm, a.stream
                ))
            },
            mistakes: vec![
                COMM,
                ("counts NULL", PTR, |a| a.without[0] = true),
                SEND,
                ("displacements NULL", PTR, |a| a.without[1] = true),
                RECV,
                STREAM,
                MANY,
                ("a listed count above the largest", PARA, |a| a.counts[2] = TOO_MANY),
                TYPE,
                INT128,
                UNSIGNED,
                ("FP64", NO, |a| a.dtype = 10),
                PROD,
                OP,
                ("the own count is another", PARA, |a| a.counts[0] = 5),
                SAME,
                ("a displacement beyond any memory", PARA, |a| a.places[1] = u64::MAX),
                ("a displacement beyond the buffer", PARA, |a| a.places[1] = 1 << 30),
            ],
        },
        Operation {
            name: "HcclAlltoAllV",
            call: |a| {
                let (t, u) = (HcclDataType(a.dtype), HcclDataType(a.recv_type));
                let [sc, sd, rc, rd] = [0, 1, 2, 3].map(|n| a.list(n));
                call!(HcclAlltoAllV(a.send, sc, sd, t, a.recv, rc, rd, u, a.comm, a.stream))
            },
            mistakes: vec![
                COMM,
                ("send counts NULL", PTR, |a| a.without[0] = true),
                ("send displacements NULL", PTR, |a| a.without[1] = true),
                ("receive counts NULL", PTR, |a| a.without[2] = true),
                ("receive displacements NULL", PTR, |a| a.without[3] = true),
                STREAM,
                SEND,
                RECV,
                ("a send count above the largest", PARA, |a| a.counts[2] = TOO_MANY),
                ("a receive count above the largest", PARA, |a| a.recv_counts[2] = TOO_MANY),
                TYPE,
                INT128,
                ("types that differ", PARA, |a| a.recv_type = 3),
                SAME,
                ("a displacement beyond any memory", PARA, |a| a.recv_places[1] = u64::MAX),
                ("a displacement beyond the buffer", PARA, |a| a.places[1] = 1 << 30),
            ],
        },
        Operation {
            name: "HcclAlltoAllVC",
            call: |a| {
                let (t, u) = (HcclDataType(a.dtype), HcclDataType(a.recv_type));
                let matrix = if a.without[0] { null_mut() } else { a.matrix.as_ptr().cast() };
                call!(HcclAlltoAllVC(a.send, matrix, t, a.recv, u, a.comm, a.stream))
            },
            mistakes: vec![
                COMM,
                ("matrix NULL", PTR, |a| a.without[0] = true),
                STREAM,
                SEND,
                RECV,
                ("a count above the largest", PARA, |a| a.matrix[1] = TOO_MANY),
                TYPE,
                INT128,
                ("types that differ", PARA, |a| a.recv_type = 3),
                SAME,
                ("more than the buffer", PARA, |a| a.matrix[2] = 1 << 20),
            ],
        },
        Operation {
            name: "HcclBarrier",
            call: |a| call!(HcclBarrier(a.comm, a.stream)),
            mistakes: vec![COMM, STREAM],
        },
    ];
    // Where 950 takes a stream of NULL as the default stream.
    let stream = (product != 950).then_some(STREAM);
    all.push(Operation {
        name: "HcclScatter",
        call: |a| {
            let t = HcclDataType(a.dtype);
            call!(HcclScatter(a.send, a.recv, a.count, t, a.peer, a.comm, a.stream))
        },
        mistakes: [COMM, RECV, SEND]
            .into_iter()
            .chain(stream)
            .chain([MANY, TYPE, INT128, ROOT, BEYOND])
            .collect(),
    });
    let itself: Mistake = ("itself", NO, |a| a.peer = 0);
    let message = |buffer| -> Vec<Mistake> {
        let first = [COMM, buffer].into_iter().chain(stream);
        first.chain([MANY, TYPE, INT128, ROOT, itself]).collect()
    };
    all.push(Operation {
        name: "HcclSend",
        call: |a| call!(HcclSend(a.send, a.count, HcclDataType(a.dtype), a.peer, a.comm, a.stream)),
        mistakes: message(SEND),
    });
    all.push(Operation {
        name: "HcclRecv",
        call: |a| call!(HcclRecv(a.recv, a.count, HcclDataType(a.dtype), a.peer, a.comm, a.stream)),
        mistakes: message(RECV),
    });
    all
}

/// Whether the second mistake undoes the first, or is the same place made wrong in another way.
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
        // Also the root of rooted operations when the caller is rank 0.
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
                            // A buffer that only the root has, of a rank that is not the root then.
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

/// Receive buffers of others than the root, send buffers of others than the root, and sides without counts.
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
    // Rank 1 sends to rank 0, and nobody anything else.
    let (four, none) = ([4u64, 0], [0u64, 4]);
    let (sends, receives) = if rank.rank == 1 { (four, [0; 2]) } else { ([0; 2], none) };
    let (s, r) = (sends.as_ptr().cast(), receives.as_ptr().cast());
    let sender = on_root(full);
    hccl!(HcclAlltoAllV(sender, s, places, t, receiver, r, places, t, comm, stream));
    // A side that has something needs its buffer.
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
