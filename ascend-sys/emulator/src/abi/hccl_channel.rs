//! The entries for channels and for the memory that ranks exchange over them, as in CANN's
//! `hccl_channel.h` and parts of `hccl_res.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, In, Out, OutSlice, Place, Slice, Values};
use super::entries::{Hccl, entries};
use std::ffi::{c_char, c_void};

use ascend_sys::{
    ChannelHandle, CommAbiHeader, CommEngine, CommMem, CommMemType, EndpointDesc, HcclChannelDesc,
    HcclMemHandle, HcclResult,
};

use super::hccl_entry::not_null;
use crate::callback::may_block;
use crate::collective::validate;
use crate::fabric::registry::with_issue_state;
use crate::fabric::{Member, attempt};
use crate::message::{Failure, refuse};
use crate::operator::acquire::{WantedChannel, acquire_channels, destroy_channel, query_channels};
use crate::operator::channel::{BUFFER_TAG, Channel, MOST_NOTIFIES, NOTIFIES_OF_CCU};
use crate::operator::engine::OperatorEngine;
use crate::operator::memory;
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclChannelAcquire(
        comm: Handle<Member>,
        engine: CommEngine,
        descs: Slice<HcclChannelDesc>[count],
        count: u32,
        channels: OutSlice<ChannelHandle>[count],
    ) {
        attempt::begin();
        acquire(ENTRY, &comm, engine, descs, channels)
    }

    fn HcclChannelGetHcclBuffer(
        comm: Handle<Member>,
        channel: ChannelHandle,
        buffer: Out<*mut c_void>,
        size: Out<u64>,
    ) {
        let member = comm.find()?;
        let place = buffer_place(buffer, size)?;
        let found = channel_of(&member, channel)?.remote_buffer();
        write_buffer(found, place);
        Ok(())
    }

    fn HcclChannelGetRemoteMems(
        comm: Handle<Member>,
        channel: ChannelHandle,
        count: Out<u32>,
        memories: Out<*mut CommMem>,
        tags: Out<*mut *mut c_char>,
    ) {
        let member = comm.find()?;
        let count = count.required("memNum")?;
        let memories = memories.required("remoteMems")?;
        let tags = tags.required("memTags")?;
        let channel = channel_of(&member, channel)?;
        let Some(found) = channel.remote_memories() else {
            return refuse!(
                HCCL_E_PARA,
                "{} has no memories; pass a channel that has not ended",
                channel.describe()
            );
        };
        count.write(found.0);
        memories.write(found.1);
        tags.write(found.2);
        Ok(())
    }

    fn HcclGetHcclBuffer(comm: Handle<Member>, buffer: Out<*mut c_void>, size: Out<u64>) {
        let member = comm.find()?;
        let place = buffer_place(buffer, size)?;
        let found = memory::buffer(&member)?;
        write_buffer(found, place);
        Ok(())
    }

    fn HcclGetHcclBufferCleared(comm: Handle<Member>, buffer: Out<*mut c_void>, size: Out<u64>) {
        let member = comm.find()?;
        let place = buffer_place(buffer, size)?;
        only_950(&member, ENTRY)?;
        let found = memory::cleared_buffer(&member)?;
        write_buffer(found, place);
        Ok(())
    }

    fn HcclChannelQuery(
        comm: Handle<Member>,
        engine: CommEngine,
        descs: Slice<HcclChannelDesc>[count],
        count: u32,
        channels: OutSlice<ChannelHandle>[count],
    ) {
        let member = comm.find()?;
        let descs = descs.required("channelDescs")?;
        let channels = channels.required("channels")?;
        only_950(&member, ENTRY)?;
        let (engine, wanted) = wanted(&member, engine, &descs)?;
        channels.write(&query_channels(&member, engine, &wanted)?);
        Ok(())
    }

    fn HcclChannelDestroy(comm: Handle<Member>, channels: Slice<ChannelHandle>[count], count: u32) {
        let member = comm.find()?;
        let channels = channels.required("channels")?;
        only_950(&member, ENTRY)?;
        let channels = channels.counted(MOST_CHANNELS, "channelNum", HcclResult::HCCL_E_PARA)?;
        // All channels are tried, and the first error is returned.
        let mut result = Ok(());
        for channel in channels.iter() {
            let own = destroy(&member, *channel);
            result = result.and(own);
        }
        result
    }

    fn HcclCommMemReg(
        comm: Handle<Member>,
        tag: CText,
        memory: In<CommMem>,
        handle: Out<HcclMemHandle>,
    ) {
        let member = comm.find()?;
        let tag = tag.required("memTag")?;
        let memory = memory.required("mem")?;
        let handle = handle.required("memHandle")?;
        if tag.is_empty() || tag.len() > MOST_TAG || tag.starts_with(BUFFER_TAG) {
            return refuse!(
                HCCL_E_PARA,
                "memTag is \"{tag}\"; pass 1 to {MOST_TAG} characters that do not begin with \
                 {BUFFER_TAG}"
            );
        }
        let CommMem { type_, addr, size } = *memory;
        not_null(addr, "mem->addr")?;
        let on_host = match type_ {
            CommMemType::COMM_MEM_TYPE_DEVICE => false,
            CommMemType::COMM_MEM_TYPE_HOST => true,
            other => {
                return refuse!(
                    HCCL_E_PARA,
                    "mem->type is {}; set COMM_MEM_TYPE_DEVICE (0) or COMM_MEM_TYPE_HOST (1)",
                    other.0
                );
            }
        };
        let bytes = match usize::try_from(size) {
            Ok(bytes) if bytes > 0 => bytes,
            _ => return refuse!(HCCL_E_PARA, "mem->size is {size}; set at least 1"),
        };
        let number = memory::register(&member, tag, on_host, addr.addr(), bytes)?;
        handle.write(std::ptr::without_provenance_mut(number as usize));
        Ok(())
    }
}

