//! Entries around primitives: the batch mode, fences, time limits. CANN's `hcomm_primitives.h`.
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

    /// On the host a communicator needs no lock: each call has its own state.
    fn HcommAcquireComm(name: CText) {
        is_there(&name)
    }

    /// The same.
    fn HcommReleaseComm(name: CText) {
        is_there(&name)
    }

    /// The tasks of a thread run in order anyway.
    fn HcommFenceOnThread(thread: ThreadHandle) {
        let thread = thread_of(thread)?;
        match (thread.product(), thread.owner().map(|owner| owner.engine)) {
            (Product::Ascend950, Some(OperatorEngine::Cpu)) => Ok(()),
            (product, _) => refuse!(
                HCCL_E_NOT_SUPPORT,
                "{} on {product}: fences are for threads of the host on Ascend 950",
                thread.describe()
            ),
        }
    }

    /// The same.
    fn HcommChannelFenceOnThread(thread: ThreadHandle, channel: ChannelHandle) {
        let product = product_of(thread)?;
        issue::channel_of(thread_of(thread)?, channel)?;
        match product {
            Product::Ascend950 => Ok(()),
            _ => refuse!(HCCL_E_NOT_SUPPORT, "{product} has no fences of channels; Ascend 950 has"),
        }
    }

    /// Waits until all that was submitted to the thread is complete.
    fn HcommChannelDrainOnThread(thread: ThreadHandle, channel: ChannelHandle) {
        primitive_may_block()?;
        let thread = thread_of(thread)?;
        let channel: &Channel = issue::channel_of(thread, channel)?;
        match (thread.product(), channel.kind()) {
            (Product::A2 | Product::A3, Some((_, CommProtocol::COMM_PROTOCOL_ROCE))) => {}
            (product, _) => {
                return refuse!(
                    HCCL_E_NOT_SUPPORT,
                    "{} on {product}: channels over ROCE of Atlas A2 and A3 are drained",
                    channel.describe()
                );
            }
        }
        if batch_mode::is_open() {
            return refuse!(
                HCCL_E_UNAVAIL,
                "nothing runs before HcommBatchModeEnd, so there is nothing to wait for"
            );
        }
        executor::wait_idle(thread.stream()?);
        Ok(())
    }

    fn HcommSetNotifyWaitTimeOut(timeout: f32) {
        issue::set_default_limit(seconds(timeout)?);
        Ok(())
    }

    /// Threads are there at once: there is nothing to wait for.
    fn HcommThreadResAcquireTimeOut(timeout: f32) {
        seconds(timeout).map(drop)
    }
}

/// A text that may be NULL.
fn given(text: &CText) -> Option<String> {
    text.given().map(|text| text.to_string_lossy().into_owned())
}

/// Refuses if the calling thread's device has no communicator with this name.
fn is_there(name: &CText) -> Result<(), Failure> {
    let Some(name) = given(name) else {
        return refuse!(HCCL_E_PTR, "commId is NULL");
    };
    let (_, device) = context::current_device()?;
    match registry::find_by_name(&name, device.id) {
        Some(_) => Ok(()),
        None => refuse!(
            HCCL_E_PTR,
            "device {} has no communicator with the name \"{name}\"",
            machine::named(device.id)
        ),
    }
}

/// Seconds of a C caller.
fn seconds(seconds: f32) -> Result<Duration, Failure> {
    match Duration::try_from_secs_f32(seconds) {
        Ok(limit) => Ok(limit),
        Err(_) => refuse!(
            HCCL_E_PARA,
            "timeOut is {seconds}; a number of seconds is expected, 0 is for ever"
        ),
    }
}
