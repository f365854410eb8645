//! The entries for primitives that do not block, lists of transfers, and primitives that the host
//! runs itself, as in CANN's `hcomm_primitives.h`.
//!
//! The functions named `Nbi`, and those without a thread, are for channels of Ascend 950 over RoCE
//! that belong to the engine of the host. The calling thread itself runs the functions without a
//! thread, which are complete when they return.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{MOST_ITEMS, Slice};
use super::entries::{Hcomm, entries};
use std::ffi::c_void;

use ascend_sys::{
    ChannelHandle, CommProtocol, HcclResult, HcommBatchTransferDesc, HcommTransferType,
    ThreadHandle,
};

use super::hcomm_transfer::kind;
use crate::callback::primitive_may_block;
use crate::machine;
use crate::message::{Failure, refuse};
use crate::operator::channel::Channel;
use crate::operator::crossing::{Crossing, cross, cross_all};
use crate::operator::engine::OperatorEngine;
use crate::operator::issue::{Limit, Transfer, thread_of};
use crate::operator::now;
use crate::profile::Product;

entries! {
    Hcomm;

    fn HcommWriteWithNotifyNbiOnThread(
        thread: ThreadHandle,
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        len: u64,
        notify: u32,
    ) {
        on_host_thread(thread, channel)?;
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross(ENTRY, thread, channel, Crossing::WriteWithNotify(transfer, notify))
    }

    fn HcommWriteWithNotifyNbi(
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        len: u64,
        notify: u32,
    ) {
        let channel = of_host(channel)?;
        now::check_notify(channel, notify)?;
        now::write(ENTRY, channel, Transfer { dst, src, amount: len, kind: None })?;
        now::record(ENTRY, channel, notify)
    }

    fn HcommChannelNotifyRecord(channel: ChannelHandle, notify: u32) {
        now::record(ENTRY, of_host(channel)?, notify)
    }

    fn HcommChannelNotifyWait(channel: ChannelHandle, notify: u32, timeout: u32) {
        primitive_may_block()?;
        now::wait(ENTRY, of_host(channel)?, notify, Limit::Seconds(timeout))
    }

    /// Only checks the channel: every earlier primitive is complete, so the call need not order
    /// them.
    fn HcommChannelFence(channel: ChannelHandle) {
        of_host(channel).map(drop)
    }

    fn HcommBatchTransferOnThread(
        thread: ThreadHandle,
        channel: ChannelHandle,
        descs: Slice<HcommBatchTransferDesc>[count],
        count: u32,
    ) {
        let product = thread_of(thread)?.product();
        if count == 0 {
            return refuse!(HCCL_E_PARA, "transferDescNum is 0; pass at least one description");
        }
        let descs = descs.required("transferDescs")?;
        let descs = descs.counted(MOST_ITEMS, "transferDescNum", HcclResult::HCCL_E_PARA)?;
        if channel == 0 {
            return refuse!(HCCL_E_PTR, "the channel is 0; pass the handle of a channel");
        }
        let kind = Channel::named(channel)?.kind();
        let over_roce = kind.is_some_and(|(_, over)| over == CommProtocol::COMM_PROTOCOL_ROCE);
        let crossings = descs.iter().map(|desc| {
            let plain = matches!(
                desc.transType,
                HcommTransferType::HCOMM_TRANSFER_TYPE_WRITE
                    | HcommTransferType::HCOMM_TRANSFER_TYPE_READ
            );
            if product != Product::Ascend950 && !(over_roce && plain) {
                return refuse!(
                    HCCL_E_NOT_SUPPORT,
                    "{product} supports only lists of plain writes and reads over ROCE; pass such \
                     a list, or use Ascend 950"
                );
            }
            // SAFETY: the kind of an item determines the member of the union that is read.
            unsafe { crossing(desc) }
        });
        cross_all(ENTRY, thread, channel, "transferDescs", crossings)
    }

    each crossing in {
        HcommWriteNbiOnThread: Crossing::Write,
        HcommReadNbiOnThread: Crossing::Read,
    }
    fn (
        thread: ThreadHandle,
        channel: ChannelHandle,
        dst: *mut c_void,
        src: *const c_void,
        len: u64,
    ) {
        on_host_thread(thread, channel)?;
        let transfer = Transfer { dst, src, amount: len, kind: None };
        cross(ENTRY, thread, channel, crossing(transfer))
    }

    each move_now in { HcommWriteNbi: now::write, HcommReadNbi: now::read }
    fn (channel: ChannelHandle, dst: *mut c_void, src: *const c_void, len: u64) {
        move_now(ENTRY, of_host(channel)?, Transfer { dst, src, amount: len, kind: None })
    }
}