/// The magic word that `HcclChannelDescInit` writes.
const MAGIC: u32 = 0x0f0f_0f0f;
/// The largest number of channels in one call.
const MOST_CHANNELS: usize = 1 << 20;
/// The largest number of registered memories of one channel.
const MOST_MEMORIES: u32 = 256;
/// The largest length of a tag of registered memory.
const MOST_TAG: usize = 255;

/// Reads and checks descriptions, in CANN's order.
fn wanted(
    member: &Member,
    engine: CommEngine,
    descs: &Values<HcclChannelDesc>,
) -> Result<(OperatorEngine, Vec<WantedChannel>), Failure> {
    let count = descs.count();
    if count == 0 || count > MOST_CHANNELS {
        return refuse!(HCCL_E_PARA, "channelNum is {count}; pass 1 to {MOST_CHANNELS}");
    }
    let product = member.comm.product;
    let engine = OperatorEngine::of_channels(product, engine)?;
    let mut all: Vec<WantedChannel> = Vec::with_capacity(count);
    for (at, desc) in descs.iter().enumerate() {
        let one = read_desc(member, engine, desc);
        let one = one.map_err(|failure| failure.of_item(format_args!("channelDescs[{at}]")))?;
        let same =
            |other: &WantedChannel| (other.remote, other.protocol) == (one.remote, one.protocol);
        if product != Product::Ascend950 && all.iter().any(same) {
            return refuse!(
                HCCL_E_PARA,
                "channelDescs[{at}] requests a channel to rank {} over the same protocol as an \
                 earlier description; on {product}, request one channel for each rank and protocol",
                one.remote
            );
        }
        all.push(one);
    }
    Ok((engine, all))
}

