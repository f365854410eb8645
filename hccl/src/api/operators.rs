//! Threads, channels and communication buffers of a communicator, and the primitives that are
//! enqueued on a thread.
//!
//! All handles belong to the communicator, and become invalid when it is destroyed. No function
//! releases them earlier.

use std::ffi::c_void;
use std::ptr;

use ascend_sys::{
    ChannelHandle, CommEngine, CommProtocol, HcclChannelDesc, HcclComm, HcommDataType,
    HcommReduceOp, ThreadHandle, ThreadResType, aclrtStream,
};

use super::handles::StreamHandle;
use super::{Status, Table, call, check};
use crate::dtype::DType;
use crate::error::{Code, Result};

/// The communication buffer of a rank.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) start: *mut c_void,
    pub(crate) bytes: u64,
}

// SAFETY: the host never dereferences the pointer. It only passes the pointer to CANN.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// The return value of a primitive: a code of `HcclResult`, as an `i32`.
#[derive(Clone, Copy)]
struct PrimitiveStatus(i32);

impl Status for PrimitiveStatus {
    #[inline]
    fn is_success(self) -> bool {
        self.0 == 0
    }
    fn code(self) -> Code {
        Code::Hccl(self.0.cast_unsigned())
    }
}

/// Calls a primitive, as [`call!`](super::call) calls other functions. The codes of primitives are
/// those of HCCL, although their type is that of AscendCL.
macro_rules! tell {
    ($table:expr, $function:ident $(, $argument:expr)* $(,)?) => {
        match $table.functions().$function {
            Some(function) => {
                check($table, stringify!($function), PrimitiveStatus(function($($argument),*)))
            }
            None => Err($table.missing(stringify!($function))),
        }
    };
}

/// The element type and the reduction of a primitive that reduces.
pub(crate) type PrimitiveReduction = (DType, ascend_operator::ReduceOp);

fn numbers((dtype, op): PrimitiveReduction) -> (HcommDataType, HcommReduceOp) {
    use ascend_operator::ReduceOp;
    let op = match op {
        ReduceOp::Sum => HcommReduceOp::HCOMM_REDUCE_SUM,
        ReduceOp::Prod => HcommReduceOp::HCOMM_REDUCE_PROD,
        ReduceOp::Max => HcommReduceOp::HCOMM_REDUCE_MAX,
        ReduceOp::Min => HcommReduceOp::HCOMM_REDUCE_MIN,
    };
    (HcommDataType(dtype.code()), op)
}

/// # Safety of all functions in this block
///
/// The communicator is live, and the handles belong to it. The memory that a primitive reads or
/// writes is memory of the thread's device, or memory that the peer of the channel has exchanged.
/// It stays allocated until the thread has run the primitive.
impl Table {
    /// Returns the communication buffer of this rank. The first call allocates the buffer.
    pub(crate) unsafe fn communication_buffer(&self, comm: HcclComm) -> Result<Buffer> {
        let (mut start, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the caller's promise; the out parameters are live locals.
        unsafe { call!(self, HcclGetHcclBuffer, comm, &mut start, &mut bytes) }?;
        Ok(Buffer { start, bytes })
    }

    /// Acquires as many threads as `threads` has elements, each with `notifies` notifies.
    pub(crate) unsafe fn acquire_threads(
        &self,
        comm: HcclComm,
        engine: CommEngine,
        notifies: u32,
        threads: &mut [ThreadHandle],
    ) -> Result<()> {
        let (count, threads) = (threads.len() as u32, threads.as_mut_ptr());
        // SAFETY: the caller's promise; the array has `count` elements.
        unsafe { call!(self, HcclThreadAcquire, comm, engine, count, notifies, threads) }
    }

    /// Returns the communicator's thread for a stream of this crate, with `notifies` notifies.
    #[inline]
    pub(crate) unsafe fn thread_of_stream(
        &self,
        comm: HcclComm,
        stream: aclrtStream,
        notifies: u32,
    ) -> Result<ThreadHandle> {
        let (engine, mut thread) = (CommEngine::COMM_ENGINE_CPU_TS, 0);
        // SAFETY: the caller's promise; the out parameter is a live local.
        unsafe {
            call!(self, HcclThreadAcquireWithStream, comm, engine, stream, notifies, &mut thread)
        }?;
        Ok(thread)
    }

    /// Returns the stream on which a thread runs.
    pub(crate) unsafe fn stream_of_thread(
        &self,
        comm: HcclComm,
        thread: ThreadHandle,
    ) -> Result<StreamHandle> {
        let mut stream = ptr::null_mut();
        let (kind, length) =
            (ThreadResType::THREAD_RES_TYPE_STREAM, size_of::<aclrtStream>() as u32);
        // SAFETY: the caller's promise; the out parameter is a live local of that length.
        unsafe { call!(self, HcclThreadResGetInfo, comm, thread, kind, length, &mut stream) }?;
        // SAFETY: the stream and the thread both live as long as the communicator.
        Ok(unsafe { StreamHandle::from_raw(stream) })
    }

    /// Acquires a channel to each of these peers. A pair in `peers` is the rank of a peer and the
    /// number of notifies at each end. Blocks until the peers have acquired their ends.
    pub(crate) unsafe fn acquire_channels(
        &self,
        comm: HcclComm,
        engine: CommEngine,
        protocol: CommProtocol,
        peers: &[(u32, u32)],
    ) -> Result<Vec<ChannelHandle>> {
        let wanted = peers.iter().map(|(peer, notifies)| HcclChannelDesc {
            remoteRank: *peer,
            channelProtocol: protocol,
            notifyNum: *notifies,
            ..HcclChannelDesc::unset()
        });
        let wanted: Vec<HcclChannelDesc> = wanted.collect();
        let mut channels: Vec<ChannelHandle> = vec![0; peers.len()];
        let (count, to) = (peers.len() as u32, channels.as_mut_ptr());
        // SAFETY: the caller's promise; both arrays have `count` elements.
        unsafe { call!(self, HcclChannelAcquire, comm, engine, wanted.as_ptr(), count, to) }?;
        Ok(channels)
    }

    /// Returns the communication buffer of the peer of a channel.
    pub(crate) unsafe fn remote_buffer(
        &self,
        comm: HcclComm,
        channel: ChannelHandle,
    ) -> Result<Buffer> {
        let (mut start, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the caller's promise; the out parameters are live locals.
        unsafe { call!(self, HcclChannelGetHcclBuffer, comm, channel, &mut start, &mut bytes) }?;
        Ok(Buffer { start, bytes })
    }

    /// Starts a batch: from now on, CANN collects the primitives that this OS thread enqueues.
    #[inline]
    pub(crate) fn start_batch(&self) -> Result<()> {
        // SAFETY: with a null tag, CANN keeps nothing of the batch for later.
        unsafe { tell!(self, HcommBatchModeStart, ptr::null()) }
    }

    /// Ends the batch, and submits the collected primitives. The caller must be the OS thread that
    /// started the batch.
    #[inline]
    pub(crate) fn end_batch(&self) -> Result<()> {
        // SAFETY: the tag is the one of `HcommBatchModeStart`.
        unsafe { tell!(self, HcommBatchModeEnd, ptr::null()) }
    }

    /// Enqueues a copy of `bytes` bytes within the rank.
    #[inline]
    pub(crate) unsafe fn local_copy(
        &self,
        thread: ThreadHandle,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommLocalCopyOnThread, thread, to, from, bytes) }
    }

