//! `HcclSend` and `HcclRecv`: one message, from one rank to another. Both are complete when it is copied.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::c_void;

use ascend_sys::{Functions, HcclComm, HcclDataType, HcclResult, aclrtStream};

use super::hccl_batch::post;
use super::hccl_entry::{door, not_null};
use super::hccl_issue::{begin, buffer};
use crate::batch::{BatchItem, ItemState, MessageShape};
use crate::collective::validate::{self, Refusal, refuse};
use crate::fabric::group;
use crate::fabric::registry::{Desk, with_desk};
use crate::profile::Product;

pub(super) fn fill(table: &mut Functions) {
    table.HcclSend = Some(HcclSend);
    table.HcclRecv = Some(HcclRecv);
}

unsafe extern "C" fn HcclSend(
    buf: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    peer: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult {
    let message = MessageArguments { send: true, buf, count, dtype, peer };
    door("HcclSend", || message.issue(comm, stream))
}

unsafe extern "C" fn HcclRecv(
    buf: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    peer: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> HcclResult {
    let message = MessageArguments { send: false, buf, count, dtype, peer };
    door("HcclRecv", || message.issue(comm, stream))
}

/// The arguments of either.
struct MessageArguments {
    send: bool,
    buf: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    peer: u32,
}

impl MessageArguments {
    /// The names of the function and of its arguments.
    fn names(&self) -> (&'static str, &'static str, &'static str) {
        if self.send {
            ("HcclSend", "sendBuf", "destRank")
        } else {
            ("HcclRecv", "recvBuf", "srcRank")
        }
    }

    fn issue(&self, comm: HcclComm, stream: aclrtStream) -> Result<(), Refusal> {
        // There is nothing to wait for, not even for the other side.
        if self.count == 0 {
            return Ok(());
        }
        not_null(comm, "comm")?;
        not_null(self.buf, self.names().1)?;
        with_desk(comm as u64, |desk| self.issue_at(desk, stream))
    }

    fn issue_at(&self, desk: &mut Desk, stream: aclrtStream) -> Result<(), Refusal> {
        let Self { send, buf, count, dtype, peer } = *self;
        let (function, buffer_name, peer_name) = self.names();
        let (product, rank, ranks) =
            (desk.member.comm.product, desk.member.rank, desk.member.comm.ranks());
        // 950 does not ask: there it is the default stream.
        if product != Product::Ascend950 {
            not_null(stream, "stream")?;
        }
        validate::count(count)?;
        let dtype = validate::movement(product, dtype.0)?;
        validate::rank(peer_name, peer, ranks)?;
        let peer = peer as usize;
        if ranks == 1 {
            return Ok(());
        }
        if peer == rank {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "{peer_name} is {peer}, this rank itself; HcclBatchSendRecv and aclrtMemcpyAsync copy within a device"
            );
        }
        let stream = begin(desk, stream)?;
        let in_group = group::is_open();
        // A group makes a batch of its messages.
        let content = MessageShape { dtype, count, alone: !in_group };
        let data = buffer(&desk.member, buffer_name, buf, content.bytes())?;
        let from = std::ptr::null_mut();
        let item = BatchItem { send, peer, content, data, from, index: 0, state: ItemState::New };
        if in_group {
            return group::message(desk, stream, function, item, post);
        }
        let mut list = desk.member.comm.exchange.take_list(rank);
        list.push(item);
        post(desk, stream, list, function)
    }
}