fn read_desc(
    member: &Member,
    engine: OperatorEngine,
    desc: &HcclChannelDesc,
) -> Result<WantedChannel, Failure> {
    let product = member.comm.product;
    let desc = &as_said(desc)?;
    validate::rank("remoteRank", desc.remoteRank, member.comm.ranks())?;
    let remote = desc.remoteRank as usize;
    if remote == member.rank {
        return refuse!(
            HCCL_E_PARA,
            "remoteRank is {remote}, which is this rank itself; pass another rank"
        );
    }
    engine.check_protocol(product, desc.channelProtocol)?;
    if desc.notifyNum > MOST_NOTIFIES {
        return refuse!(
            HCCL_E_PARA,
            "notifyNum is {}; set at most {MOST_NOTIFIES}",
            desc.notifyNum
        );
    }
    // Other engines ignore the memory handles, as in CANN, which logs a warning.
    let mut memories = Vec::new();
    if engine == OperatorEngine::Aiv && desc.memHandleNum != 0 {
        if desc.memHandleNum > MOST_MEMORIES || desc.memHandles.is_null() {
            return refuse!(
                HCCL_E_PARA,
                "memHandleNum is {} and memHandles is {}; pass an array of at most {MOST_MEMORIES} \
                 handles of HcclCommMemReg",
                desc.memHandleNum,
                if desc.memHandles.is_null() { "NULL" } else { "not NULL" }
            );
        }
        let count = desc.memHandleNum as usize;
        // SAFETY: the pointer is not null, so by the C contract of a description it is an array of
        // `count` handles.
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

/// Returns the fields that the version of a description has, which its size determines. All other
/// fields are unset.
fn as_said(desc: &HcclChannelDesc) -> Result<HcclChannelDesc, Failure> {
    const HEADER: usize = size_of::<CommAbiHeader>();
    let CommAbiHeader { magicWord, size, .. } = desc.header;
    if magicWord != MAGIC {
        return refuse!(
            HCCL_E_PARA,
            "the magic word is {magicWord:#x} instead of {MAGIC:#x}. Initialise the description \
             with HcclChannelDescInit"
        );
    }
    let bytes = (size as usize).min(size_of::<HcclChannelDesc>());
    if bytes < HEADER {
        return refuse!(
            HCCL_E_PARA,
            "header.size is {size}, but the header alone has {HEADER} bytes; initialise the \
             description with HcclChannelDescInit"
        );
    }
    let mut said = HcclChannelDesc::unset();
    // SAFETY: both structs consist of plain numbers and pointers, and have at least `bytes` bytes.
    unsafe {
        let to = (&raw mut said).cast::<u8>();
        to.copy_from_nonoverlapping(std::ptr::from_ref(desc).cast(), bytes);
    }
    Ok(said)
}

fn bytes_of(endpoint: &EndpointDesc) -> [u8; size_of::<EndpointDesc>()] {
    // SAFETY: the struct is plain data without padding, read as bytes.
    unsafe { std::ptr::from_ref(endpoint).cast::<[u8; size_of::<EndpointDesc>()]>().read() }
}

pub(super) fn acquire(
    function: &'static str,
    comm: &Handle<Member>,
    engine: CommEngine,
    descs: Slice<HcclChannelDesc>,
    channels: OutSlice<ChannelHandle>,
) -> Result<(), Failure> {
    comm.required("comm")?;
    let descs = descs.required("channelDescs")?;
    let channels = channels.required("channels")?;
    may_block()?;
    with_issue_state(comm.number(), |issue_state| {
        let member = &issue_state.member;
        let (engine, wanted) = wanted(member, engine, &descs)?;
        channels.write(&acquire_channels(member, engine, function, &wanted)?);
        Ok(())
    })
}

/// Returns a channel of this rank.
fn channel_of(member: &Member, handle: ChannelHandle) -> Result<&'static Channel, Failure> {
    let channel = Channel::named(handle)?;
    if channel.is_of(member) {
        return Ok(channel);
    }
    refuse!(
        HCCL_E_PARA,
        "{} is not of this communicator; pass a channel of the communicator",
        channel.describe()
    )
}

/// The places for the address of a buffer and its size.
type BufferPlace = (Place<*mut c_void>, Place<u64>);

fn buffer_place(buffer: Out<*mut c_void>, size: Out<u64>) -> Result<BufferPlace, Failure> {
    Ok((buffer.required("buffer")?, size.required("size")?))
}

fn write_buffer((start, bytes): (usize, usize), (buffer, size): BufferPlace) {
    buffer.write(std::ptr::with_exposed_provenance_mut(start));
    size.write(bytes as u64);
}

fn only_950(member: &Member, function: &str) -> Result<(), Failure> {
    match member.comm.product {
        Product::Ascend950 => Ok(()),
        product => refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} has no {function}, but Ascend 950 does; call it only on Ascend 950"
        ),
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
            "{} ends with its communicator; destroy only channels of the engine CCU one by one",
            channel.describe()
        ),
    }
}