    /// Enqueues a reduction of `count` elements at `from` into the elements at `to`, within the
    /// rank.
    #[inline]
    pub(crate) unsafe fn local_reduce(
        &self,
        thread: ThreadHandle,
        to: *mut c_void,
        from: *const c_void,
        count: u64,
        reduction: PrimitiveReduction,
    ) -> Result<()> {
        let (dtype, op) = numbers(reduction);
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommLocalReduceOnThread, thread, to, from, count, dtype, op) }
    }

    /// Enqueues a copy of `bytes` bytes from the peer.
    #[inline]
    pub(crate) unsafe fn read(
        &self,
        thread: ThreadHandle,
        channel: ChannelHandle,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommReadOnThread, thread, channel, to, from, bytes) }
    }

    /// Enqueues a copy of `bytes` bytes to the peer.
    #[inline]
    pub(crate) unsafe fn write(
        &self,
        thread: ThreadHandle,
        channel: ChannelHandle,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommWriteOnThread, thread, channel, to, from, bytes) }
    }

    /// Enqueues a reduction of `count` elements of the peer into this rank's elements at `to`.
    #[inline]
    pub(crate) unsafe fn read_reduce(
        &self,
        (thread, channel): (ThreadHandle, ChannelHandle),
        to: *mut c_void,
        from: *const c_void,
        count: u64,
        reduction: PrimitiveReduction,
    ) -> Result<()> {
        let (dtype, op) = numbers(reduction);
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommReadReduceOnThread, thread, channel, to, from, count, dtype, op) }
    }

    /// Enqueues a reduction of `count` elements of this rank into the peer's elements at `to`.
    #[inline]
    pub(crate) unsafe fn write_reduce(
        &self,
        (thread, channel): (ThreadHandle, ChannelHandle),
        to: *mut c_void,
        from: *const c_void,
        count: u64,
        reduction: PrimitiveReduction,
    ) -> Result<()> {
        let (dtype, op) = numbers(reduction);
        // SAFETY: the caller's promise.
        unsafe {
            tell!(self, HcommWriteReduceOnThread, thread, channel, to, from, count, dtype, op)
        }
    }

    /// Makes the thread set a notify of another thread of the rank.
    #[inline]
    pub(crate) unsafe fn record_thread(
        &self,
        thread: ThreadHandle,
        of: ThreadHandle,
        index: u32,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommThreadNotifyRecordOnThread, thread, of, index) }
    }

    /// Makes the thread set a notify at the peer's end of the channel.
    #[inline]
    pub(crate) unsafe fn record_channel(
        &self,
        thread: ThreadHandle,
        channel: ChannelHandle,
        index: u32,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommChannelNotifyRecordOnThread, thread, channel, index) }
    }

    /// Makes the thread wait for one of its notifies, for at most `seconds` seconds; 0 means no
    /// limit.
    #[inline]
    pub(crate) unsafe fn wait_thread(
        &self,
        thread: ThreadHandle,
        index: u32,
        seconds: u32,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommThreadNotifyWaitOnThread, thread, index, seconds) }
    }

    /// Makes the thread wait for a notify at this rank's end of a channel, for at most `seconds`
    /// seconds; 0 means no limit.
    #[inline]
    pub(crate) unsafe fn wait_channel(
        &self,
        thread: ThreadHandle,
        channel: ChannelHandle,
        index: u32,
        seconds: u32,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { tell!(self, HcommChannelNotifyWaitOnThread, thread, channel, index, seconds) }
    }
}
