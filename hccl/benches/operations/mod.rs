//! The table of operations, each as a safe call and as the C call that it makes.

use std::ffi::c_void;

use ascend_sys::{
    Functions, HcclDataType, HcclReduceOp, HcclResult, HcclSendRecvItem, HcclSendRecvType,
    aclrtMemcpyKind,
};
use hccl::prelude::*;

/// The number of elements of a block.
const COUNT: u64 = 4;
const TYPE: HcclDataType = HcclDataType::HCCL_DATA_TYPE_FP32;
const SUM: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_SUM;

/// One rank with the handles for either kind of call.
pub struct Side {
    comm: Communicator,
    stream: Stream,
    table: Functions,
    peer: u32,
    /// The data that the rank sends, one block. `recv` is another block, and `whole` and `gathered`
    /// have one block for each rank.
    send: DeviceBuffer<f32>,
    recv: DeviceBuffer<f32>,
    whole: DeviceBuffer<f32>,
    gathered: DeviceBuffer<f32>,
    parts: Partition,
    matrix: CountMatrix,
    counts: Vec<u64>,
    displacements: Vec<u64>,
    items: [HcclSendRecvItem; 2],
}

pub type Call = fn(&mut Side) -> hccl::Result<()>;

pub struct Operation {
    pub name: &'static str,
    /// Whether the operation is a message to another rank.
    pub needs_peer: bool,
    pub safe: Call,
    pub raw: Call,
}

impl Side {
    pub fn new(rank: &Rank) -> hccl::Result<Self> {
        crate::pin::pin(rank.index() as usize);
        let stream = rank.device().stream()?;
        let comm = rank.communicator()?;
        let ranks = comm.world_size();
        let all = COUNT as usize * ranks as usize;
        let block = || rank.device().zeros::<f32>(COUNT as usize, &stream);
        let (send, recv) = (block()?, block()?);
        let peer = ranks - 1 - comm.rank();
        let item = |kind, buf| {
            #[rustfmt::skip]
            let item = HcclSendRecvItem { sendRecvType: kind, buf, count: COUNT, dataType: TYPE, remoteRank: peer };
            item
        };
        let items = [
            item(HcclSendRecvType::HCCL_SEND, send.as_ptr()),
            item(HcclSendRecvType::HCCL_RECV, recv.as_ptr()),
        ];
        Ok(Side {
            table: ascend_emulator::table(),
            peer,
            send,
            recv,
            whole: rank.device().zeros(all, &stream)?,
            gathered: rank.device().zeros(all, &stream)?,
            parts: Partition::even(all, ranks),
            matrix: CountMatrix::new(ranks, vec![COUNT; (ranks * ranks) as usize])
                .map_err(hccl::Error::from)?,
            counts: vec![COUNT; ranks as usize],
            displacements: (0..u64::from(ranks)).map(|rank| rank * COUNT).collect(),
            items,
            comm,
            stream,
        })
    }

    /// Waits until all operations on the stream are complete. Issues a safe operation last and
    /// waits for it, because `hccl` does not know of the raw operations.
    pub fn settle(&mut self) -> hccl::Result<()> {
        self.comm.barrier(&self.stream)?.wait()
    }

    fn is_root(&self) -> bool {
        self.comm.rank() == 0
    }

    fn counts(&self) -> (*const c_void, *const c_void) {
        (self.counts.as_ptr().cast(), self.displacements.as_ptr().cast())
    }
}

/// Makes an [`Operation`]. The arguments are: the name, whether it needs a peer, the side, the safe
/// call, and the C function with its arguments without the communicator and the stream.
macro_rules! operation {
    ($name:literal, $peer:literal, $side:ident, $safe:expr, $function:ident($($argument:expr),* $(,)?)) => {
        Operation {
            name: $name,
            needs_peer: $peer,
            safe: |$side| {
                drop($safe?);
                Ok(())
            },
            raw: |$side| {
                let function = $side.table.$function.expect("the emulator has it");
                // SAFETY: the handles are live. The buffers and tables are as long as the operation
                // needs, and they are kept until the stream has been synchronised.
                let code = unsafe { function($($argument,)* $side.comm.as_raw(), $side.stream.as_raw()) };
                assert_eq!(code, HcclResult::HCCL_SUCCESS);
                Ok(())
            },
        }
    };
}

pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "copy",
        needs_peer: false,
        safe: |s| {
            drop(s.recv.copy_from(&s.send, &s.stream)?);
            Ok(())
        },
        raw: |s| {
            let copy = s.table.aclrtMemcpyAsync.expect("the emulator copies");
            let (to, from, bytes) = (s.recv.as_ptr(), s.send.as_ptr(), 4 * COUNT as usize);
            let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
            // SAFETY: both buffers have `bytes` bytes and are kept until the stream has been
            // synchronised.
            assert_eq!(unsafe { copy(to, bytes, from, bytes, kind, s.stream.as_raw()) }, 0);
            Ok(())
        },
    },
    Operation {
        name: "fill",
        needs_peer: false,
        safe: |s| {
            drop(s.recv.fill_zero(&s.stream)?);
            Ok(())
        },
        raw: |s| {
            let fill = s.table.aclrtMemsetAsync.expect("the emulator fills");
            let (to, bytes) = (s.recv.as_ptr(), 4 * COUNT as usize);
            // SAFETY: the buffer has `bytes` bytes and is kept until the stream has been
            // synchronised.
            assert_eq!(unsafe { fill(to, bytes, 0, bytes, s.stream.as_raw()) }, 0);
            Ok(())
        },
    },
    operation!(
        "all_reduce",
        false,
        s,
        s.comm.all_reduce(&s.send, &mut s.recv, Sum, &s.stream),
        HcclAllReduce(s.send.as_ptr(), s.recv.as_ptr(), COUNT, TYPE, SUM)
    ),
    operation!(
        "all_reduce_in_pl.",
        false,
        s,
        s.comm.all_reduce_in_place(&mut s.recv, Sum, &s.stream),
        HcclAllReduce(s.recv.as_ptr(), s.recv.as_ptr(), COUNT, TYPE, SUM)
    ),
    operation!(
        "reduce",
        false,
        s,
        {
            let recv = s.is_root().then_some(&mut s.recv);
            s.comm.reduce(&s.send, recv, Sum, 0, &s.stream)
        },
        HcclReduce(s.send.as_ptr(), s.recv.as_ptr(), COUNT, TYPE, SUM, 0)
    ),
    operation!(
        "reduce_scatter",
        false,
        s,
        s.comm.reduce_scatter(&s.whole, &mut s.recv, Sum, &s.stream),
        HcclReduceScatter(s.whole.as_ptr(), s.recv.as_ptr(), COUNT, TYPE, SUM)
    ),
    operation!(
        "reduce_scatter_v",
        false,
        s,
        s.comm.reduce_scatter_v(&s.whole, &mut s.recv, Sum, &s.parts, &s.stream),
        HcclReduceScatterV(
            s.whole.as_ptr(),
            s.counts().0,
            s.counts().1,
            s.recv.as_ptr(),
            COUNT,
            TYPE,
            SUM
        )
    ),
    operation!(
        "broadcast",
        false,
        s,
        s.comm.broadcast(&mut s.recv, 0, &s.stream),
        HcclBroadcast(s.recv.as_ptr(), COUNT, TYPE, 0)
    ),
    operation!(
        "all_gather",
        false,
        s,
        s.comm.all_gather(&s.send, &mut s.gathered, &s.stream),
        HcclAllGather(s.send.as_ptr(), s.gathered.as_ptr(), COUNT, TYPE)
    ),
    operation!(
        "all_gather_v",
        false,
        s,
        s.comm.all_gather_v(&s.send, &mut s.gathered, &s.parts, &s.stream),
        HcclAllGatherV(
            s.send.as_ptr(),
            COUNT,
            s.gathered.as_ptr(),
            s.counts().0,
            s.counts().1,
            TYPE
        )
    ),
    operation!(
        "scatter",
        false,
        s,
        {
            let send = s.is_root().then_some(&s.whole);
            s.comm.scatter(send, &mut s.recv, 0, &s.stream)
        },
        HcclScatter(s.whole.as_ptr(), s.recv.as_ptr(), COUNT, TYPE, 0)
    ),
    operation!(
        "all_to_all",
        false,
        s,
        s.comm.all_to_all(&s.whole, &mut s.gathered, &s.stream),
        HcclAlltoAll(s.whole.as_ptr(), COUNT, TYPE, s.gathered.as_ptr(), COUNT, TYPE)
    ),
    operation!(
        "all_to_all_v",
        false,
        s,
        s.comm.all_to_all_v(&s.whole, &mut s.gathered, &s.parts, &s.parts, &s.stream),
        HcclAlltoAllV(
            s.whole.as_ptr(),
            s.counts().0,
            s.counts().1,
            TYPE,
            s.gathered.as_ptr(),
            s.counts().0,
            s.counts().1,
            TYPE
        )
    ),
    operation!(
        "all_to_all_vc",
        false,
        s,
        s.comm.all_to_all_vc(&s.whole, &mut s.gathered, &s.matrix, &s.stream),
        HcclAlltoAllVC(
            s.whole.as_ptr(),
            [COUNT; 4].as_ptr().cast(),
            TYPE,
            s.gathered.as_ptr(),
            TYPE
        )
    ),
    operation!("barrier", false, s, s.comm.barrier(&s.stream), HcclBarrier()),
    Operation {
        name: "send",
        needs_peer: true,
        safe: |s| match s.is_root() {
            true => s.comm.send(&s.send, s.peer, &s.stream).map(drop),
            false => s.comm.recv(&mut s.recv, s.peer, &s.stream).map(drop),
        },
        raw: |s| {
            let send = s.table.HcclSend.expect("the emulator has it");
            let (comm, stream) = (s.comm.as_raw(), s.stream.as_raw());
            // SAFETY: the same argument as for the collectives.
            let code = unsafe { send(s.send.as_ptr(), COUNT, TYPE, s.peer, comm, stream) };
            assert_eq!(code, HcclResult::HCCL_SUCCESS);
            Ok(())
        },
    },
    Operation {
        name: "recv",
        needs_peer: true,
        safe: |s| match s.is_root() {
            true => s.comm.recv(&mut s.recv, s.peer, &s.stream).map(drop),
            false => s.comm.send(&s.send, s.peer, &s.stream).map(drop),
        },
        raw: |s| {
            let recv = s.table.HcclRecv.expect("the emulator has it");
            let (comm, stream) = (s.comm.as_raw(), s.stream.as_raw());
            // SAFETY: the same argument as for the collectives.
            let code = unsafe { recv(s.recv.as_ptr(), COUNT, TYPE, s.peer, comm, stream) };
            assert_eq!(code, HcclResult::HCCL_SUCCESS);
            Ok(())
        },
    },
    operation!(
        "batch of 2",
        false,
        s,
        s.comm.batch().send(&s.send, s.peer).recv(&mut s.recv, s.peer).submit(&s.stream),
        HcclBatchSendRecv(s.items.as_mut_ptr(), 2)
    ),
];
