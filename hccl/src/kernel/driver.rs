//! A loaded kernel and its communication server, and the calls that enqueue both.
//!
//! Invariant: the stamps of a launch name its communicators, and every buffer that the kernel or
//! the server accesses. The kernel, the server and the wait for the server are enqueued as one
//! operation of the kernel's stream. So the operation is complete only when the kernel and the
//! server have ended. The driver owns the stream of the server, and enqueues only the work of its
//! launches on it.
//!
//! A tensor may be a part of an allocation. A recorded kernel gets the length of each tensor and
//! accesses no memory beyond it. A compiled kernel gets no lengths. The program that loaded it has
//! promised that the kernel stays within its tensors (see the safety section of `load_object`).

use std::borrow::Cow;
use std::iter;
use std::sync::Arc;

use ascend_program::Program;
use ascend_sys::HcclComm;

use super::tiling::communication::way_of;
use crate::api::Table;
use crate::api::handles::{EventHandle, StreamHandle};
use crate::api::kernels::{KernelHandle, ServerHandle};
use crate::comm::Member;
use crate::comm::detour::{Alike, CallFailure};
use crate::comm::handle::CommHandle;
use crate::comm::links::Needs;
use crate::device::deferred::Retire;
use crate::device::state::sealed::StreamState as _;
use crate::device::state::{handle, issue};
use crate::device::{Device, Open, Stream};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::order::issue::{Operation, Touch};
use crate::order::label::Takes;
use crate::order::stamps::{Conflicts, Stamps, are_complete};
use crate::order::work::Work;

/// The name of a launch in errors.
pub(super) const LAUNCH: &str = "launch";

/// A loaded kernel and, if it communicates, its server. The [module](self) states the invariant.
pub(crate) struct KernelDriver {
    kernel: KernelHandle,
    /// Whether the kernel takes the lengths of its tensors. A recorded kernel does; a compiled
    /// kernel does not.
    takes_lengths: bool,
    server: Option<ServerHandle>,
}

/// The checked arguments of a launch.
pub(super) struct LaunchArguments<'a> {
    pub blocks: u32,
    pub tiling: &'a [u8],
    pub tensors: Vec<&'a Region<'a>>,
    pub workspace: Option<&'a Region<'a>>,
}

/// The arguments of a launch in the form in which CANN takes them.
struct LaunchCall<'a> {
    blocks: u32,
    tiling: Cow<'a, [u8]>,
    /// The words that the kernel gets after the addresses of its contexts.
    words: Vec<u64>,
}

impl<'a> LaunchArguments<'a> {
    fn into_call(self, takes_lengths: bool) -> LaunchCall<'a> {
        let LaunchArguments { blocks, tiling, tensors, workspace } = self;
        let regions = || tensors.iter().copied().map(Some).chain([workspace]);
        let address = |region: Option<&Region<'_>>| region.map_or(0, |r| r.pointer().addr() as u64);
        let mut words: Vec<u64> = regions().map(address).collect();
        if takes_lengths {
            words.extend(regions().map(|region| region.map_or(0, |r| r.bytes() as u64)));
        }
        // A placeholder: CANN writes the address of the tiling struct here.
        words.push(0);
        LaunchCall { blocks, tiling: tiling.into(), words }
    }
}

impl KernelDriver {
    /// Loads a kernel onto a device. Also loads the communication server if the kernel has a
    /// client.
    pub(super) fn load(device: &Device, object: &[u8], program: &Program) -> Result<KernelDriver> {
        device.reap();
        let _bound = device.bind()?;
        let table = device.table();
        let kernel = table.load_kernel(object, &program.name)?;
        let takes_lengths = Program::is_one(object);
        if program.groups == 0 {
            return Ok(KernelDriver { kernel, takes_lengths, server: None });
        }
        match table.load_server() {
            Ok(server) => Ok(KernelDriver { kernel, takes_lengths, server: Some(server) }),
            Err(error) => table.unload_kernel(kernel).and(Err(error)),
        }
    }

    /// Unloads the kernel and its server. All launches of the kernel must be complete.
    fn unload(self, table: &Table) -> Result<()> {
        let ended = self.server.map_or(Ok(()), |server| table.unload_server(server));
        table.unload_kernel(self.kernel).and(ended)
    }