/// Returns a channel of the engine of the host. Only Ascend 950 has these channels, over RoCE.
fn of_host(handle: ChannelHandle) -> Result<&'static Channel, Failure> {
    if handle == 0 {
        return refuse!(HCCL_E_PTR, "the channel is 0; pass the handle of a channel");
    }
    let channel = Channel::named(handle)?;
    let product = machine::device_slot(channel.device()).product();
    match (product, channel.kind()) {
        (Product::Ascend950, Some((OperatorEngine::Cpu, CommProtocol::COMM_PROTOCOL_ROCE))) => {
            Ok(channel)
        }
        _ => refuse!(
            HCCL_E_NOT_SUPPORT,
            "{} on {product} does not support this function; pass a channel of the engine CPU over \
             ROCE on Ascend 950",
            channel.describe()
        ),
    }
}

/// Checks that a thread and a channel belong to the engine of the host.
fn on_host_thread(thread: ThreadHandle, channel: ChannelHandle) -> Result<(), Failure> {
    let thread = thread_of(thread)?;
    of_host(channel)?;
    match thread.owner() {
        Some(owner) if owner.engine == OperatorEngine::Cpu => Ok(()),
        _ => refuse!(
            HCCL_E_NOT_SUPPORT,
            "{} is not a thread of the host; pass a thread of the engine CPU to functions that do \
             not block",
            thread.describe()
        ),
    }
}

/// Returns the operation of one item of a list.
///
/// # Safety
///
/// The member of the union that the kind of the item determines is set.
unsafe fn crossing(desc: &HcommBatchTransferDesc) -> Result<Crossing, Failure> {
    use HcommTransferType as T;
    let info = &desc.transferInfo;
    // SAFETY: the caller's promise.
    unsafe {
        let plain = |dst, src: *mut c_void, len| Transfer { dst, src, amount: len, kind: None };
        Ok(match desc.transType {
            T::HCOMM_TRANSFER_TYPE_WRITE => {
                let it = info.write;
                Crossing::Write(plain(it.dst, it.src, it.len))
            }
            T::HCOMM_TRANSFER_TYPE_READ => {
                let it = info.read;
                Crossing::Read(plain(it.dst, it.src, it.len))
            }
            T::HCOMM_TRANSFER_TYPE_WRITE_REDUCE | T::HCOMM_TRANSFER_TYPE_READ_REDUCE => {
                let it = info.reduce;
                let kind = kind(it.dataType, it.reduceOp)?;
                let transfer = Transfer { dst: it.dst, src: it.src, amount: it.count, kind };
                match desc.transType {
                    T::HCOMM_TRANSFER_TYPE_WRITE_REDUCE => Crossing::Write(transfer),
                    _ => Crossing::Read(transfer),
                }
            }
            T::HCOMM_TRANSFER_TYPE_WRITE_WITH_NOTIFY => {
                let it = info.writeWithNotify;
                Crossing::WriteWithNotify(plain(it.dst, it.src, it.len), it.notifyIdx)
            }
            T::HCOMM_TRANSFER_TYPE_WRITE_REDUCE_WITH_NOTIFY => {
                let it = info.writeReduceWithNotify;
                let kind = kind(it.dataType, it.reduceOp)?;
                let transfer = Transfer { dst: it.dst, src: it.src, amount: it.count, kind };
                Crossing::WriteWithNotify(transfer, it.notifyIdx)
            }
            T::HCOMM_TRANSFER_TYPE_NOTIFY_RECORD => Crossing::Record(info.notifyRecord.notifyIdx),
            other => {
                return refuse!(
                    HCCL_E_PARA,
                    "transType is {}, which is not a kind of transfer; set 0 to 6",
                    other.0
                );
            }
        })
    }
}
