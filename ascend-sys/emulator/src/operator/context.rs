//! Engine contexts: memory that a communicator keeps under a name, so that later calls of an
//! operator find the data of the first call.
//!
//! A context is identified by its tag and its engine: with the same tag, `CPU` and `CPU_TS` have
//! two different contexts. Contexts of the engines `CPU`, `CPU_TS` and, on Ascend 950, `CCU` are in
//! host memory. Those of `AICPU`, `AICPU_TS` and `AIV` are in device memory. The memory is zero at
//! first. It stays until the context or the communicator ends; device memory is also lost when the
//! device is reset.

use super::memory::clear;
use crate::fabric::{CommPart, Member};
use crate::host_memory;
use crate::machine;
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::stream::unfinished_on;
use crate::submit;
use crate::task::Touch;
use ascend_reduce::Store;
use ascend_sync::lock_std as lock;
use ascend_sys::CommEngine;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The memory of a context: its address, its size in bytes, and the place of the memory.
#[derive(Clone, Copy)]
pub(crate) struct EngineContext {
    pub(crate) address: usize,
    pub(crate) bytes: u64,
    home: ContextHome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ContextHome {
    Host,
    Device(u32),
}

/// The contexts of one rank, by engine and tag.
type OfRank = BTreeMap<(i32, String), EngineContext>;

/// The contexts of each rank of a communicator.
struct EngineContexts(Box<[Mutex<OfRank>]>);

impl CommPart for EngineContexts {
    /// Frees the contexts of a rank that has left.
    fn left(&self, rank: usize, _: &str) {
        let gone = std::mem::take(&mut *lock(&self.0[rank]));
        gone.into_values().for_each(|context| free(context, "HcclCommDestroy"));
    }
}

fn of_rank(member: &Member) -> MutexGuard<'_, OfRank> {
    let ranks = 0..member.comm.ranks();
    let EngineContexts(of_ranks) =
        member.comm.part(|| EngineContexts(ranks.clone().map(|_| Mutex::default()).collect()));
    lock(&of_ranks[member.rank])
}

/// Makes a context of `bytes` bytes and returns its address.
pub(crate) fn create(
    member: &Member,
    tag: &str,
    engine: CommEngine,
    bytes: u64,
    call: &'static str,
) -> Result<usize, Failure> {
    let home = home(member, engine)?;
    let mut of_rank = of_rank(member);
    let name = (engine.0, tag.to_owned());
    if let Some(there) = of_rank.get(&name) {
        return refuse!(
            HCCL_E_PARA,
            "{} exists already, with {} bytes; get it with HcclEngineCtxGet, or destroy it first \
             (HcclEngineCtxDestroy)",
            describe(tag, engine),
            there.bytes
        );
    }
    let context = EngineContext { address: allocate(home, bytes, call)?, bytes, home };
    of_rank.insert(name, context);
    Ok(context.address)
}

/// Returns the context with this tag and engine, if there is one.
pub(crate) fn find(
    member: &Member,
    tag: &str,
    engine: CommEngine,
) -> Result<Option<EngineContext>, Failure> {
    home(member, engine)?;
    Ok(of_rank(member).get(&(engine.0, tag.to_owned())).copied())
}

/// Copies `bytes` bytes from the host address `from` into a context. The copy is complete when this
/// returns.
pub(crate) fn copy_into(
    member: &Member,
    tag: &str,
    engine: CommEngine,
    (from, bytes): (usize, u64),
    offset: u64,
    call: &'static str,
) -> Result<(), Failure> {
    let Some(context) = find(member, tag, engine)? else { return missing(tag, engine) };
    if offset.checked_add(bytes).is_none_or(|end| end > context.bytes) {
        return refuse!(
            HCCL_E_PARA,
            "{bytes} bytes at the offset {offset} reach beyond the end of {}, which has {}; copy \
             fewer bytes, or make a larger context",
            describe(tag, engine),
            context.bytes
        );
    }
    let (to, length) = (context.address + offset as usize, bytes as usize);
    let source = match memory::resolve(from, length) {
        Ok(source) if !matches!(source.place, MemoryPlace::Device(_)) => source,
        Ok(_) => {
            return refuse!(HCCL_E_PARA, "srcCtx: {from:#x} is not host memory; pass host memory");
        }
        Err(text) => return refuse!(HCCL_E_PARA, "srcCtx: {text}"),
    };
    let target = match memory::resolve(to, length) {
        Ok(target) => target,
        Err(text) => {
            return refuse!(
                HCCL_E_PARA,
                "{} is gone: {text}. Make a new context",
                describe(tag, engine)
            );
        }
    };
    submit::at_once(member.device, call, || {
        let touches = vec![Touch::read(from, length), Touch::write(to, length)];
        (format!("copy of {bytes} bytes into {}", describe(tag, engine)), touches)
    });
    // SAFETY: both lookups above have covered `length` bytes. By the C contract, no other thread
    // writes the source meanwhile.
    unsafe { ascend_reduce::copy::copy(target.data, source.data, length, Store::Plain) };
    Ok(())
}

