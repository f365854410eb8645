//! The entries for channels between endpoints, without a communicator, as in CANN's
//! `hcomm_channel.h`.
//!
//! CANN does not document the values that `HcommChannelGetStatus` writes. Here the function writes
//! the `HcclResult` of connecting.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{MOST_ITEMS, Out, OutSlice, Slice};
use super::entries::{Hcomm, entries};
use super::hccl_entry::not_null;
use crate::message::add_text;
use crate::message::{Failure, refuse};
use crate::operator::channel::{MOST_NOTIFIES, NOTIFIES_OF_CCU};
use crate::operator::endpoint::Endpoint;
use crate::operator::endpoint_channel::{self, Role, WantedEnd};
use crate::operator::engine::OperatorEngine;
use crate::operator::handles::Handles;
use crate::operator::open;
use crate::slots::HandleKind;
use ascend_sys::{
    ChannelHandle, CommEngine, EndpointHandle, HCOMM_CHANNEL_MAGIC_WORD,
    HCOMM_CHANNEL_NAME_MAX_LEN, HcclResult, HcommChannelConfig, HcommChannelConfigType,
    HcommChannelDesc, HcommSocketRole,
};
use std::ffi::{CStr, c_char};
use std::mem::offset_of;

entries! {
    Hcomm;

    fn HcommChannelCreate(
        endpoint: EndpointHandle,
        engine: CommEngine,
        descs: *mut HcommChannelDesc,
        count: u32,
        channels: OutSlice<ChannelHandle>[count],
    ) {
        // SAFETY: the C contract.
        unsafe { create(endpoint, engine, descs, count, channels) }
    }

    fn HcommChannelCreateWithConfig(
        endpoint: EndpointHandle,
        engine: CommEngine,
        descs: *mut HcommChannelDesc,
        count: u32,
        config: HcommChannelConfig,
        channels: OutSlice<ChannelHandle>[count],
    ) {
        not_null(config, "config")?;
        CONFIGS.with(config as u64, |_| Ok(()))?;
        // SAFETY: the C contract.
        unsafe { create(endpoint, engine, descs, count, channels) }
    }

    fn HcommChannelDestroy(channels: Slice<ChannelHandle>[count], count: u32) {
        let channels = channels.required("channels")?;
        let channels = channels.counted(MOST_CHANNELS, "channelNum", HcclResult::HCCL_E_PARA)?;
        // All channels are tried, and the first error is returned.
        let mut result = Ok(());
        for channel in channels.iter() {
            let own = endpoint_channel::destroy(*channel);
            result = result.and(own);
        }
        result
    }

    fn HcommChannelGetStatus(
        channels: Slice<ChannelHandle>[count],
        count: u32,
        statuses: OutSlice<i32>[count],
    ) {
        let channels = channels.required("channelList")?;
        let statuses = statuses.required("statusList")?;
        let channels = channels.counted(MOST_CHANNELS, "listNum", HcclResult::HCCL_E_PARA)?;
        let (mut found, mut texts) = (Vec::new(), Vec::new());
        let status = |channel: &ChannelHandle| {
            let code = match endpoint_channel::status(*channel)? {
                Ok(()) => HcclResult::HCCL_SUCCESS,
                Err(failure) => {
                    let (code, text) = failure.in_hccl();
                    // A channel that still waits is not an error, so it gets no text.
                    texts.extend(Some(text).filter(|_| code != HcclResult::HCCL_E_AGAIN));
                    code
                }
            };
            found.push(code.0 as i32);
            Ok(())
        };
        let all = channels.iter().try_for_each(status);
        statuses.write(&found);
        texts.into_iter().for_each(|text| add_text(text.to_string()));
        all
    }

    fn HcommChannelConfigCreate(config: Out<HcommChannelConfig>) {
        let config = config.required("config")?;
        config.write(CONFIGS.add(0) as HcommChannelConfig);
        Ok(())
    }

    fn HcommChannelConfigDestroy(config: HcommChannelConfig) {
        not_null(config, "config")?;
        CONFIGS.take(config as u64).map(drop)
    }

    fn HcommChannelConfigSetInt(
        config: HcommChannelConfig,
        key: HcommChannelConfigType,
        value: u32,
    ) {
        not_null(config, "config")?;
        CONFIGS.with(config as u64, |shared| {
            if key != HcommChannelConfigType::HCOMM_CHANNEL_CONFIG_TYPE_IS_SHARED_QUEUE {
                return refuse!(
                    HCCL_E_PARA,
                    "{} is not a key of a number; use IS_SHARED_QUEUE",
                    key.0
                );
            }
            if value > 1 {
                return refuse!(HCCL_E_PARA, "IS_SHARED_QUEUE is {value}; pass 0 or 1");
            }
            *shared = value;
            Ok(())
        })
    }
}