    /// Issues a launch. If the launch has communicators, a helper makes the calls while their links
    /// for this tiling struct are not made, or while helpers of the device have earlier calls to
    /// make. `touches` must name all memory in `call`, and the communicators.
    pub(super) fn launch(
        self: &Arc<Self>,
        stream: &Stream,
        call: LaunchArguments<'_>,
        members: &[&Member],
        touches: &[Touch<'_>],
    ) -> Result<Work> {
        let call = call.into_call(self.takes_lengths);
        let Some((first, others)) = members.split_first().filter(|_| self.server.is_some()) else {
            return issue(stream, Operation::new(LAUNCH), touches, |_| {
                self.enqueue(stream.table(), &call, &[], stream.queue().handle())
            });
        };
        let device = stream.device();
        let event = device.lend_event()?;
        // The launch takes no number: operations that a kernel requests are not counted with those
        // of the host.
        let sequence = first.next(Takes::Nothing);
        let launch = first.operation(LAUNCH, sequence, Takes::Nothing);
        let way = way_of(&call.tiling);
        let is_linked = device.linking().is_idle()
            && members.iter().all(|member| member.handle.links.are_made_for_kernel(way));
        let issued = if is_linked {
            Open::issue(stream, launch, touches, |_| {
                let comm = first.enter(stream)?;
                let handles = others.iter().map(|member| &*member.handle);
                let stream = stream.queue().handle();
                let called = self.call(device.table(), &call, (comm, handles), stream, &event);
                called.map_err(|failed| failed.error)
            })
        } else {
            let driver = self.clone();
            let handles: Vec<_> = others.iter().map(|member| member.handle.clone()).collect();
            let call = LaunchCall { tiling: call.tiling.into_owned().into(), ..call };
            let call = move |table: &Table, comm, stream: &StreamHandle| {
                let handles = handles.iter().map(|handle| &**handle);
                driver.call(table, &call, (comm, handles), stream, &event)
            };
            // Launches of one kernel share the stream of its server, so the key keeps them in
            // order.
            let alike = Alike { others, key: Some(Arc::as_ptr(self).addr() as u64) };
            first.issue_alike(stream, launch, Needs::Kernel(way), (alike, touches), call)
        };
        if let Ok(issued) = &issued {
            for member in members {
                member.handle.note_own_work(stream.slot(), issued.number);
            }
        }
        handle(stream, issued.map_err(|error| first.explain(LAUNCH, sequence, error)), LAUNCH)
    }

    /// Makes the calls of a launch with communicators. The caller is issuing the operation of the
    /// launch on `stream`.
    fn call<'a>(
        &self,
        table: &Table,
        call: &LaunchCall<'_>,
        (first, others): (HcclComm, impl Iterator<Item = &'a CommHandle>),
        stream: &StreamHandle,
        event: &EventHandle,
    ) -> Result<(), CallFailure> {
        let Some(server) = &self.server else { return Ok(()) };
        let mut contexts = Vec::new();
        let mut tiling = call.tiling.to_vec();
        for comm in iter::once(Some(first)).chain(others.map(CommHandle::calling)) {
            let Some(comm) = comm else { return Err(Error::Aborted { context: None }.into()) };
            // SAFETY: the communicators are borrowed, or are users of a detour, so their handles
            // are live. A kernel with a client compiles only if its tiling struct begins with an
            // `Mc2InitTiling`, and `Launch::check` has verified that the struct was given.
            let context = unsafe { table.kernel_context(comm, stream.raw(), &mut tiling) }?;
            contexts.push(context.addr() as u64);
        }
        // The server must not start before its kernel can begin. Otherwise it would take the
        // messages of another kernel on the same communicator.
        table.record_event(event, stream)?;
        table.wait_event(&server.stream, event)?;
        // The server is launched before the kernel. So if the kernel is refused, its server is
        // already launched and learns of the refusal. SAFETY: the contexts belong to the
        // communicators. The stamps keep the communicators alive until this operation is complete,
        // and it is not complete before the server has ended.
        unsafe { table.launch_server(server, &contexts) }?;
        let launched = self.enqueue(table, call, &contexts, stream);
        // The stream waits for the server even if the kernel was refused, because the server is
        // running.
        let joined = table.record_event(event, &server.stream);
        let joined = joined.and_then(|()| table.wait_event(stream, event));
        launched.and(joined).map_err(|error| CallFailure { error, is_out: true, aborts: false })
    }

    fn enqueue(
        &self,
        table: &Table,
        call: &LaunchCall<'_>,
        contexts: &[u64],
        stream: &StreamHandle,
    ) -> Result<()> {
        let words = match contexts {
            [] => Cow::from(&call.words),
            _ => contexts.iter().chain(&call.words).copied().collect(),
        };
        // SAFETY: the stream is live. The words were checked to be those that the program takes.
        // The stamps name all memory that the words point to.
        unsafe {
            table.launch_kernel(&self.kernel, call.blocks, stream.raw(), &words, &call.tiling)
        }
    }
}

/// A dropped kernel. It can be unloaded when all its launches are complete.
pub(super) struct RetiredKernel {
    pub(super) driver: Arc<KernelDriver>,
    pub(super) stamps: Arc<Stamps>,
}

impl Retire for RetiredKernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn order(&self) -> u8 {
        1
    }

    fn is_free(&mut self) -> bool {
        // A helper that is about to launch the kernel holds another reference.
        Arc::get_mut(&mut self.driver).is_some() && are_complete(&mut self.stamps)
    }

    fn unfinished(&self) -> Conflicts {
        self.stamps.all_unfinished()
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        Arc::into_inner(self.driver).map_or(Ok(()), |driver| driver.unload(table))
    }
}
