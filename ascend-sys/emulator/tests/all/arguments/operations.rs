//! Every operation, with its mistakes in the order in which they are found.

use super::*;
use ascend_emulator_testing::call;

pub type Call = fn(&Arguments) -> HcclResult;
pub type Mistake = (&'static str, HcclResult, fn(&mut Arguments));

/// An operation, with its mistakes in the order in which they are found.
pub struct Operation {
    pub name: &'static str,
    pub call: Call,
    pub mistakes: Vec<Mistake>,
}

pub const PTR: HcclResult = HcclResult::HCCL_E_PTR;
pub const PARA: HcclResult = HcclResult::HCCL_E_PARA;
pub const NO: HcclResult = HcclResult::HCCL_E_NOT_SUPPORT;

const COMM: Mistake = ("comm NULL", PTR, |a| a.comm = null_mut());
const STREAM: Mistake = ("stream NULL", PTR, |a| a.stream = null_mut());
const SEND: Mistake = ("sendBuf NULL", PTR, |a| a.send = null_mut());
const RECV: Mistake = ("recvBuf NULL", PTR, |a| a.recv = null_mut());
const MANY: Mistake = ("a count above the largest", PARA, |a| a.count = TOO_MANY);
pub const TYPE: Mistake = ("a type without a meaning", NO, |a| (a.dtype, a.recv_type) = (99, 99));
const INT128: Mistake = ("INT128", NO, |a| (a.dtype, a.recv_type) = (12, 12));
pub const UNSIGNED: Mistake = ("UINT8 reduced", NO, |a| a.dtype = 7);
const PROD: Mistake = ("PROD of BFP16", NO, |a| (a.dtype, a.op) = (11, 1));
const OP: Mistake = ("an operator without a meaning", NO, |a| a.op = 4);
pub const ROOT: Mistake = ("a root beyond the ranks", PARA, |a| a.peer = RANKS as u32);
const SAME: Mistake = ("one buffer for both", PARA, |a| a.recv = a.send);
const BEYOND: Mistake =
    ("a buffer that is too short", PARA, |a| a.send = a.send.wrapping_add(1 << 20));

pub fn operations(product: u32) -> Vec<Operation> {
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
    // A 950 takes a NULL stream as the default stream.
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
    let itself: Mistake = ("which is this rank", NO, |a| a.peer = 0);
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
