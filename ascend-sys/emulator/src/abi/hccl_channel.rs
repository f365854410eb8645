//! Channels, and the memory that goes over them. CANN's `hccl_channel.h` and parts of `hccl_res.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Hccl, Out, entries};
use std::ffi::{c_char, c_void};

use ascend_sys::{
    ChannelHandle, CommEngine, CommMem, CommMemType, EndpointDesc, HcclChannelDesc, HcclComm,
    HcclMemHandle, HcclResult,
};

use super::hccl_entry::{member, not_null};
use crate::callback::may_block;
use crate::collective::validate;
use crate::fabric::Member;
use crate::fabric::registry::with_issue_state;
use crate::message::{Failure, refuse};
use crate::operator::acquire::{WantedChannel, acquire_channels, destroy_channel, query_channels};
use crate::operator::channel::{BUFFER_TAG, Channel, MOST_NOTIFIES, NOTIFIES_OF_CCU};
use crate::operator::engine::OperatorEngine;
use crate::operator::memory;
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclChannelAcquire(
        comm: HcclComm,
        engine: CommEngine,
        descs: *const HcclChannelDesc,
        count: u32,
        channels: *mut ChannelHandle,
    ) {
        // SAFETY: the C contract.
        unsafe {
            acquire(ENTRY, comm, engine, descs, count, channels)
        }
    }

    fn HcclChannelGetHcclBuffer(
        comm: HcclComm,
        channel: ChannelHandle,
        buffer: *mut *mut c_void,
        size: *mut u64,
    ) {
        let member = member(comm)?;
        not_null(buffer, "buffer")?;
        not_null(size, "size")?;
        let found = channel_of(&member, channel)?.remote_buffer();
        // SAFETY: not null, so valid for writes by the C contract.
        unsafe { write_buffer(found, buffer, size) };
        Ok(())
    }

    fn HcclChannelGetRemoteMems(
        comm: HcclComm,
        channel: ChannelHandle,
        count: *mut u32,
        memories: *mut *mut CommMem,
        tags: *mut *mut *mut c_char,
    ) {
        let member = member(comm)?;
        not_null(count, "memNum")?;
        not_null(memories, "remoteMems")?;
        not_null(tags, "memTags")?;
        let channel = channel_of(&member, channel)?;
        let Some(found) = channel.remote_memories() else {
            return refuse!(HCCL_E_PARA, "{}", channel.describe());
        };
        // SAFETY: not null, so valid for writes by the C contract.
        unsafe {
            count.write_unaligned(found.0);
            memories.write_unaligned(found.1);
            tags.write_unaligned(found.2);
        }
        Ok(())
    }

    fn HcclGetHcclBuffer(comm: HcclComm, buffer: *mut *mut c_void, size: *mut u64) {
        let member = member(comm)?;
        not_null(buffer, "buffer")?;
        not_null(size, "size")?;
        let found = memory::buffer(&member)?;
        // SAFETY: not null, so valid for writes by the C contract.
        unsafe { write_buffer(found, buffer, size) };
        Ok(())
    }

    fn HcclGetHcclBufferCleared(comm: HcclComm, buffer: *mut *mut c_void, size: *mut u64) {
        let member = member(comm)?;
        not_null(buffer, "buffer")?;
        not_null(size, "size")?;
        only_950(&member, ENTRY)?;
        let found = memory::cleared_buffer(&member)?;
        // SAFETY: not null, so valid for writes by the C contract.
        unsafe { write_buffer(found, buffer, size) };
        Ok(())
    }

    fn HcclChannelQuery(
        comm: HcclComm,
        engine: CommEngine,
        descs: *const HcclChannelDesc,
        count: u32,
        channels: *mut ChannelHandle,
    ) {
        let member = member(comm)?;
        not_null(descs, "channelDescs")?;
        not_null(channels, "channels")?;
        only_950(&member, ENTRY)?;
        // SAFETY: not null, so an array of `count` by the C contract.
        let (engine, wanted) = unsafe { wanted(&member, engine, descs, count) }?;
        let handles = query_channels(&member, engine, &wanted)?;
        // SAFETY: not null, so an array of `count` by the C contract.
        unsafe { channels.copy_from_nonoverlapping(handles.as_ptr(), handles.len()) };
        Ok(())
    }

    fn HcclChannelDestroy(comm: HcclComm, channels: *const ChannelHandle, count: u32) {
        let member = member(comm)?;
        not_null(channels, "channels")?;
        only_950(&member, ENTRY)?;
        if count == 0 {
            return refuse!(HCCL_E_PARA, "channelNum is 0");
        }
        // SAFETY: not null, so an array of `count` by the C contract.
        let channels = unsafe { std::slice::from_raw_parts(channels, count as usize) };
        // All are tried; the first error is told.
        let results: Vec<_> = channels.iter().map(|channel| destroy(&member, *channel)).collect();
        results.into_iter().collect()
    }

    fn HcclCommMemReg(
        comm: HcclComm,
        tag: CText,
        memory: *const CommMem,
        handle: Out<HcclMemHandle>,
    ) {
        let member = member(comm)?;
        let tag = tag.required("memTag")?;
        not_null(memory, "mem")?;
        let handle = handle.required("memHandle")?;
        if tag.is_empty() || tag.len() > MOST_TAG || tag.starts_with(BUFFER_TAG) {
            return refuse!(
                HCCL_E_PARA,
                "memTag is \"{tag}\"; 1 to {MOST_TAG} characters are expected, which do not begin with {BUFFER_TAG}"
            );
        }
        // SAFETY: not null, so valid for a read by the C contract.
        let CommMem { type_, addr, size } = unsafe { memory.read_unaligned() };
        not_null(addr, "mem->addr")?;
        let on_host = match type_ {
            CommMemType::COMM_MEM_TYPE_DEVICE => false,
            CommMemType::COMM_MEM_TYPE_HOST => true,
            other => {
                return refuse!(
                    HCCL_E_PARA,
                    "mem->type is {}; COMM_MEM_TYPE_DEVICE (0) and COMM_MEM_TYPE_HOST (1) are known",
                    other.0
                );
            }
        };
        let bytes = match usize::try_from(size) {
            Ok(bytes) if bytes > 0 => bytes,
            _ => return refuse!(HCCL_E_PARA, "mem->size is {size}"),
        };
        let number = memory::register(&member, tag, on_host, addr.addr(), bytes)?;
        handle.write(std::ptr::without_provenance_mut(number as usize));
        Ok(())
    }
}

