//! The entries for configurations of channels, as in CANN's `hccl_channel.h`.
//!
//! A configuration sets whether channels share a queue of the network card. The emulator does not
//! have these queues, so settings are checked but have no effect.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Out, OutSlice, Slice};
use super::entries::{Hccl, entries};
use crate::slots::HandleKind;

use ascend_sys::{
    ChannelHandle, CommEngine, HcclChannelConfig, HcclChannelConfigType, HcclChannelDesc,
};

use super::hccl_channel::acquire;
use super::hccl_entry::not_null;
use crate::fabric::{Member, attempt};
use crate::message::{Failure, refuse};
use crate::operator::handles::Handles;

entries! {
    Hccl;

    fn HcclChannelConfigCreate(config: Out<HcclChannelConfig>) {
        let config = config.required("config")?;
        let handle = CONFIGS.add(ChannelConfig) as usize;
        config.write(std::ptr::without_provenance_mut(handle));
        Ok(())
    }

    fn HcclChannelConfigDestroy(config: HcclChannelConfig) {
        known(config)?;
        CONFIGS.take(config.addr() as u64).map(drop)
    }

    fn HcclChannelConfigSetInt(config: HcclChannelConfig, key: HcclChannelConfigType, value: u32) {
        known(config)?;
        match (key, value) {
            (HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE, 0 | 1) => Ok(()),
            (HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE, _) => {
                refuse!(HCCL_E_PARA, "IS_SHARED_QUEUE is {value}; pass 0 or 1")
            }
            _ => refuse!(
                HCCL_E_PARA,
                "{} is not a key of a number; use IS_SHARED_QUEUE (0)",
                key.0
            ),
        }
    }

    fn HcclChannelConfigSetStr(
        config: HcclChannelConfig,
        key: HcclChannelConfigType,
        value: CText,
    ) {
        known(config)?;
        let value = value.required("value")?;
        match key {
            HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_SHARED_QUEUE_TAG
                if value.len() <= MOST_TAG =>
            {
                Ok(())
            }
            HcclChannelConfigType::HCCL_CHANNEL_CONFIG_TYPE_SHARED_QUEUE_TAG => {
                refuse!(HCCL_E_PARA, "the tag has {} bytes; pass at most {MOST_TAG}", value.len())
            }
            _ => refuse!(HCCL_E_PARA, "{} is not a key of a text; use SHARED_QUEUE_TAG (1)", key.0),
        }
    }

    fn HcclChannelAcquireWithConfig(
        comm: Handle<Member>,
        engine: CommEngine,
        descs: Slice<HcclChannelDesc>[count],
        count: u32,
        config: HcclChannelConfig,
        channels: OutSlice<ChannelHandle>[count],
    ) {
        comm.required("comm")?;
        known(config)?;
        attempt::begin();
        acquire(ENTRY, &comm, engine, descs, channels)
    }
}

/// The largest length of the tag of a shared queue.
const MOST_TAG: usize = 255;

/// A configuration. It has no fields, because its settings have no effect.
struct ChannelConfig;

static CONFIGS: Handles<ChannelConfig> = Handles::new(HandleKind::ChannelConfig);

/// Checks that a configuration was made and not destroyed.
fn known(config: HcclChannelConfig) -> Result<(), Failure> {
    not_null(config, "config")?;
    CONFIGS.with(config.addr() as u64, |_| Ok(()))
}
