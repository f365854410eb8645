//! Runs modes in child processes, and reports how each has ended.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::caller::Run;
use crate::functions::FUNCTIONS;
use crate::modes::{self, Mode};
use crate::trace::Trace;

/// The time after which a call counts as a hang.
const HANG: Duration = Duration::from_secs(30);
/// The same time for the modes in which a hang is expected.
const PLANTED: Duration = Duration::from_secs(3);
/// The time after which a child is ended if it is in a call that may wait for ever. This is no
/// failure: the wait is no mistake, and an early end on a slow machine only costs some calls.
const WAITING: Duration = Duration::from_millis(300);

/// The exit status of a child that could not make its devices and communicators within their time
/// limit.
const NO_WORLD: libc::c_int = 77;
/// The number of times that a job is tried if its child ends with [`NO_WORLD`].
const TRIES: u32 = 3;

/// Functions whose wait depends on the program, as CANN documents: they wait for work on a stream,
/// which may wait for an event that never happens, or for ranks that do not come. Each entry has
/// the name or its beginning (`*`), and the reason of the wait.
pub const MAY_WAIT: &[(&str, &str)] = &[
    ("aclrtSynchronize*", "waits until a stream, a device or an event is complete"),
    ("aclrtDestroyStream*", "waits until the stream is idle"),
    ("aclrtReset*", "waits until the device is idle"),
    ("aclrtFreeWithDevSync", "waits until the device is idle"),
    ("aclrtFreeHostWithDevSync", "waits until the device is idle"),
    ("aclrtHostUnregister", "waits for the queued tasks that use the memory"),
    ("aclrtMemcpy*", "a copy with memory that is not pinned is done when the call returns"),
    ("HcommChannelNotifyWait", "a timeOut of 0 is no limit"),
    ("HcclCommInit*", "waits for the other ranks, up to the connect time-out"),
    ("HcclCreateSubComm*", "waits for the other ranks, up to the connect time-out"),
    ("HcclChannelAcquire*", "waits for the other side, up to the connect time-out"),
    ("HcclTeamChannelsCreate", "waits for the other side, up to the connect time-out"),
    ("ascendExtAwaitTask", "waits up to its time limit, which may be 49 days"),
];

/// Returns whether a function is one of [`MAY_WAIT`].
pub fn may_wait(name: &str) -> bool {
    MAY_WAIT.iter().any(|(function, _)| match function.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *function,
    })
}

/// The job of a child process.
#[derive(Clone, Copy)]
pub struct Job {
    /// The way to call.
    pub mode: Mode,
    /// The seed, which decides everything else.
    pub seed: u64,
}

/// The way in which a child has ended.
pub enum End {
    /// It ended as it should.
    Well,
    /// It was ended in a call that may wait.
    GivenUp,
    /// It ended before it had its devices and communicators.
    NoWorld,
    /// Any other end: its kind, the child's output, and its calls.
    Badly(String),
}

struct Child {
    pid: libc::pid_t,
    job: Job,
    tries: u32,
    printed: fs::File,
    activity: u64,
    since: Instant,
}

/// Runs all jobs, `beside` of them at a time, and reports the end of each. Returns the traces,
/// which contain the functions that were reached. The process must not have other threads.
///
/// # Errors
///
/// If no process can be started, or no file for its output can be made.
pub fn run(jobs: &[Job], beside: usize, mut ended: impl FnMut(Job, End)) -> io::Result<Vec<Trace>> {
    let traces: Vec<Trace> = (0..beside).map(|_| Trace::shared()).collect();
    let mut children: Vec<Option<Child>> = (0..beside).map(|_| None).collect();
    let mut jobs = jobs.iter();
    loop {
        let mut running = false;
        for (trace, place) in traces.iter().zip(&mut children) {
            if let Some(child) = place {
                match child.look(trace) {
                    None => running = true,
                    Some(End::NoWorld) if child.tries < TRIES => {
                        trace.clear();
                        *place = Some(start(child.job, child.tries + 1, trace)?);
                        running = true;
                    }
                    Some(end) => {
                        ended(child.job, end);
                        *place = None;
                    }
                }
            }
            if place.is_none()
                && let Some(job) = jobs.next()
            {
                trace.clear();
                *place = Some(start(*job, 1, trace)?);
                running = true;
            }
        }
        if !running {
            return Ok(traces);
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn start(job: Job, tries: u32, trace: &Trace) -> io::Result<Child> {
    let path = std::env::temp_dir().join(format!("abi-calls-out-{}", std::process::id()));
    let printed =
        fs::File::options().create(true).truncate(true).read(true).write(true).open(&path)?;
    fs::remove_file(&path)?;
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            for to in [1, 2] {
                // SAFETY: both descriptors are open.
                unsafe { libc::dup2(printed.as_raw_fd(), to) };
            }
            here(job, trace.clone());
            // SAFETY: ends this process at once, with all its threads.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(Child { pid, job, tries, printed, activity: 0, since: Instant::now() }),
    }
}

/// Runs a job in this process. A panic anywhere ends the process.
pub fn here(job: Job, trace: Trace) {
    let before = std::panic::take_hook();
    // The run is leaked, since threads of the emulator may still use it.
    let run: &Run = Box::leak(Box::new(Run::new(trace)));
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        if !run.has_world.load(Ordering::Relaxed) {
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(NO_WORLD) };
        }
        std::process::abort();
    }));
    modes::run(job.mode, job.seed, run);
}

impl Child {
    fn look(&mut self, trace: &Trace) -> Option<End> {
        let mut status = 0;
        // SAFETY: this is a child of this process that was not waited for.
        let ended = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) };
        if ended == self.pid {
            self.clean();
            return Some(if libc::WIFSIGNALED(status) {
                let signal = libc::WTERMSIG(status);
                self.badly(&format!("ended by signal {signal}"), trace)
            } else if libc::WEXITSTATUS(status) == NO_WORLD && self.tries < TRIES {
                End::NoWorld
            } else if libc::WEXITSTATUS(status) != 0 {
                self.badly(&format!("ended with {}", libc::WEXITSTATUS(status)), trace)
            } else {
                End::Well
            });
        }
        let activity = trace.activity();
        if activity != self.activity {
            (self.activity, self.since) = (activity, Instant::now());
            return None;
        }
        let idle = self.since.elapsed();
        if idle > WAITING {
            let pending = trace.pending();
            if !pending.is_empty()
                && pending.iter().all(|call| may_wait(FUNCTIONS[call.function].name))
            {
                self.kill();
                return Some(End::GivenUp);
            }
        }
        if idle > if self.job.mode == Mode::Planted { PLANTED } else { HANG } {
            let end = self.badly("hangs", trace);
            self.kill();
            return Some(end);
        }
        None
    }

    /// Removes the files of a child that has not removed them itself.
    fn clean(&self) {
        let _ = fs::remove_dir_all(crate::world::files_of(self.pid as u32));
    }

    fn kill(&self) {
        // SAFETY: this is a child of this process that was not waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: the same.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        self.clean();
    }

    fn badly(&self, how: &str, trace: &Trace) -> End {
        use std::io::{Read as _, Seek as _};
        let mut printed = String::new();
        let mut file = &self.printed;
        // If the file cannot be read, its text is left out.
        let _ = file.rewind();
        let _ = file.read_to_string(&mut printed);
        let mode = format!("{:?}", self.job.mode).to_lowercase();
        End::Badly(format!(
            "{mode} {} {how}\n{printed}{}try it again: cargo run -p abi-calls -- one {mode} {}\n",
            self.job.seed,
            trace.report(40),
            self.job.seed
        ))
    }
}