/// What `HcclChannelDescInit` writes.
const MAGIC: u32 = 0x0f0f_0f0f;
/// The most channels in one call.
const MOST_CHANNELS: u32 = 1 << 20;
/// The most registered memories of one channel.
const MOST_MEMORIES: u32 = 256;
/// The longest tag of registered memory.
const MOST_TAG: usize = 255;

/// Reads descriptions, in the order in which CANN looks at them.
///
/// # Safety
///
/// `descs` is an array of `count`, and its `memHandles` are null or arrays of `memHandleNum`.
unsafe fn wanted(
    member: &Member,
    engine: CommEngine,
    descs: *const HcclChannelDesc,
    count: u32,
) -> Result<(OperatorEngine, Vec<WantedChannel>), Failure> {
    if count == 0 || count > MOST_CHANNELS {
        return refuse!(HCCL_E_PARA, "channelNum is {count}; it goes from 1 to {MOST_CHANNELS}");
    }
    let product = member.comm.product;
    let engine = OperatorEngine::of_channels(product, engine)?;
    let mut all: Vec<WantedChannel> = Vec::with_capacity(count as usize);
    for at in 0..count as usize {
        // SAFETY: the caller's promise.
        let desc = unsafe { &*descs.add(at) };
        // SAFETY: the caller's promise.
        let one = unsafe { read_desc(member, engine, desc) };
        let one = one.map_err(|failure| failure.of_item(format_args!("channelDescs[{at}]")))?;
        let same =
            |other: &WantedChannel| (other.remote, other.protocol) == (one.remote, one.protocol);
        if product != Product::Ascend950 && all.iter().any(same) {
            return refuse!(
                HCCL_E_PARA,
                "channelDescs[{at}] asks for a channel to rank {} over the same protocol as one before; {product} has one for each",
                one.remote
            );
        }
        all.push(one);
    }
    Ok((engine, all))
}

