//! A message of a batch, in the form that `HcclBatchSendRecv` takes.

use std::ffi::c_void;

use ascend_sys::{HcclDataType, HcclSendRecvItem, HcclSendRecvType};

use crate::dtype::DType;
use crate::error::batch::Direction;

/// One message of a batch, in the form that CANN takes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Item(HcclSendRecvItem);

// SAFETY: the pointer is a device address, which the host never dereferences.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

impl Item {
    pub(crate) fn new(
        direction: Direction,
        peer: u32,
        address: *mut c_void,
        count: usize,
        dtype: DType,
    ) -> Self {
        Item(HcclSendRecvItem {
            sendRecvType: match direction {
                Direction::Send => HcclSendRecvType::HCCL_SEND,
                Direction::Receive => HcclSendRecvType::HCCL_RECV,
            },
            buf: address,
            count: count as u64,
            dataType: HcclDataType(dtype.code()),
            remoteRank: peer,
        })
    }

    pub(crate) fn direction(&self) -> Direction {
        if self.0.sendRecvType == HcclSendRecvType::HCCL_SEND {
            Direction::Send
        } else {
            Direction::Receive
        }
    }

    pub(crate) fn peer(&self) -> u32 {
        self.0.remoteRank
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> usize {
        self.0.count as usize
    }

    pub(crate) fn dtype(&self) -> DType {
        // The index is valid: the code of a `DType` is its position in `ALL`, and an item is made
        // only from a `DType`.
        DType::ALL[self.0.dataType.0 as usize]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.count() * self.dtype().size()
    }

    pub(crate) fn address(&self) -> usize {
        self.0.buf as usize
    }
}
