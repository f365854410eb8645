//! A loaded kernel and its server, and how both get onto their streams.
//!
//! Invariant: a launch names in its stamps every buffer that the kernel or the server touches, and its communicators. Kernel, server and the wait for
//! the server are enqueued as one operation of the kernel's stream, so that it is complete only when both have ended. The server's
//! stream is the driver's own and has nothing else on it. A tensor may be a part of an allocation: a recorded kernel is told how long
//! each one is, and touches nothing behind it. A compiled one takes no lengths; whoever loaded it has promised the same.

use std::sync::Arc;

use ascend_program::Program;

use crate::api::Table;
use crate::api::kernels::{KernelHandle, ServerHandle};
use crate::comm::Member;
use crate::device::deferred::Retire;
use crate::device::state::issue;
use crate::device::{Device, Stream};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::order::issue::{Operation, Touch};
use crate::order::label::Takes;
use crate::order::stamps::{Stamps, are_complete};
use crate::order::work::Work;

/// What a launch is called in errors.
pub(super) const LAUNCH: &str = "launch";

/// See the [module](self).
pub(crate) struct KernelDriver {
    kernel: KernelHandle,
    /// Whether it was recorded.
    takes_lengths: bool,
    server: Option<ServerHandle>,
}

/// The arguments of a launch, checked.
pub(super) struct LaunchArguments<'a> {
    pub blocks: u32,
    pub tiling: &'a [u8],
    pub tensors: Vec<&'a Region<'a>>,
    pub workspace: Option<&'a Region<'a>>,
}

impl KernelDriver {
    /// Loads a kernel onto a device, and the server if it has a client.
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

    /// No launch of it may be unfinished.
    fn unload(self, table: &Table) -> Result<()> {
        let ended = self.server.map_or(Ok(()), |server| table.unload_server(server));
        table.unload_kernel(self.kernel).and(ended)
    }

    /// Issues a launch. `touches` names everything in `call`, and the communicators.
    pub(super) fn launch(
        &self,
        stream: &Stream,
        call: &LaunchArguments<'_>,
        members: &[&Member],
        touches: &[Touch<'_>],
    ) -> Result<Work> {
        let (Some(server), Some((first, others))) = (&self.server, members.split_first()) else {
            return issue(stream, Operation::new(LAUNCH), touches, |raw| {
                self.enqueue(stream.table(), call, &[], raw)
            });
        };
        let device = stream.device();
        let event = device.take_event()?;
        first.let_detours_pass(LAUNCH, first.next(Takes::Nothing))?;
        // What the kernel issues is not numbered with what the host issues.
        let sequence = first.next(Takes::Nothing);
        let launch = first.operation(LAUNCH, sequence, Takes::Nothing);
        let launched = issue(stream, launch, touches, |raw| {
            let (table, comm) = (device.table(), first.enter(stream)?);
            let mut contexts = Vec::with_capacity(members.len());
            let mut tiling = call.tiling.to_vec();
            let handles = others.iter().map(|member| member.handle.calling());
            for comm in std::iter::once(Some(comm)).chain(handles) {
                let Some(comm) = comm else { return Err(Error::Aborted { context: None }) };
                // SAFETY: the communicators are borrowed, so their handles are live. A kernel with a client does not compile
                // without a tiling struct that begins with an `Mc2InitTiling`, and its bytes were checked to be given.
                let context = unsafe { table.kernel_context(comm, raw, &mut tiling) }?;
                contexts.push(context.addr() as u64);
            }
            // The server goes first, so that it is there to learn of a kernel that is refused.
            // SAFETY: the contexts belong to the communicators, which are stamped until this operation is complete, and that is
            // not before the server has ended.
            unsafe { table.launch_server(server, &contexts) }?;
            self.enqueue(table, call, &contexts, raw)?;
            table.record_event(&event, &server.stream)?;
            table.wait_event(stream.queue().handle(), &event)
        });
        device.recycle_event(event);
        launched.map_err(|error| first.explain(LAUNCH, sequence, error))
    }

    fn enqueue(
        &self,
        table: &Table,
        call: &LaunchArguments<'_>,
        contexts: &[u64],
        raw: ascend_sys::aclrtStream,
    ) -> Result<()> {
        let mut words = contexts.to_vec();
        words.extend(call.tensors.iter().map(|region| region.pointer().addr() as u64));
        words.push(call.workspace.map_or(0, |region| region.pointer().addr() as u64));
        if self.takes_lengths {
            words.extend(call.tensors.iter().map(|region| region.bytes() as u64));
            words.push(call.workspace.map_or(0, |region| region.bytes() as u64));
        }
        // Of the tiling struct.
        words.push(0);
        // SAFETY: the stream is live; the words are what the program takes, which was checked; everything behind them is stamped.
        unsafe { table.launch_kernel(&self.kernel, call.blocks, raw, &words, call.tiling) }
    }
}

/// A kernel that was dropped. It is free when its launches are complete.
pub(super) struct RetiredKernel {
    pub(super) driver: KernelDriver,
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
        are_complete(&mut self.stamps)
    }

    fn destroy(self: Box<Self>, table: &Table) -> Result<()> {
        self.driver.unload(table)
    }
}
