//! Contexts: what `HcclAllocComResourceByTiling` gives a rank, and a kernel gets as a hidden argument.
//!
//! A context is device memory that begins as CANN's does: where the workspace of the messages is and how large, rank, number of
//! ranks, and the size and places of the windows. What follows differs by product and is zero here. The workspace that it names exists and is
//! never written: messages are a structure of the emulator (see `area`).

use super::area::Area;
use super::hub::Hub;
use crate::check;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::fabric::{Comm, CommPart, Member};
use crate::machine;
use crate::memory;
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::stream;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Of the workspace: 16 MiB, on 950 20.
fn workspace_bytes(product: Product) -> usize {
    match product {
        Product::A2 | Product::A3 => 16 << 20,
        Product::Ascend950 => 20 << 20,
    }
}

/// What CANN's largest context has, rounded up.
const BYTES: usize = 9216;

struct KernelContext {
    area: Arc<Area>,
    workspace: usize,
    windows: [usize; 2],
    window_bytes: usize,
}

/// By address.
static CONTEXTS: Mutex<BTreeMap<usize, KernelContext>> = Mutex::new(BTreeMap::new());

/// The area behind an address that a kernel was given.
pub(super) fn find(address: u64) -> Option<Arc<Area>> {
    let contexts = lock(&CONTEXTS);
    usize::try_from(address).ok().and_then(|at| contexts.get(&at)).map(|c| Arc::clone(&c.area))
}

/// The window of a rank of the same communicator: its address and size. The first is the one for input.
pub(super) fn window(area: &Area, rank: usize, output: bool) -> Option<(usize, usize, u32)> {
    let contexts = lock(&CONTEXTS);
    let context = contexts.get(&area.hub.contexts.get(rank)?.load(Ordering::Acquire))?;
    let window = context.windows[usize::from(output)];
    Some((window, context.window_bytes, context.area.member.device))
}

/// The rank of a device in the same communicator, if it has a context.
pub(super) fn rank_on(area: &Area, device: u32) -> Option<usize> {
    let contexts = lock(&CONTEXTS);
    area.hub.contexts.iter().position(|address| {
        let context = contexts.get(&address.load(Ordering::Acquire));
        context.is_some_and(|context| context.area.member.device == device)
    })
}

/// The context of a rank: made by the first call, the same in every later one.
pub(crate) fn of(member: &Arc<Member>, call: &'static str) -> Result<usize, Failure> {
    member.comm.in_one_process(call)?;
    let hub = Arc::clone(hub_of(&member.comm));
    let own = &hub.contexts[member.rank];
    if own.load(Ordering::Acquire) != 0 {
        return Ok(own.load(Ordering::Acquire));
    }
    let mut contexts = lock(&CONTEXTS);
    // Another thread may have made it just now.
    if own.load(Ordering::Acquire) != 0 {
        return Ok(own.load(Ordering::Acquire));
    }
    let device = machine::device_slot(member.device);
    let window_bytes = (member.config.buffer_megabytes as usize) << 20;
    let mut taken = Vec::new();
    for bytes in [BYTES, workspace_bytes(device.product()), window_bytes, window_bytes] {
        match device.memory.allocate(bytes.max(1), bytes, call) {
            Ok(address) => taken.push(address),
            Err(oom) => {
                for address in taken {
                    // It was allocated just now.
                    let _ = device.memory.free(address, call, Vec::new);
                }
                return refuse!(
                    HCCL_E_MEMORY,
                    "no memory for the context: {bytes} bytes of device {}, of which {} of {} are free; the two windows have \
                     HCCL_BUFFSIZE (hcclBufferSize) MiB each",
                    machine::named(device.id),
                    oom.free,
                    oom.total
                );
            }
        }
    }
    let (address, workspace, windows) = (taken[0], taken[1], [taken[2], taken[3]]);
    for (window, kind) in windows.into_iter().zip(["input", "output"]) {
        check::window_opened(device.id, window..window + window_bytes, || {
            let (rank, group) = (member.rank, &member.comm.name);
            format!("the {kind} window of rank {rank} of communicator \"{group}\"")
        });
    }
    let server = Member {
        comm: Arc::clone(&hub.comm),
        rank: member.rank,
        device: member.device,
        origin: None,
        config: member.config.clone(),
        exec_timeout: member.exec_timeout,
        suspended: false.into(),
    };
    let head = Head {
        workspace: workspace as u64,
        workspace_bytes: workspace_bytes(device.product()) as u64,
        rank: member.rank as u32,
        ranks: member.comm.ranks() as u32,
        window_bytes: window_bytes as u64,
        windows: windows.map(|window| window as u64),
    };
    head.write(address, device.product(), member.rank)?;
    let name = member.comm.name.clone();
    own.store(address, Ordering::Release);
    let area = Arc::new(Area::new(address, Arc::new(server), hub, name));
    contexts.insert(address, KernelContext { area, workspace, windows, window_bytes });
    Ok(address)
}

