//! Symmetric windows: memory of the same size on every rank, which all ranks register in one call.
//!
//! Collectives of the emulator reach the memory of every rank anyway, so a window has no effect on
//! them. A library of operators queries windows before it uses an address of a peer. A query
//! returns the window that contains some bytes, and their offset in the window.

use super::handles::Handles;
use super::open::ReachableMemory;
use crate::fabric::{CommPart, Member};
use crate::machine;
use crate::memory::held::HeldMemory;
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::slots::HandleKind;
use std::sync::atomic::{AtomicU64, Ordering};

static WINDOWS: Handles<SymmetricWindow> = Handles::new(HandleKind::SymmetricWindow);

/// The functions whose memory an A3 accepts for a window, because that memory has physical memory
/// of its own.
const OF_PHYSICAL_MEMORY: [&str; 2] = ["aclrtMapMem", "HcommMemAlloc"];

/// The part of a window that belongs to one rank.
struct SymmetricWindow {
    comm: u64,
    rank: usize,
    start: usize,
    bytes: u64,
    held: Option<HeldMemory>,
    /// The number of registrations.
    times: u64,
}

/// The windows of a communicator.
struct SymmetricWindows {
    comm: u64,
    /// The number of registrations that each rank has begun.
    begun: Box<[AtomicU64]>,
}

impl CommPart for SymmetricWindows {
    fn left(&self, rank: usize, _: &str) {
        drop(WINDOWS.take_all(|window| window.is_of(self.comm, rank)));
    }
}

impl SymmetricWindow {
    fn is_of(&self, comm: u64, rank: usize) -> bool {
        (self.comm, self.rank) == (comm, rank)
    }
}

/// Registers memory of the rank, and blocks until all ranks have made the same number of
/// registrations. Memory that is registered already keeps its window.
pub(crate) fn register(
    member: &Member,
    start: usize,
    bytes: u64,
    by: &'static str,
) -> Result<u64, Failure> {
    let comm = &member.comm;
    let memory = ReachableMemory { on_host: false, start, bytes };
    let held = memory.hold(member.device, "addr")?;
    let key = |window: &SymmetricWindow| {
        window.is_of(comm.id, member.rank) && (window.start, window.bytes) == (start, bytes)
    };
    let known = WINDOWS.find(|handle, window| key(window).then_some(handle));
    match comm.product {
        Product::A2 => {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "an A2 has no symmetric windows; use an A3 or an Ascend 950"
            );
        }
        Product::A3 => check_on_a3(member, start, bytes, known.is_some())?,
        Product::Ascend950 => {}
    }
    let new = || SymmetricWindows {
        comm: comm.id,
        begun: (0..comm.ranks()).map(|_| AtomicU64::new(0)).collect(),
    };
    let number = comm.part(new).begun[member.rank].fetch_add(1, Ordering::Relaxed) + 1;
    let purpose = format!("symmetric window {number}");
    comm.meet_once(member.rank, &purpose, format!("{bytes} bytes"), by)?;
    match known {
        Some(handle) => WINDOWS.with(handle, |window| {
            window.times += 1;
            window.held = held;
            Ok(handle)
        }),
        None => {
            let (comm, rank) = (comm.id, member.rank);
            Ok(WINDOWS.add(SymmetricWindow { comm, rank, start, bytes, held, times: 1 }))
        }
    }
}

/// Checks the conditions of an A3: the kind of memory of a window, and the total size of the
/// windows of a rank.
fn check_on_a3(member: &Member, start: usize, bytes: u64, is_known: bool) -> Result<(), Failure> {
    const LAYER_OF_ALL_SUPERPODS: usize = 3;
    if member.comm.layers().len() >= LAYER_OF_ALL_SUPERPODS {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "the communicator has ranks in more than one superpod, but symmetric windows reach \
             only one; use a communicator within one superpod"
        );
    }
    let memory = &machine::device_slot(member.device).memory;
    let function = memory.bounds_of(start).ok().and_then(|(begin, _)| memory.entry_of(begin));
    if !function.is_some_and(|function| OF_PHYSICAL_MEMORY.contains(&function)) {
        return refuse!(
            HCCL_E_PARA,
            "addr: {start:#x} is memory of {}; on an A3, pass physical memory that is mapped \
             (aclrtMallocPhysical, aclrtMapMem), or memory of HcommMemAlloc",
            function.unwrap_or("no allocation")
        );
    }
    let mut taken = 0u64;
    WINDOWS.for_all(|_, window| {
        if window.is_of(member.comm.id, member.rank) {
            taken = taken.saturating_add(window.bytes);
        }
    });
    let most = member.config.window_bytes;
    if !is_known && taken.saturating_add(bytes) > most {
        return refuse!(
            HCCL_E_MEMORY,
            "{bytes} bytes: rank {} has windows of {taken} bytes, and its communicator has \
             addresses for {most}; deregister windows, or raise hcclSymWinMaxMemSizePerRank",
            member.rank
        );
    }
    Ok(())
}

/// Ends one registration. The window ends with its last registration.
pub(crate) fn deregister(handle: u64) -> Result<(), Failure> {
    let is_last = WINDOWS.with(handle, |window| {
        window.times -= 1;
        Ok(window.times == 0)
    })?;
    if is_last { WINDOWS.take(handle).map(drop) } else { Ok(()) }
}

/// Returns the window of the rank that contains these bytes, and their offset in the window. `None`
/// if no window contains them.
pub(crate) fn find(
    member: &Member,
    start: usize,
    bytes: u64,
) -> Result<Option<(u64, u64)>, Failure> {
    let offset = |window: &SymmetricWindow| {
        let offset = start.checked_sub(window.start)? as u64;
        (offset.checked_add(bytes)? <= window.bytes).then_some(offset)
    };
    let of_rank = |handle, window: &SymmetricWindow| {
        let is_own = window.is_of(member.comm.id, member.rank);
        offset(window).filter(|_| is_own).map(|offset| (handle, offset))
    };
    let Some((handle, offset)) = WINDOWS.find(of_rank) else { return Ok(None) };
    WINDOWS.with(handle, |window| match window.held.as_mut().map_or(Ok(()), HeldMemory::check) {
        Ok(()) => Ok(Some((handle, offset))),
        Err(text) => refuse!(
            HCCL_E_PARA,
            "memory of a window must not be freed: {text}. Deregister the window first"
        ),
    })
}
