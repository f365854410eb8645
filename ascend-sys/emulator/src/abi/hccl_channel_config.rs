//! Configurations of channels. CANN's `hccl_channel.h`.
//!
//! They say whether channels share a queue of the network card, which the emulator has not: what is set is checked, and changes nothing.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::c_char;

use ascend_sys::{
    ChannelHandle, CommEngine, Functions, HcclChannelConfig, HcclChannelConfigType,
    HcclChannelDesc, HcclComm, HcclResult,
};

use super::hccl_channel::acquire;
use super::hccl_entry::{abi_entry, not_null, text_of};
use crate::message::{Failure, refuse};
use crate::operator::handles::Handles;

pub(super) fn fill(table: &mut Functions) {
    table.HcclChannelConfigCreate = Some(HcclChannelConfigCreate);
    table.HcclChannelConfigDestroy = Some(HcclChannelConfigDestroy);
    table.HcclChannelConfigSetInt = Some(HcclChannelConfigSetInt);
    table.HcclChannelConfigSetStr = Some(HcclChannelConfigSetStr);
    table.HcclChannelAcquireWithConfig = Some(HcclChannelAcquireWithConfig);
}

/// The longest name of a shared queue.
const MOST_TAG: usize = 255;

/// Nothing of it is ever asked.
struct ChannelConfig;

static CONFIGS: Handles<ChannelConfig> = Handles::new("configuration of channels", 0xae);

/// A configuration that was made and not destroyed.
fn known(config: HcclChannelConfig) -> Result<(), Failure> {
    not_null(config, "config")?;
    CONFIGS.with(config.addr() as u64, |_| Ok(()))
}

unsafe extern "C" fn HcclChannelConfigCreate(config: *mut HcclChannelConfig) -> HcclResult {
    abi_entry("HcclChannelConfigCreate", || {
        not_null(config, "config")?;
        let handle = CONFIGS.add(ChannelConfig) as usize;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { config.write_unaligned(std::ptr::without_provenance_mut(handle)) };
        Ok(())
    })
}

unsafe extern "C" fn HcclChannelConfigDestroy(config: HcclChannelConfig) -> HcclResult {
    abi_entry("HcclChannelConfigDestroy", || {
        known(config)?;
        CONFIGS.take(config.addr() as u64).map(drop)
    })
}

unsafe extern "C" fn HcclChannelConfigSetInt(
    config: HcclChannelConfig,
    key: HcclChannelConfigType,
    value: u32,
) -> HcclResult {
    abi_entry("HcclChannelConfigSetInt", || {
        known(config)?;
        match (key, value) {
            (HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE, 0 | 1) => Ok(()),
            (HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE, _) => {
                refuse!(HCCL_E_PARA, "IS_SHARED_QUEUE is {value}; it is 0 or 1")
            }
            _ => refuse!(HCCL_E_PARA, "{} is no key of a number; IS_SHARED_QUEUE (0) is", key.0),
        }
    })
}

unsafe extern "C" fn HcclChannelConfigSetStr(
    config: HcclChannelConfig,
    key: HcclChannelConfigType,
    value: *const c_char,
) -> HcclResult {
    abi_entry("HcclChannelConfigSetStr", || {
        known(config)?;
        // SAFETY: null, or NUL-terminated by the C contract.
        let value = unsafe { text_of(value, "value") }?;
        match key {
            HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_SHARED_QUEUE_TAG
                if value.len() <= MOST_TAG =>
            {
                Ok(())
            }
            HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_SHARED_QUEUE_TAG => {
                refuse!(HCCL_E_PARA, "the tag has {} bytes, at most {MOST_TAG} fit", value.len())
            }
            _ => refuse!(HCCL_E_PARA, "{} is no key of a text; SHARED_QUEUE_TAG (1) is", key.0),
        }
    })
}

unsafe extern "C" fn HcclChannelAcquireWithConfig(
    comm: HcclComm,
    engine: CommEngine,
    descs: *const HcclChannelDesc,
    count: u32,
    config: HcclChannelConfig,
    channels: *mut ChannelHandle,
) -> HcclResult {
    const NAME: &str = "HcclChannelAcquireWithConfig";
    abi_entry(NAME, || {
        not_null(comm, "comm")?;
        known(config)?;
        // SAFETY: the C contract.
        unsafe { acquire(NAME, comm, engine, descs, count, channels) }
    })
}
