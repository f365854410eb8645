//! The task of a launched kernel. The cores run in turn until all have ended, or until all wait.

use super::running::{Launched, RunningKernel};
use crate::message::Failure;
use crate::queue::Outcome;
use crate::step::{Helpers, Need, Reason, Step};
use crate::stream::Stream;
use crate::task::TaskBody;
use ascend_reduce::Standard;
use ascend_sys::ACL_ERROR_RT_AICORE_EXCEPTION;
use std::time::Duration;

/// A kernel in a stream.
pub(crate) struct Kernel {
    launched: Launched,
    running: Option<RunningKernel>,
}

impl Kernel {
    pub(super) fn new(launched: Launched) -> Kernel {
        Kernel { launched, running: None }
    }

    /// Ends the kernel with an error text, which is also reported to the servers and the other
    /// ranks.
    fn fail(&mut self, stream: &'static Stream, text: String) -> Step {
        Step::Done(Err(self.end(stream, ACL_ERROR_RT_AICORE_EXCEPTION, text)))
    }

    fn end(&mut self, stream: &'static Stream, code: i32, text: String) -> Failure {
        let name = &self.launched.recorded.program.name;
        if let Some(mut running) = self.running.take() {
            running.tell_engine(stream, &self.launched);
            running.leave(Some(&format!("{name}: {}", text.lines().next().unwrap_or_default())));
        }
        let task = format!("kernel {name} on {}", stream.describe());
        Failure::new(code, text).of_task(task)
    }
}

impl TaskBody<Stream> for Box<Kernel> {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let _standard = Standard::set();
        if self.running.is_none() {
            match RunningKernel::start(&self.launched, stream) {
                Ok(running) => self.running = Some(running),
                Err(text) => return self.fail(stream, text),
            }
        }
        let Some(running) = &mut self.running else { return Step::Park };
        match running.go_on(&self.launched.recorded.program) {
            Ok(Outcome::Idle) => {
                if let Some(mut running) = self.running.take() {
                    running.tell_engine(stream, &self.launched);
                    running.leave(None);
                    running.look_again(stream, &self.launched);
                }
                Step::Done(Ok(()))
            }
            Ok(Outcome::Parked | Outcome::Busy) => Step::Park,
            Ok(Outcome::Runnable) => Step::Again,
            Err(text) => self.fail(stream, text),
        }
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        let Some(running) = &mut self.running else { return false };
        let mut ready = false;
        for (group, seen) in running.world.groups.iter().zip(&running.seen) {
            if let Ok(group) = group {
                let mut state = group.area.state();
                if let Some(kernel) = &mut state.kernel {
                    kernel.sleeps = Some(stream);
                }
                ready |= state.moves != *seen;
            }
        }
        ready
    }

    fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        let mut text = String::new();
        if let Some(running) = &self.running {
            if let Some(forgotten) = running.forgotten() {
                text = format!("{forgotten}\n");
            }
            text += &format!("{}\n{}", why.text(), running.states(&self.launched.recorded.program));
        } else {
            text += &why.text();
        }
        Step::Done(Err(self.end(stream, why.code(), text)))
    }

    fn limit(&self) -> Option<Duration> {
        self.launched.limit
    }

    fn progress(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.progress)
    }

    /// Returns the task of the server that the kernel waits for, if there is one.
    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        self.running.as_ref().and_then(RunningKernel::server)?.point()
    }

    fn helpers(&self) -> Helpers {
        match &self.running {
            Some(running) if running.server().is_none() => Helpers::Queued(vec![Need::Call]),
            _ => Helpers::Streams,
        }
    }

    /// Returns the arguments in memory that the kernel reads when it begins.
    fn touched(&self) -> [(*const u8, usize); 2] {
        [self.launched.arguments.lie_in(), (std::ptr::null(), 0)]
    }

    fn describe(&self) -> String {
        let name = &self.launched.recorded.program.name;
        match &self.running {
            None => format!("kernel {name}"),
            Some(running) => {
                let waits = running.cores.iter().find(|core| core.wait.is_some());
                let what = waits.map_or_else(String::new, |core| {
                    let place = self.launched.recorded.program.line(core.source());
                    format!(": {} in {place} {}", core.name(), core.describe(&running.world))
                });
                let forgotten =
                    running.forgotten().map_or_else(String::new, |text| format!("; {text}"));
                format!("kernel {name}{what}{forgotten}")
            }
        }
    }
}