/// The largest number of channels in one call.
const MOST_CHANNELS: usize = MOST_ITEMS;
/// The largest number of registered memories of one channel.
const MOST_MEMORIES: u32 = 1 << 10;
/// The size in bytes of the header, which all versions have.
const HEAD: u32 = 16;
/// The first version in which the last member, the name, has a meaning.
const NAMED: u32 = 4;

/// Reads a description into the layout of this version. Fields that an older version lacks are
/// zero.
///
/// # Safety
///
/// `from` is valid for as many bytes as its header gives as its size.
unsafe fn read(from: *const HcommChannelDesc) -> Result<HcommChannelDesc, Failure> {
    const BYTES: usize = size_of::<HcommChannelDesc>();
    // SAFETY: by the caller's promise the description begins with a header.
    let header = unsafe { (&raw const (*from).header).read_unaligned() };
    if header.size < HEAD {
        return refuse!(
            HCCL_E_PARA,
            "header.size is {}, but the header alone has {HEAD} bytes; initialise the description \
             with HcommChannelDescInit",
            header.size
        );
    }
    if header.magicWord != HCOMM_CHANNEL_MAGIC_WORD {
        return refuse!(
            HCCL_E_PARA,
            "the magic word is {:#x} instead of {HCOMM_CHANNEL_MAGIC_WORD:#x}. Initialise the \
             description with HcommChannelDescInit",
            header.magicWord
        );
    }
    let mut bytes = [0u8; BYTES];
    let length = BYTES.min(header.size as usize);
    // SAFETY: by the caller's promise the description has `header.size` bytes.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from.cast(), length) };
    // Any byte other than 0 counts as true.
    let flag = &mut bytes[offset_of!(HcommChannelDesc, exchangeAllMems)];
    *flag = u8::from(*flag != 0);
    // SAFETY: the struct has plain numbers and pointers, and a `bool` that was set to 0 or 1 above.
    let mut desc: HcommChannelDesc =
        unsafe { bytes.as_ptr().cast::<HcommChannelDesc>().read_unaligned() };
    // There is no name if the version has none, if the description ends within the pointer, or if
    // all bits of the pointer are set.
    if header.version < NAMED || length < BYTES || desc.channelName.addr() == usize::MAX {
        desc.channelName = std::ptr::null();
    }
    Ok(desc)
}