/// Destroys a context and frees its memory.
pub(crate) fn destroy(
    member: &Member,
    tag: &str,
    engine: CommEngine,
    call: &'static str,
) -> Result<(), Failure> {
    home(member, engine)?;
    let gone = of_rank(member).remove(&(engine.0, tag.to_owned()));
    match gone {
        Some(context) => {
            free(context, call);
            Ok(())
        }
        None => missing(tag, engine),
    }
}

fn describe(tag: &str, engine: CommEngine) -> String {
    format!("the context \"{tag}\" of the engine {}", engine.0)
}

fn missing<T>(tag: &str, engine: CommEngine) -> Result<T, Failure> {
    refuse!(
        HCCL_E_NOT_FOUND,
        "there is no context \"{tag}\" of the engine {}: it was not made on this rank, or was \
         ended; make it with HcclEngineCtxCreate",
        engine.0
    )
}

/// Returns the place of the contexts of an engine.
fn home(member: &Member, engine: CommEngine) -> Result<ContextHome, Failure> {
    let product = member.comm.product;
    match engine {
        CommEngine::COMM_ENGINE_CPU | CommEngine::COMM_ENGINE_CPU_TS => Ok(ContextHome::Host),
        CommEngine::COMM_ENGINE_AICPU
        | CommEngine::COMM_ENGINE_AICPU_TS
        | CommEngine::COMM_ENGINE_AIV => Ok(ContextHome::Device(member.device)),
        CommEngine::COMM_ENGINE_CCU if product == Product::Ascend950 => Ok(ContextHome::Host),
        CommEngine::COMM_ENGINE_CCU => {
            refuse!(HCCL_E_PARA, "{product} has no engine CCU (5); Ascend 950 has it")
        }
        CommEngine(other) => refuse!(
            HCCL_E_PARA,
            "{other} is not the number of an engine; pass CPU (0), CPU_TS (1), AICPU (2), \
             AICPU_TS (3), AIV (4) or CCU (5)"
        ),
    }
}

fn allocate(home: ContextHome, bytes: u64, call: &'static str) -> Result<usize, Failure> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    let taken = match home {
        ContextHome::Host => memory::host_pool().allocate(size, size, call),
        ContextHome::Device(id) => {
            let device = machine::device_slot(id);
            let charged = device.product().charged_size(size).unwrap_or(usize::MAX);
            device.allocate(size, charged, call)
        }
    };
    let address = match (taken, home) {
        (Ok(address), _) => address,
        (Err(_), ContextHome::Host) => {
            return refuse!(
                HCCL_E_MEMORY,
                "out of pinned host memory: {bytes} bytes; free some of it (aclrtFreeHost)"
            );
        }
        (Err(oom), ContextHome::Device(id)) => {
            return refuse!(
                HCCL_E_MEMORY,
                "no memory for the context: {bytes} bytes of device {id}, of which {} of {} are \
                 free; free memory of the device, or make a smaller context",
                oom.free,
                oom.total,
                id = machine::named(id)
            );
        }
    };
    match home {
        ContextHome::Host => {}
        ContextHome::Device(id) => {
            submit::at_once(id, call, || {
                (format!("zeros into {bytes} bytes"), vec![Touch::write(address, size)])
            });
        }
    }
    match memory::resolve(address, size) {
        Ok(found) => {
            clear(found.data, size);
            Ok(address)
        }
        Err(text) => refuse!(HCCL_E_INTERNAL, "EI9999: {text}"),
    }
}

fn free(context: EngineContext, by: &'static str) {
    // A reset of the device may have freed the memory already.
    let _ = match context.home {
        ContextHome::Host => host_memory::free(context.address, by, &[]),
        ContextHome::Device(id) => {
            machine::device_slot(id).free(context.address, by, unfinished_on)
        }
    };
}