/// # Safety
///
/// As for [`wanted`].
unsafe fn read_desc(
    member: &Member,
    engine: OperatorEngine,
    desc: &HcclChannelDesc,
) -> Result<WantedChannel, Failure> {
    let product = member.comm.product;
    if desc.header.magicWord != MAGIC {
        return refuse!(
            HCCL_E_PARA,
            "the magic word is {:#x} instead of {MAGIC:#x}. Initialise it with HcclChannelDescInit",
            desc.header.magicWord
        );
    }
    validate::rank("remoteRank", desc.remoteRank, member.comm.ranks())?;
    let remote = desc.remoteRank as usize;
    if remote == member.rank {
        return refuse!(HCCL_E_PARA, "remoteRank is {remote}, which is this rank itself");
    }
    engine.check_protocol(product, desc.channelProtocol)?;
    if desc.notifyNum > MOST_NOTIFIES {
        return refuse!(
            HCCL_E_PARA,
            "notifyNum is {}; a channel has at most {MOST_NOTIFIES}",
            desc.notifyNum
        );
    }
    // On the other engines they are ignored, as in CANN, which logs a warning.
    let mut memories = Vec::new();
    if engine == OperatorEngine::Aiv && desc.memHandleNum != 0 {
        if desc.memHandleNum > MOST_MEMORIES || desc.memHandles.is_null() {
            return refuse!(
                HCCL_E_PARA,
                "memHandleNum is {} and memHandles {}; up to {MOST_MEMORIES} handles of HcclCommMemReg are expected",
                desc.memHandleNum,
                if desc.memHandles.is_null() { "NULL" } else { "not NULL" }
            );
        }
        let count = desc.memHandleNum as usize;
        // SAFETY: not null, so an array of as many by the caller's promise.
        let handles = unsafe { std::slice::from_raw_parts(desc.memHandles, count) };
        memories.extend(handles.iter().map(|handle| *handle as u64));
    }
    let notifies = if engine == OperatorEngine::Ccu { NOTIFIES_OF_CCU } else { desc.notifyNum };
    let endpoints = match product {
        Product::Ascend950 => [&desc.localEndpoint, &desc.remoteEndpoint].map(bytes_of).concat(),
        Product::A2 | Product::A3 => Vec::new(),
    };
    Ok(WantedChannel {
        remote,
        protocol: desc.channelProtocol,
        notifies,
        endpoints: endpoints.into(),
        memories,
    })
}

fn bytes_of(endpoint: &EndpointDesc) -> [u8; size_of::<EndpointDesc>()] {
    // SAFETY: the struct is plain data without padding, seen as its bytes.
    unsafe { std::ptr::from_ref(endpoint).cast::<[u8; size_of::<EndpointDesc>()]>().read() }
}

/// # Safety
///
/// As for [`wanted`]; `channels` is null or an array of `count`.
pub(super) unsafe fn acquire(
    function: &'static str,
    comm: HcclComm,
    engine: CommEngine,
    descs: *const HcclChannelDesc,
    count: u32,
    channels: *mut ChannelHandle,
) -> Result<(), Failure> {
    not_null(comm, "comm")?;
    not_null(descs, "channelDescs")?;
    not_null(channels, "channels")?;
    may_block()?;
    with_issue_state(comm as u64, |issue_state| {
        let member = &issue_state.member;
        // SAFETY: the caller's promise.
        let (engine, wanted) = unsafe { wanted(member, engine, descs, count) }?;
        let mut handles = vec![0; wanted.len()];
        acquire_channels(member, engine, function, &wanted, &mut handles)?;
        // SAFETY: not null, so an array of `count` by the caller's promise.
        unsafe { channels.copy_from_nonoverlapping(handles.as_ptr(), handles.len()) };
        Ok(())
    })
}

/// A channel of this rank.
fn channel_of(member: &Member, handle: ChannelHandle) -> Result<&'static Channel, Failure> {
    let channel = Channel::named(handle)?;
    if channel.is_of(member) {
        return Ok(channel);
    }
    refuse!(HCCL_E_PARA, "{} is not of this communicator", channel.describe())
}

/// # Safety
///
/// Both are valid for writes.
unsafe fn write_buffer((start, bytes): (usize, usize), buffer: *mut *mut c_void, size: *mut u64) {
    // SAFETY: the caller's promise.
    unsafe {
        buffer.write_unaligned(std::ptr::with_exposed_provenance_mut(start));
        size.write_unaligned(bytes as u64);
    }
}

fn only_950(member: &Member, function: &str) -> Result<(), Failure> {
    match member.comm.product {
        Product::Ascend950 => Ok(()),
        product => refuse!(HCCL_E_NOT_SUPPORT, "{product} has no {function}; Ascend 950 has"),
    }
}

fn destroy(member: &Member, handle: ChannelHandle) -> Result<(), Failure> {
    let channel = match channel_of(member, handle) {
        Ok(channel) => channel,
        Err(failure) => {
            return Err(failure.with_code(HcclResult::HCCL_E_NOT_FOUND));
        }
    };
    match channel.kind() {
        Some((OperatorEngine::Ccu, _)) => destroy_channel(member, handle),
        _ => refuse!(
            HCCL_E_NOT_SUPPORT,
            "{} ends with its communicator; only channels of the engine CCU are destroyed one by one",
            channel.describe()
        ),
    }
}