/// Reads the request in a description.
///
/// # Safety
///
/// As for [`read`]. Also, `memHandles` is null or an array of `memHandleNum` handles, and
/// `channelName` is null or NUL-terminated.
unsafe fn wanted(
    from: *const HcommChannelDesc,
    engine: OperatorEngine,
) -> Result<WantedEnd, Failure> {
    // SAFETY: the caller's promise.
    let desc = unsafe { read(from) }?;
    let to = match Endpoint::read(&desc.remoteEndpoint) {
        Ok(to) => to,
        Err(text) => return refuse!(HCCL_E_PARA, "remoteEndpoint: {text}"),
    };
    if desc.notifyNum > MOST_NOTIFIES {
        return refuse!(
            HCCL_E_PARA,
            "notifyNum is {}; set at most {MOST_NOTIFIES}",
            desc.notifyNum
        );
    }
    if !desc.socket.is_null() {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "socket is {:p}; set NULL, because emulated endpoints find each other without a socket",
            desc.socket
        );
    }
    let role = match desc.role {
        HcommSocketRole::HCOMM_SOCKET_ROLE_RESERVED => Role::Any,
        HcommSocketRole::HCOMM_SOCKET_ROLE_CLIENT => Role::Client,
        HcommSocketRole::HCOMM_SOCKET_ROLE_SERVER => Role::Server,
        HcommSocketRole(other) => {
            return refuse!(HCCL_E_PARA, "role is {other}; set 0 (client) or 1 (server)");
        }
    };
    if !desc.channelName.is_null() {
        // SAFETY: the caller's promise.
        let length = unsafe { CStr::from_ptr(desc.channelName.cast::<c_char>()) }.count_bytes();
        if length > HCOMM_CHANNEL_NAME_MAX_LEN as usize {
            return refuse!(
                HCCL_E_PARA,
                "channelName has {length} bytes; set a name of at most {HCOMM_CHANNEL_NAME_MAX_LEN}"
            );
        }
    }
    let memories = if desc.exchangeAllMems {
        None
    } else if desc.memHandleNum == 0 {
        Some(Vec::new())
    } else if desc.memHandles.is_null() {
        return refuse!(
            HCCL_E_PARA,
            "memHandles is NULL, but memHandleNum is {}; set the array, or set memHandleNum to 0",
            desc.memHandleNum
        );
    } else if desc.memHandleNum > MOST_MEMORIES {
        return refuse!(
            HCCL_E_PARA,
            "memHandleNum is {}; set at most {MOST_MEMORIES}",
            desc.memHandleNum
        );
    } else {
        // SAFETY: the caller's promise.
        let handles =
            unsafe { std::slice::from_raw_parts(desc.memHandles, desc.memHandleNum as usize) };
        Some(handles.iter().map(|handle| *handle as u64).collect())
    };
    let notifies = if engine == OperatorEngine::Ccu { NOTIFIES_OF_CCU } else { desc.notifyNum };
    Ok(WantedEnd { to, notifies, memories, role })
}

/// Creates the channels that descriptions request.
///
/// # Safety
///
/// `descs` is null, or an array of `count` descriptions that fulfil the contract of [`wanted`].
unsafe fn create(
    endpoint: EndpointHandle,
    engine: CommEngine,
    descs: *const HcommChannelDesc,
    count: u32,
    channels: OutSlice<ChannelHandle>,
) -> Result<(), Failure> {
    not_null(endpoint, "endpointHandle")?;
    not_null(descs, "channelDescs")?;
    let channels = channels.required("channels")?;
    if count == 0 || count as usize > MOST_CHANNELS {
        return refuse!(HCCL_E_PARA, "channelNum is {count}; pass 1 to {MOST_CHANNELS}");
    }
    let place = open::with(endpoint as u64, |open| Ok(open.endpoint.place))?;
    let product = crate::machine::device_slot(place.device).product();
    let engine = OperatorEngine::of_channels(product, engine)?;
    let mut all = Vec::with_capacity(count as usize);
    for at in 0..count as usize {
        // SAFETY: the caller's promise.
        match unsafe { wanted(descs.add(at), engine) } {
            Ok(one) => all.push(one),
            Err(failure) => return Err(failure.of_item(format_args!("channelDescs[{at}]"))),
        }
    }
    channels.write(&endpoint_channel::create(endpoint as u64, engine, all)?);
    Ok(())
}

/// The configurations of channels. The value of each is 1 if the channels share a queue, which has
/// no effect here.
static CONFIGS: Handles<u32> = Handles::new(HandleKind::EndpointChannelConfig);
