//! The task of a CPU kernel: code of the program that takes the place of a kernel of the AI CPU.
//!
//! When its stream reaches it, the kernel runs on its own OS thread, on which the device is set.
//! The stream continues when the kernel has returned. A kernel may call the primitives of
//! operators, including those that wait, and accesses device memory by its addresses. A result
//! other than 0 fails the stream. A kernel that exceeds its time limit, or whose stream is aborted,
//! is abandoned: it continues to run, but its result is ignored.

use super::binary::is_on;
use super::code::KernelFunction;
use super::cpu_arguments::CpuArguments;
use super::cpu_library::{CpuBinary, CpuEntry};
use super::time_limit;
use crate::callback::{Caller, enter_cpu_kernel};
use crate::check::{self, KernelClock};
use crate::context;
use crate::message::{Failure, fail};
use crate::step::{Reason, Step};
use crate::stream::{Stream, Task};
use crate::submit;
use crate::task::{Effects, TaskBody};
use ascend_sys::{
    ACL_ERROR_RT_AICPU_EXCEPTION, ACL_ERROR_RT_AICPU_TIMEOUT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, ACL_ERROR_RT_TASK_TIMEOUT,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The stack size in bytes of a kernel's thread. It is that of a program's first thread.
const STACK: usize = 8 << 20;

/// Puts a CPU kernel into a stream.
pub(crate) fn launch(
    function: &KernelFunction,
    binary: &CpuBinary,
    blocks: u32,
    arguments: CpuArguments,
    limit: Option<Duration>,
    stream: &'static Stream,
    call: &'static str,
) -> Result<(), Failure> {
    is_on(function, stream.device_id())?;
    match blocks {
        1 => {}
        0 => return fail!(ACL_ERROR_RT_PARAM_INVALID, "numBlocks is 0; launch one block"),
        more => {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "{} with {more} blocks: it is not known how a CPU kernel gets the number of its block, \
                 so launch one block",
                function.name
            );
        }
    }
    let launched = LaunchedCpuKernel {
        name: function.name.as_str().into(),
        entry: binary.entry(&function.name)?,
        arguments,
        limit: limit.unwrap_or_else(time_limit::now),
    };
    let task = CpuKernel { launched: Arc::new(launched), result: Arc::default() };
    submit::submit(stream, call, task).map(drop)
}

/// A launch of a CPU kernel.
struct LaunchedCpuKernel {
    name: Box<str>,
    entry: CpuEntry,
    arguments: CpuArguments,
    limit: Duration,
}

/// One run of the kernel.
struct CpuKernel {
    launched: Arc<LaunchedCpuKernel>,
    /// The result of the kernel. It is written before the stream is notified that the kernel has
    /// returned.
    result: Arc<AtomicU32>,
}

impl CpuKernel {
    /// Starts the kernel on a new thread.
    fn begin(&self, stream: &'static Stream, caller: Caller) -> Result<(), Failure> {
        let launched = &self.launched;
        let failed = |text: String| {
            let failure = Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text);
            Err(failure.of_task(self.title()))
        };
        let mut arguments = match launched.arguments.copy() {
            Ok(arguments) => arguments,
            Err(why) => return failed(format!("{}: its arguments: {why}", launched.name)),
        };
        let knows = check::kernel_begins(stream);
        let (entry, result) = (launched.entry, Arc::clone(&self.result));
        let run = move || {
            if !caller.begins() {
                return;
            }
            enter(stream, knows);
            // SAFETY: the program has loaded the function as a CPU kernel and launched it with
            // these arguments. They stay valid until it returns.
            let returned = unsafe { entry(arguments.as_mut_ptr().cast()) };
            result.store(returned, Ordering::Relaxed);
            caller.returns();
        };
        let thread = std::thread::Builder::new().name("ascend-cpu-kernel".into());
        match thread.stack_size(STACK).spawn(run) {
            Ok(_) => Ok(()),
            Err(error) => {
                fail!(
                    ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                    "cannot start a thread for {}: {error}; end other threads, or raise the \
                     limit (ulimit -u)",
                    launched.name
                )
            }
        }
    }

    fn title(&self) -> String {
        format!("CPU kernel {}", self.launched.name)
    }

    /// Turns the completion of a kernel with a result other than 0 into a failure.
    fn judged(&self, step: Step) -> Step {
        match (step, self.result.load(Ordering::Relaxed)) {
            (Step::Done(Ok(())), returned @ 1..) => {
                let text = format!("{} returned {returned}", self.title());
                let failure = Failure::new(ACL_ERROR_RT_AICPU_EXCEPTION, text);
                Step::Done(Err(failure.of_task(self.title())))
            }
            (step, _) => step,
        }
    }
}

/// Prepares the calling thread to run a kernel of a stream.
fn enter(stream: &Stream, knows: KernelClock) {
    knows.enter();
    enter_cpu_kernel();
    // If the context was destroyed in the meantime, functions that need a context fail.
    let _ = context::set_current(stream.context());
}

impl TaskBody<Stream> for CpuKernel {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let step = stream.host_call.poll(stream, |caller| self.begin(stream, caller));
        self.judged(step)
    }

    fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        match self.judged(stream.host_call.expire(self.describe(), why)) {
            Step::Done(Err(failure)) if failure.code == ACL_ERROR_RT_TASK_TIMEOUT => {
                Step::Done(Err(failure.with_code(ACL_ERROR_RT_AICPU_TIMEOUT)))
            }
            step => step,
        }
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.launched.limit)
    }

    /// Makes a task for another run of the kernel.
    fn again(&self) -> Option<Task> {
        let launched = Arc::clone(&self.launched);
        Some(Task::new(CpuKernel { launched, result: Arc::default() }))
    }

    fn kind(&self) -> &'static str {
        "CPU kernel"
    }

    /// Returns the arguments in memory that the kernel reads when it begins.
    fn touched(&self) -> [(*const u8, usize); 2] {
        [self.launched.arguments.lie_in(), (std::ptr::null(), 0)]
    }

    fn effects(&self) -> Effects {
        Effects::Issues
    }

    fn describe(&self) -> String {
        self.title()
    }
}
