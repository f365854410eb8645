//! Contexts. `HcclAllocComResourceByTiling` returns the context of a rank, and a kernel receives it
//! as a hidden argument.
//!
//! A context is device memory that begins like that of CANN: the address and size of the workspace
//! for messages, the rank, the number of ranks, and the size and addresses of the windows. At first
//! it has only the rank's own windows; those of all ranks are added when all ranks have met. The
//! bytes that follow differ by product and are zero here. The workspace exists but is never
//! written, because messages are a structure of the emulator (see `area`).

use super::abroad::{AbroadWindow, RankWindows};
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
use std::slice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Returns the size of the workspace in bytes: 16 MiB, or 20 MiB on Ascend 950.
fn workspace_bytes(product: Product) -> usize {
    match product {
        Product::A2 | Product::A3 => 16 << 20,
        Product::Ascend950 => 20 << 20,
    }
}

/// The size in bytes of CANN's largest context, rounded up.
const BYTES: usize = 9216;

/// The offset, in a context of an A3, of the field with the offset of the table of ranks. For each
/// rank the table has a host pointer, which is null, and a device pointer to the rank's record.
const TABLE_OF_RANKS: usize = 192;
const TABLE_ENTRY: usize = 16;
const RECORD: usize = 32;

/// Returns the size of a context in bytes. On A3 the table of ranks and the records follow the
/// rest.
fn context_bytes(product: Product, ranks: usize) -> usize {
    match product {
        Product::A2 | Product::Ascend950 => BYTES,
        Product::A3 => BYTES + ranks * (TABLE_ENTRY + RECORD),
    }
}

/// Returns the offset of the record of a rank in a context of an A3.
fn record_of(rank: usize, ranks: usize) -> usize {
    BYTES + ranks * TABLE_ENTRY + rank * RECORD
}

/// Returns the offsets, in a context, of the two fields with the addresses of a rank's windows.
/// There is room for 32 ranks on A2 and for 64 on Ascend 950; `None` for a rank beyond these.
fn window_places(product: Product, rank: usize, ranks: usize) -> Option<[usize; 2]> {
    match product {
        Product::A2 => (rank < 32).then(|| [32 + 8 * rank, 288 + 8 * rank]),
        Product::A3 => {
            let record = record_of(rank, ranks);
            Some([record + 8, record + 16])
        }
        Product::Ascend950 => (rank < 64).then(|| [32 + 8 * rank, 544 + 8 * rank]),
    }
}

struct KernelContext {
    area: Arc<Area>,
    workspace: usize,
    windows: [usize; 2],
    window_bytes: usize,
}

/// The contexts, by address.
static CONTEXTS: Mutex<BTreeMap<usize, KernelContext>> = Mutex::new(BTreeMap::new());

/// Returns the area of the context at an address that a kernel has received, if there is a context.
pub(super) fn find(address: u64) -> Option<Arc<Area>> {
    let contexts = lock(&CONTEXTS);
    usize::try_from(address).ok().and_then(|at| contexts.get(&at)).map(|c| Arc::clone(&c.area))
}

/// A window of a rank.
pub(super) enum RankWindow {
    /// The window of a rank of this process, in the memory of a device.
    Own { start: usize, bytes: usize, device: u32 },
    /// The window of a rank in another process.
    Abroad(AbroadWindow),
}

impl RankWindow {
    /// Returns the address that kernels of this process use for the window.
    pub(super) fn start(&self) -> usize {
        match self {
            RankWindow::Own { start, .. } => *start,
            RankWindow::Abroad(window) => window.data,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            RankWindow::Own { bytes, .. } => *bytes,
            RankWindow::Abroad(window) => window.bytes,
        }
    }
}

/// Returns the window of a rank of the same communicator, for input or for output. `None` if the
/// rank has no window, or has it no longer.
pub(super) fn window(area: &Area, rank: usize, output: bool) -> Option<RankWindow> {
    let address = area.hub.contexts.get(rank)?.load(Ordering::Acquire);
    if let Some(context) = lock(&CONTEXTS).get(&address) {
        let (start, bytes) = (context.windows[usize::from(output)], context.window_bytes);
        return Some(RankWindow::Own { start, bytes, device: context.area.member.device });
    }
    AbroadWindow::find(&area.hub.comm, rank, output).map(RankWindow::Abroad)
}

/// Returns the rank of a device in the same communicator, if the rank has a context.
pub(super) fn rank_on(area: &Area, device: u32) -> Option<usize> {
    let contexts = lock(&CONTEXTS);
    area.hub.contexts.iter().position(|address| {
        let context = contexts.get(&address.load(Ordering::Acquire));
        context.is_some_and(|context| context.area.member.device == device)
    })
}

