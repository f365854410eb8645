//! Threads, channels and communication buffers of a communicator, and the primitives that are told
//! to a thread.
//!
//! All handles belong to the communicator and go with it; nobody gives them back.

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

// SAFETY: the pointer is only a number here, which is given to CANN.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// The return value of a primitive: a number of `HcclResult`.
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

/// As [`call!`](super::call) for a primitive, whose codes are those of HCCL, though their type is
/// that of AscendCL.
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

/// The type and the operation of a primitive that reduces.
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

/// # Safety of all of these
///
/// The communicator is live, and the handles are of this communicator. The memory that a primitive
/// reads or writes is live memory of the thread's device, or memory that the peer of the channel
/// has exchanged, until the thread has run the primitive.
impl Table {
    /// Returns the own communication buffer, which the first call makes.
    pub(crate) unsafe fn communication_buffer(&self, comm: HcclComm) -> Result<Buffer> {
        let (mut start, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the caller's promise; the out parameters are live locals.
        unsafe { call!(self, HcclGetHcclBuffer, comm, &mut start, &mut bytes) }?;
        Ok(Buffer { start, bytes })
    }

    /// Acquires as many threads as there is room for.
    pub(crate) unsafe fn acquire_threads(
        &self,
        comm: HcclComm,
        engine: CommEngine,
        notifies: u32,
        threads: &mut [ThreadHandle],
    ) -> Result<()> {
        let (count, threads) = (threads.len() as u32, threads.as_mut_ptr());
        // SAFETY: the caller's promise; the array is as long as the call is told.
        unsafe { call!(self, HcclThreadAcquire, comm, engine, count, notifies, threads) }
    }

    /// Returns the communicator's thread for a stream of ours.
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

    /// Returns the stream behind a thread.
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
        // SAFETY: the stream lives as long as the communicator, as the thread's handle does.
        Ok(unsafe { StreamHandle::from_raw(stream) })
    }

    /// Acquires a channel to each of these peers, with the given number of notifies at each end.
    /// Waits for the peers.
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

    /// Returns the communication buffer of the peer.
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

    /// Starts a batch: from here on primitives of this OS thread are gathered.
    #[inline]
    pub(crate) fn start_batch(&self) -> Result<()> {
        // SAFETY: a null tag is the one with which nothing is kept for later.
        unsafe { tell!(self, HcommBatchModeStart, ptr::null()) }
    }

    /// Sends the gathered primitives out. On the OS thread of the start.
    #[inline]
    pub(crate) fn end_batch(&self) -> Result<()> {
        // SAFETY: the tag is that of the start.
        unsafe { tell!(self, HcommBatchModeEnd, ptr::null()) }
    }

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

    /// Reduces `count` elements.
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

    /// Reduces `count` elements of the peer.
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

    /// Reduces `count` elements into those of the peer.
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

    /// Sets a notify of another thread of the rank.
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

    /// Sets a notify at the peer's end.
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

    /// Waits for a notify of the thread, for the given number of seconds; 0: for ever.
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

    /// Waits for a notify at the own end of a channel, for the given number of seconds; 0: for
    /// ever.
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
