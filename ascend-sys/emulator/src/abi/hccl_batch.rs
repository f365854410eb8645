//! The entry `HcclBatchSendRecv`, which makes a task from the caller's list of items.
//!
//! Messages of one (source, destination) pair are matched in the order of the list; on Ascend 950
//! the larger messages come first. The order between different pairs has no effect.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, MOST_ITEMS, Slice};
use super::entries::{Hccl, entries};
use ascend_sys::{HcclResult, HcclSendRecvItem, HcclSendRecvType, aclrtStream};

use super::hccl_entry::{not_null, product_of_thread};
use crate::batch::item::{self, BatchItem, ItemState, MessageShape};
use crate::collective::validate;
use crate::fabric::Member;
use crate::fabric::registry::{self, IssueState, with_issue_state};
use crate::issue::group;
use crate::issue::post::post;
use crate::issue::submit::{begin, buffer};
use crate::message::{Failure, refuse};
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclBatchSendRecv(
        items: Slice<HcclSendRecvItem, *mut HcclSendRecvItem>[count],
        count: u32,
        comm: Handle<Member>,
        stream: aclrtStream,
    ) {
        // Ascend 950 checks the number before the pointers, A2 and A3 after them.
        if count == 0 && product_of(&comm) == Product::Ascend950 {
            return Ok(());
        }
        comm.required("comm")?;
        not_null(stream, "stream")?;
        let items = items.required("sendRecvInfo")?;
        if count == 0 {
            return Ok(());
        }
        let items = items.counted(MOST_ITEMS, "itemNum", HcclResult::HCCL_E_PARA)?;
        if group::is_open() {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "a group cannot have this call; call HcclSend and HcclRecv in the group instead"
            );
        }
        with_issue_state(comm.number(), |issue_state| issue(issue_state, &items, stream))
    }
}

fn product_of(comm: &Handle<Member>) -> Product {
    registry::member(comm.number())
        .map_or_else(|_| product_of_thread(), |member| member.comm.product)
}

fn issue(
    issue_state: &mut IssueState,
    items: &[HcclSendRecvItem],
    stream: aclrtStream,
) -> Result<(), Failure> {
    let member = &issue_state.member;
    let mut list = member.comm.exchange.take_list(member.rank);
    read(member, items, &mut list)?;
    if list.is_empty() {
        return Ok(());
    }
    let stream = begin(issue_state, stream)?;
    post(issue_state, stream, list, "HcclBatchSendRecv")
}

/// Checks and resolves a list, and pairs the messages of the rank to itself. In the result, the
/// messages of the rank to itself come first, then the receives, then the sends.
fn read(
    member: &Member,
    items: &[HcclSendRecvItem],
    list: &mut Vec<BatchItem>,
) -> Result<(), Failure> {
    for (index, item) in items.iter().enumerate() {
        let item = check(member, index as u32, item)
            .map_err(|failure| failure.of_item(format_args!("item {index}")))?;
        list.extend(item);
    }
    let by_size = member.comm.product == Product::Ascend950;
    item::arrange(member.rank, member.comm.ranks(), by_size, list);
    pair(member.rank, list)
}

/// Checks and resolves one item. Returns `None` for an item without an effect.
fn check(
    member: &Member,
    index: u32,
    item: &HcclSendRecvItem,
) -> Result<Option<BatchItem>, Failure> {
    let product = member.comm.product;
    // A2 and A3 check the buffer first, and keep a message without elements.
    if item.count == 0 && product == Product::Ascend950 {
        return Ok(None);
    }
    not_null(item.buf, "buf")?;
    let send = match item.sendRecvType {
        HcclSendRecvType::HCCL_SEND => true,
        HcclSendRecvType::HCCL_RECV => false,
        other => {
            return refuse!(
                HCCL_E_PARA,
                "sendRecvType is {}; set 0 (send) or 1 (receive)",
                other.0
            );
        }
    };
    validate::rank("remoteRank", item.remoteRank, member.comm.ranks())?;
    validate::count(item.count)?;
    let dtype = validate::movement(product, item.dataType.0)?;
    let content = MessageShape { dtype, count: item.count, alone: false };
    let data = buffer(member, "buf", item.buf, content.bytes())?;
    let from = std::ptr::null_mut();
    Ok(Some(BatchItem {
        send,
        peer: item.remoteRank as usize,
        content,
        data,
        from,
        index,
        state: ItemState::New,
    }))
}

/// Pairs the messages of a rank to itself: the k-th send with the k-th receive. These items are at
/// the front of the list, receives before sends. Each receive gets the buffer of its send, and the
/// sends are removed from the list.
fn pair(rank: usize, list: &mut Vec<BatchItem>) -> Result<(), Failure> {
    let own = |send| list.iter().filter(move |item| item.send == send && item.peer == rank);
    let (sends, receives) = (own(true).count(), own(false).count());
    if sends != receives {
        return refuse!(
            HCCL_E_PARA,
            "the number of sends of rank {rank} to itself is {sends}, but that of its receives \
             from itself is {receives}; pass one receive for each send"
        );
    }
    for k in 0..receives {
        let send = &list[receives + k];
        let (sent, from) = (send.content, send.data);
        let receive = &mut list[k];
        if sent != receive.content {
            return refuse!(
                HCCL_E_PARA,
                "send {k} of rank {rank} to itself is {sent}, but the matching receive is {}; pass \
                 the same count and data type for both",
                receive.content
            );
        }
        receive.from = from;
    }
    list.drain(receives..receives + sends);
    Ok(())
}
