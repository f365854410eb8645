//! The entries `HcclSend` and `HcclRecv`, for one message from one rank to another. Both are
//! complete when the message is copied.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Handle;
use super::entries::{Hccl, entries};
use std::ffi::c_void;

use ascend_sys::{HcclDataType, aclrtStream};

use super::hccl_entry::not_null;
use crate::batch::item::{BatchItem, ItemState, MessageShape};
use crate::collective::validate;
use crate::fabric::Member;
use crate::fabric::registry::{IssueState, with_issue_state};
use crate::issue::group;
use crate::issue::post::post;
use crate::issue::submit::{begin, buffer};
use crate::message::{Failure, refuse};
use crate::profile::Product;

entries! {
    Hccl;

    each send in { HcclSend: true, HcclRecv: false }
    fn (
        buf: *mut c_void,
        count: u64,
        dtype: HcclDataType,
        peer: u32,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        MessageArguments { send, buf, count, dtype, peer }.issue(comm, stream)
    }
}

/// The arguments of either function.
struct MessageArguments {
    send: bool,
    buf: *mut c_void,
    count: u64,
    dtype: HcclDataType,
    peer: u32,
}

impl MessageArguments {
    /// Returns the names of the function, of its buffer argument and of its peer argument.
    fn names(&self) -> (&'static str, &'static str, &'static str) {
        if self.send {
            ("HcclSend", "sendBuf", "destRank")
        } else {
            ("HcclRecv", "recvBuf", "srcRank")
        }
    }

    fn issue(&self, comm: Handle<Member>, stream: aclrtStream) -> Result<(), Failure> {
        // A message without elements succeeds at once; it does not even wait for the other side.
        if self.count == 0 {
            return Ok(());
        }
        comm.required("comm")?;
        not_null(self.buf, self.names().1)?;
        with_issue_state(comm.number(), |issue_state| self.issue_at(issue_state, stream))
    }

    fn issue_at(&self, issue_state: &mut IssueState, stream: aclrtStream) -> Result<(), Failure> {
        let Self { send, buf, count, dtype, peer } = *self;
        let (function, buffer_name, peer_name) = self.names();
        let (product, rank, ranks) = (
            issue_state.member.comm.product,
            issue_state.member.rank,
            issue_state.member.comm.ranks(),
        );
        // On Ascend 950, NULL is the default stream.
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
                "{peer_name} is {peer}, which is this rank; use HcclBatchSendRecv or aclrtMemcpyAsync to copy within a device"
            );
        }
        let stream = begin(issue_state, stream)?;
        let in_group = group::is_open();
        // A group combines its messages into a batch.
        let content = MessageShape { dtype, count, alone: !in_group };
        let data = buffer(&issue_state.member, buffer_name, buf, content.bytes())?;
        let from = std::ptr::null_mut();
        let item = BatchItem { send, peer, content, data, from, index: 0, state: ItemState::New };
        if in_group {
            return group::message(issue_state, stream, function, item, post);
        }
        let mut list = issue_state.member.comm.exchange.take_list(rank);
        list.push(item);
        post(issue_state, stream, list, function)
    }
}
