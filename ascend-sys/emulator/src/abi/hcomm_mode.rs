//! The entries for the batch mode, fences and time limits of primitives, as in CANN's
//! `hcomm_primitives.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::CText;
use super::entries::{Hcomm, entries};
use std::time::Duration;

use ascend_sys::{ChannelHandle, CommProtocol, ThreadHandle};

use super::hccl_entry::product_of;
use crate::callback::primitive_may_block;
use crate::fabric::registry;
use crate::message::{Failure, refuse};
use crate::operator::batch_mode;
use crate::operator::channel::Channel;
use crate::operator::engine::OperatorEngine;
use crate::operator::issue::{self, thread_of};
use crate::profile::Product;
use crate::{context, executor, machine};

entries! {
    Hcomm;

    fn HcommBatchModeStart(tag: CText) {
        batch_mode::start(given(&tag))
    }

    fn HcommBatchModeEnd(tag: CText) {
        batch_mode::end(given(&tag).as_deref())
    }

    /// Only checks the name: on the host a communicator needs no lock, because each call has its
    /// own state.
    fn HcommAcquireComm(name: CText) {
        is_there(&name)
    }

    /// Only checks the name, as `HcommAcquireComm` does.
    fn HcommReleaseComm(name: CText) {
        is_there(&name)
    }

    /// Only checks the arguments, because the tasks of a thread run in order anyway.
    fn HcommFenceOnThread(thread: ThreadHandle) {
        let thread = thread_of(thread)?;
        match (thread.product(), thread.owner().map(|owner| owner.engine)) {
            (Product::Ascend950, Some(OperatorEngine::Cpu)) => Ok(()),
            (product, _) => refuse!(
                HCCL_E_NOT_SUPPORT,
                "{} on {product} has no fences; use a thread of the engine CPU on Ascend 950",
                thread.describe()
            ),
        }
    }

    /// Only checks the arguments, because the tasks of a thread run in order anyway.
    fn HcommChannelFenceOnThread(thread: ThreadHandle, channel: ChannelHandle) {
        let product = product_of(thread)?;
        issue::channel_of(thread_of(thread)?, channel)?;
        match product {
            Product::Ascend950 => Ok(()),
            _ => refuse!(
                HCCL_E_NOT_SUPPORT,
                "{product} has no channel fences, but Ascend 950 does; call this function only on \
                 Ascend 950"
            ),
        }
    }

    /// Blocks until everything that was submitted to the thread is complete.
    fn HcommChannelDrainOnThread(thread: ThreadHandle, channel: ChannelHandle) {
        primitive_may_block()?;
        let thread = thread_of(thread)?;
        let channel: &Channel = issue::channel_of(thread, channel)?;
        match (thread.product(), channel.kind()) {
            (Product::A2 | Product::A3, Some((_, CommProtocol::COMM_PROTOCOL_ROCE))) => {}
            (product, _) => {
                return refuse!(
                    HCCL_E_NOT_SUPPORT,
                    "{} on {product} cannot be drained; pass a channel over ROCE on Atlas A2 or A3",
                    channel.describe()
                );
            }
        }
        if batch_mode::is_open() {
            return refuse!(
                HCCL_E_UNAVAIL,
                "no primitive runs before HcommBatchModeEnd; call this after it"
            );
        }
        executor::wait_idle(thread.stream()?);
        Ok(())
    }

    fn HcommSetNotifyWaitTimeOut(timeout: f32) {
        issue::set_default_limit(seconds(timeout)?);
        Ok(())
    }

    /// Only checks the argument, because acquiring a thread never waits.
    fn HcommThreadResAcquireTimeOut(timeout: f32) {
        seconds(timeout).map(drop)
    }
}

/// Returns a text of the caller; `None` for NULL.
fn given(text: &CText) -> Option<String> {
    text.given().map(|text| text.to_string_lossy().into_owned())
}

/// Checks that the calling thread's device has a communicator with this name.
fn is_there(name: &CText) -> Result<(), Failure> {
    let Some(name) = given(name) else {
        return refuse!(HCCL_E_PTR, "commId is NULL; pass the name of a communicator");
    };
    let (_, device) = context::current_device()?;
    match registry::find_by_name(&name, device.id) {
        Some(_) => Ok(()),
        None => refuse!(
            HCCL_E_PTR,
            "device {} has no communicator with the name \"{name}\"; pass a name that \
             HcclGetCommName returns",
            machine::named(device.id)
        ),
    }
}

/// Converts a number of seconds of a C caller.
fn seconds(seconds: f32) -> Result<Duration, Failure> {
    match Duration::try_from_secs_f32(seconds) {
        Ok(limit) => Ok(limit),
        Err(_) => refuse!(
            HCCL_E_PARA,
            "timeOut is {seconds}; pass a number of seconds, or 0 for no limit"
        ),
    }
}