/// Returns the address of the context of a rank. The first call makes the context.
pub(crate) fn of(member: &Arc<Member>, call: &'static str) -> Result<usize, Failure> {
    let hub = Arc::clone(hub_of(&member.comm));
    let own = &hub.contexts[member.rank];
    if own.load(Ordering::Acquire) != 0 {
        return Ok(own.load(Ordering::Acquire));
    }
    let mut contexts = lock(&CONTEXTS);
    // Another thread may have made it in the meantime.
    if own.load(Ordering::Acquire) != 0 {
        return Ok(own.load(Ordering::Acquire));
    }
    let device = machine::device_slot(member.device);
    let window_bytes = (member.config.buffer_megabytes as usize) << 20;
    let mut taken = Vec::new();
    let context_bytes = context_bytes(device.product(), member.comm.ranks());
    for bytes in [context_bytes, workspace_bytes(device.product()), window_bytes, window_bytes] {
        match device.memory.allocate(bytes.max(1), bytes, call) {
            Ok(address) => taken.push(address),
            Err(oom) => {
                for address in taken {
                    // The allocation was made just now, so nothing uses it.
                    let _ = device.memory.free(address, call, Vec::new);
                }
                return refuse!(
                    HCCL_E_MEMORY,
                    "no memory for the context: {bytes} bytes of device {}, of which {} of {} \
                     are free; reduce HCCL_BUFFSIZE (hcclBufferSize), the size of each of the \
                     two windows in MiB",
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
        if member.comm.is_joint() {
            check::lent(member, slice::from_ref(&(window..window + window_bytes)));
        }
    }
    let server = Member {
        comm: Arc::clone(&hub.comm),
        rank: member.rank,
        device: member.device,
        origin: None,
        config: member.config.clone(),
        exec_timeout: member.exec_timeout,
        suspended: false.into(),
        numbers_zeros: false.into(),
    };
    let head = Head {
        workspace: workspace as u64,
        workspace_bytes: workspace_bytes(device.product()) as u64,
        rank: member.rank as u32,
        ranks: member.comm.ranks() as u32,
        window_bytes: window_bytes as u64,
        windows: windows.map(|window| window as u64),
    };
    head.write(address, device.product())?;
    let data = windows.map(|window| memory::resolve(window, window_bytes));
    if let [Ok(input), Ok(output)] = data {
        let data = [input, output].map(|found| found.data.addr());
        let opened = RankWindows { data, bytes: window_bytes };
        opened.open(&hub.comm, member.rank);
    }
    let name = member.comm.name.clone();
    own.store(address, Ordering::Release);
    let area = Arc::new(Area::new(address, Arc::new(server), hub, name));
    contexts.insert(address, KernelContext { area, workspace, windows, window_bytes });
    Ok(address)
}

/// The part of a context that is the same on A2, A3 and the engine of Ascend 950, and the rank's
/// own windows.
struct Head {
    workspace: u64,
    workspace_bytes: u64,
    rank: u32,
    ranks: u32,
    window_bytes: u64,
    windows: [u64; 2],
}

impl Head {
    fn write(&self, address: usize, product: Product) -> Result<(), Failure> {
        let (rank, ranks) = (self.rank as usize, self.ranks as usize);
        let mut bytes = vec![0u8; context_bytes(product, ranks)];
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
        let mut places: Vec<_> = window_places(product, rank, ranks).into_iter().collect();
        if product == Product::A3 {
            places.push([32, 40]);
            put(TABLE_OF_RANKS, &(BYTES as u32).to_le_bytes());
            for rank in 0..ranks {
                let record = record_of(rank, ranks);
                let on_device = (address + record) as u64;
                put(BYTES + rank * TABLE_ENTRY + 8, &on_device.to_le_bytes());
                put(record, &(rank as u32).to_le_bytes());
            }
        }
        for (place, window) in places.iter().flat_map(|places| places.iter().zip(self.windows)) {
            put(*place, &window.to_le_bytes());
        }
        store(address, &bytes)
    }
}

/// Writes to a context.
fn store(address: usize, bytes: &[u8]) -> Result<(), Failure> {
    match memory::resolve(address, bytes.len()) {
        Ok(found) => {
            let kind = ascend_reduce::Store::Plain;
            // SAFETY: the bytes were resolved above, in a live allocation.
            unsafe { ascend_reduce::copy::copy(found.data, bytes.as_ptr(), bytes.len(), kind) };
            Ok(())
        }
        Err(text) => refuse!(HCCL_E_INTERNAL, "EI9999: {text}"),
    }
}

/// Writes the addresses of the windows of all ranks into the context of this rank. This is called
/// when all ranks have requested their contexts. The addresses are those that kernels and servers
/// of this process use.
pub(crate) fn complete(member: &Member, address: usize) -> Result<(), Failure> {
    let Some(area) = find(address as u64) else { return Ok(()) };
    let ranks = member.comm.ranks();
    for rank in 0..ranks {
        let Some(places) = window_places(member.comm.product, rank, ranks) else { continue };
        for (place, output) in places.into_iter().zip([false, true]) {
            if let Some(window) = window(&area, rank, output) {
                store(address + place, &(window.start() as u64).to_le_bytes())?;
            }
        }
    }
    Ok(())
}

/// Fails the kernel and the server of an area, if they run. This also ends a kernel or server that
/// waits forever.
fn end(area: &Area) {
    let rank = area.member.rank;
    let text = format!(
        "rank {rank} ended the communicator \"{}\" during a kernel; keep the communicator until \
         all kernels that use it have ended",
        area.group
    );
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
    /// Ends the context of a rank that is gone.
    fn left(&self, rank: usize, why: &str) {
        let has_context = self.contexts[rank].load(Ordering::Acquire) != 0;
        if has_context {
            RankWindows::close(&self.comm, rank);
        }
        self.comm.leave(rank, why.to_owned());
        let address = self.contexts[rank].swap(0, Ordering::AcqRel);
        let gone = lock(&CONTEXTS).remove(&address);
        if let Some(context) = gone {
            end(&context.area);
            let device = machine::device_slot(context.area.member.device);
            for memory in [address, context.workspace, context.windows[0], context.windows[1]] {
                // A reset of the device may have freed the memory already.
                let _ = device.free(memory, "HcclCommDestroy", stream::unfinished_on);
            }
        }
    }
}

/// Returns the hub of the servers of a communicator.
fn hub_of(comm: &Comm) -> &Arc<Hub> {
    comm.part(|| Arc::new(Hub::new(comm.new_beside())))
}
