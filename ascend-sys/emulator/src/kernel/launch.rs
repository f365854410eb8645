//! Launches of functions as tasks of a stream.

use super::arguments::{Arguments, KernelArgument, check_count};
use super::binary::is_on;
use super::code::{Code, KernelFunction};
use super::context;
use super::running::Launched;
use super::server::{PATIENCE, Server};
use super::task::Kernel;
use super::time_limit;
use super::verdict::Recorded;
use crate::capture;
use crate::machine;
use crate::memory;
use crate::message::{Failure, fail};
use crate::stream::{Mark, Stream};
use ascend_program::Program;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::sync::Arc;
use std::time::Duration;

/// The largest number of blocks of a launch.
const MOST_BLOCKS: u32 = 65_535;
/// The largest number of contexts that a server serves.
const MOST_GROUPS: u64 = 3;

/// Puts a function into a stream, or into the graph of the stream if it is captured.
pub(crate) fn launch(
    function: &KernelFunction,
    blocks: u32,
    arguments: Arguments,
    limit: Option<Duration>,
    stream: &'static Stream,
    call: &'static str,
) -> Result<(), Failure> {
    is_on(function, stream.device_id())?;
    if !(1..=MOST_BLOCKS).contains(&blocks) {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "numBlocks is {blocks}; pass 1 to {MOST_BLOCKS}");
    }
    match (&function.code, &arguments) {
        (Code::Program(recorded), Arguments::Given(given)) => {
            check_count(&function.code, given.len())?;
            kernel(recorded, blocks, arguments, limit, stream, call)
        }
        (Code::Program(recorded), _) => kernel(recorded, blocks, arguments, limit, stream, call),
        (Code::Server, _) => server(arguments, limit, stream),
        // The arguments of a CPU kernel are a block of bytes: see `cpu_kernel`.
        (Code::Cpu(_), _) => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{} runs on the CPU and takes a block of arguments; launch it with \
             aclrtLaunchKernelWithHostArgs",
            function.name
        ),
    }
}

fn kernel(
    recorded: &Arc<Recorded>,
    blocks: u32,
    arguments: Arguments,
    limit: Option<Duration>,
    stream: &'static Stream,
    call: &'static str,
) -> Result<(), Failure> {
    if stream.is_diverted() {
        let recorded = Arc::clone(recorded);
        let name = format!("{}{}", capture::tasks::KERNEL, recorded.program.name);
        let touched = touched(&arguments);
        let issue = move |stream| kernel(&recorded, blocks, arguments.clone(), limit, stream, call);
        return capture::record_call(stream, name, &touched, Box::new(issue));
    }
    // A kernel that communicates waits for the other ranks. It may wait no longer than other
    // operations of the communicator.
    let patience = || match exec_timeout(&recorded.program, &arguments) {
        Some(limit) => limit.min(PATIENCE),
        None => PATIENCE,
    };
    let limit = Some(limit.or_else(time_limit::given).unwrap_or_else(patience));
    let recorded = Arc::clone(recorded);
    let launched = Launched::by_this_thread(recorded, arguments, blocks, limit, stream, call)?;
    capture::submit(stream, Box::new(Kernel::new(launched))).map(drop)
}

/// Returns the smallest execution time limit of the communicators that a kernel uses. `None` if
/// they have no limit, or if the arguments are in device memory.
fn exec_timeout(program: &Program, arguments: &Arguments) -> Option<Duration> {
    let Arguments::Given(given) = arguments else { return None };
    let contexts = given.iter().take(program.groups as usize);
    let limits = contexts.filter_map(|argument| match argument {
        KernelArgument::Word(address) => context::find(*address)?.member.exec_timeout,
        KernelArgument::Bytes(..) => None,
    });
    limits.min()
}

/// Returns one byte of each allocation to which the arguments of a captured kernel point. The graph
/// later checks that the allocations are still the same.
fn touched(arguments: &Arguments) -> Vec<(*const u8, usize)> {
    let addresses: Vec<u64> = match arguments {
        Arguments::Given(given) => given
            .iter()
            .filter_map(|argument| match argument {
                KernelArgument::Word(address) => Some(*address),
                KernelArgument::Bytes(..) => None,
            })
            .collect(),
        Arguments::InMemory { address, .. } => vec![*address as u64],
    };
    let data = |address: u64| {
        let address = usize::try_from(address).ok()?;
        let found = memory::resolve(address, 1).ok()?;
        matches!(found.place, memory::MemoryPlace::Device(_))
            .then_some((found.data.cast_const(), 1))
    };
    addresses.into_iter().filter_map(data).collect()
}

fn server(
    arguments: Arguments,
    limit: Option<Duration>,
    stream: &'static Stream,
) -> Result<(), Failure> {
    let refused = |text: String| Failure::new(ACL_ERROR_RT_PARAM_INVALID, text);
    let given = arguments.read().map_err(refused)?;
    let word = |at: usize| match given.get(at) {
        Some(argument) => argument.word("of the server").map_err(refused),
        None => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the number of arguments of the server is {}; pass a descriptor of 8 bytes and then \
             as many contexts as it says",
            given.len()
        ),
    };
    let descriptor = word(0)?;
    let (version, groups) = (descriptor & 15, descriptor >> 4 & 15);
    if version != 1 || !(1..=MOST_GROUPS).contains(&groups) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the descriptor of the server is {descriptor:#x}: version {version} (bits 0 to 3), \
             number of contexts {groups} (bits 4 to 7); give version 1 and 1 to {MOST_GROUPS} \
             contexts"
        );
    }
    let mut areas = Vec::new();
    for group in 0..groups as usize {
        let address = word(1 + group)?;
        match context::find(address) {
            Some(area) if area.member.device == stream.device_id() => areas.push(area),
            Some(area) => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "the context {address:#x} is of device {}, but {} is on another one; launch \
                     the server on the device of its contexts",
                    machine::named(area.member.device),
                    stream.describe()
                );
            }
            None => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "{address:#x} is not a context; pass one from HcclAllocComResourceByTiling, \
                     whose communicator still exists"
                );
            }
        }
    }
    if stream.is_diverted() {
        let issue = move |stream| server(arguments.clone(), limit, stream);
        return capture::record_call(stream, "communication server".into(), &[], Box::new(issue));
    }
    let limit = Some(limit.unwrap_or_else(time_limit::now));
    let task = Server::new(areas.clone(), limit);
    // Notes the queued server, so that a waiting kernel can see that a server will run. The server
    // may already have begun.
    let ticket = capture::submit(stream, Box::new(task))?;
    let mark = Mark::new(stream, ticket);
    for area in areas {
        area.answer(|state| {
            state.queued.retain(|queued| !queued.is_complete());
            let runs = state.server.as_ref().is_some_and(|server| server.mark == mark);
            if !runs && !mark.is_complete() {
                state.queued.push(mark);
            }
        });
    }
    Ok(())
}