/// The part of a context that is alike on A2, A3 and on 950's own engine, and the own windows.
struct Head {
    workspace: u64,
    workspace_bytes: u64,
    rank: u32,
    ranks: u32,
    window_bytes: u64,
    windows: [u64; 2],
}

impl Head {
    fn write(&self, address: usize, product: Product, rank: usize) -> Result<(), Failure> {
        let mut bytes = vec![0u8; BYTES];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        put(0, &self.workspace.to_le_bytes());
        put(8, &self.workspace_bytes.to_le_bytes());
        put(16, &self.rank.to_le_bytes());
        put(20, &self.ranks.to_le_bytes());
        put(24, &self.window_bytes.to_le_bytes());
        let (input, output) = match product {
            Product::A2 => (32 + 8 * rank.min(31), 288 + 8 * rank.min(31)),
            Product::A3 => (32, 40),
            Product::Ascend950 => (32 + 8 * rank.min(63), 544 + 8 * rank.min(63)),
        };
        put(input, &self.windows[0].to_le_bytes());
        put(output, &self.windows[1].to_le_bytes());
        match memory::resolve(address, BYTES) {
            Ok(found) => {
                // SAFETY: the allocation was made for it just now.
                unsafe {
                    let store = ascend_reduce::Store::Plain;
                    ascend_reduce::copy::copy(found.data, bytes.as_ptr(), BYTES, store);
                }
                Ok(())
            }
            Err(text) => refuse!(HCCL_E_INTERNAL, "EI9999: {text}"),
        }
    }
}

/// Ends the kernel and the server of an area, if there are any: this is how stuck ones are ended.
fn end(area: &Area) {
    let rank = area.member.rank;
    let text = format!("rank {rank} ended the communicator \"{}\" in mid-kernel", area.group);
    let busy = area.answer(|state| {
        let busy = state.kernel.is_some() || state.server.is_some();
        if busy {
            state.failure.get_or_insert(text.as_str().into());
        }
        busy
    });
    if busy {
        let error = CommError::new(Origin::Call, Cause::Gone, text);
        area.member.comm.fail(error);
        area.post(|_| ());
    }
}

impl CommPart for Arc<Hub> {
    /// A rank of the communicator is gone, and with it its context.
    fn left(&self, rank: usize, why: &str) {
        self.comm.leave(rank, why.to_owned());
        let address = self.contexts[rank].swap(0, Ordering::AcqRel);
        let gone = lock(&CONTEXTS).remove(&address);
        if let Some(context) = gone {
            end(&context.area);
            let device = machine::device_slot(context.area.member.device);
            for memory in [address, context.workspace, context.windows[0], context.windows[1]] {
                // Its device may have been reset meanwhile, and its memory with it.
                let _ = device.free(memory, "HcclCommDestroy", stream::unfinished_on);
            }
        }
    }
}

/// Where the servers of a communicator meet.
fn hub_of(comm: &Comm) -> &Arc<Hub> {
    comm.part(|| {
        let (name, limit) = (comm.name.clone(), comm.connect_timeout);
        let inner = Comm::new(name, comm.product, limit, comm.ranks());
        inner.set_title(comm.title());
        Arc::new(Hub::new(inner))
    })
}
