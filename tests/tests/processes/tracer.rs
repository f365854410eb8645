//! Kills a process at a moment that is defined by its own actions.
//!
//! The thread that starts the process traces it (`ptrace`). The process reports its progress with
//! [`mark`], a signal that only the tracer sees. From a mark on, the tracer counts the system calls
//! of the process, steps the thread of the mark instruction by instruction, or lets time pass.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libc::{c_int, c_void, pid_t};

/// Reports that the process is at its next phase. Without a tracer nothing happens.
pub fn mark() {
    // SAFETY: the signal is ignored by default, and this process does not change that.
    unsafe { libc::raise(libc::SIGURG) };
}

/// Returns the time that all processes of the machine share, in nanoseconds.
pub fn now() -> u64 {
    // SAFETY: the structure is writable.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The signal by which a thread stops at a system call.
const CALL: c_int = libc::SIGTRAP | 0x80;

/// The moment at which a process is killed, counted from one of its marks.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The moment just before the n-th system call (from 1) with this number, in any thread.
    Before(i64, u32),
    /// The moment when the n-th system call with this number is done, before the process continues.
    After(i64, u32),
    /// The moment when the thread of the mark has executed this many more instructions.
    Steps(u64),
    /// The moment when this much time has passed.
    Time(Duration),
    Never,
}

/// The record of a traced process.
#[derive(Default)]
pub struct Trace {
    /// The time of the process's death by a signal, by [`now`]. `None` if the process ended by
    /// itself.
    pub killed: Option<u64>,
    /// The times of the marks that the process reached.
    pub marks: Vec<u64>,
    /// The number of instructions from the chosen mark to the next one, if they were counted.
    pub steps: u64,
}

impl Trace {
    /// Returns the time between a mark and the next one, or `None` if the process did not reach the
    /// next one.
    pub fn length_of(&self, aim: usize) -> Option<Duration> {
        Some(Duration::from_nanos(self.marks.get(aim)? - self.marks[aim - 1]))
    }
}

/// Starts a process that only this thread can trace.
pub fn spawn(command: &mut Command) -> Child {
    let traced = || {
        // SAFETY: the call has no arguments.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes a system call and touches no other memory.
    unsafe { command.pre_exec(traced) };
    command.spawn().unwrap()
}

fn request(what: libc::c_uint, thread: pid_t, address: usize, data: usize) -> i64 {
    // SAFETY: the requests of this file change the traced thread, and write to memory of this
    // process only in `call`. A request fails if its thread has died.
    unsafe { libc::ptrace(what, thread, address as *mut c_void, data as *mut c_void) }
}

/// Returns the system call at which a thread has stopped: `Ok` with its number before the call, or
/// `Err` with its result after the call. Returns `None` if the thread has stopped elsewhere.
fn call(thread: pid_t) -> Option<Result<i64, i64>> {
    // SAFETY: zeros are a valid value of the structure. The kernel writes no more than its size,
    // and reports which member it has written.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let (size, at) = (size_of_val(&info), (&raw mut info).expose_provenance());
        if request(libc::PTRACE_GET_SYSCALL_INFO, thread, size, at) <= 0 {
            return None;
        }
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => Some(Ok(info.u.entry.nr as i64)),
            libc::PTRACE_SYSCALL_INFO_EXIT => Some(Err(info.u.exit.sval)),
            _ => None,
        }
    }
}

/// Waits for the next thread of this thread's traced processes that stops or ends. Returns the
/// thread and its status, or `None` if no such thread is left.
fn next() -> Option<(pid_t, c_int)> {
    let mut status = 0;
    // SAFETY: the status is writable. Children of other threads are not affected.
    let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
    (thread > 0).then_some((thread, status))
}

/// A handle that kills a process, but never a later process with the same number.
struct Killer(OwnedFd);

impl Killer {
    fn new(process: pid_t) -> Self {
        // SAFETY: the descriptor is new, and nothing else owns it.
        unsafe {
            let file = libc::syscall(libc::SYS_pidfd_open, process, 0);
            assert!(file >= 0, "{}", std::io::Error::last_os_error());
            Self(OwnedFd::from_raw_fd(file as i32))
        }
    }

    fn kill(&self) {
        let null = std::ptr::null::<c_void>();
        // SAFETY: the descriptor is our own. If the process has ended, the signal reaches no
        // process.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), libc::SIGKILL, null, 0)
        };
    }
}

struct Tracer {
    aim: usize,
    moment: Moment,
    killer: Arc<Killer>,
    /// The time at which the process was killed, or 0.
    killed: Arc<AtomicU64>,
    trace: Trace,
    /// The thread that continues by single instructions.
    stepping: Option<pid_t>,
    /// The calls in which threads are, by thread.
    within: Vec<(pid_t, i64)>,
    /// The number of calls of the kind that is waited for.
    seen: u32,
}

/// Kills a process of [`spawn`] at a moment after its n-th mark, from 1. Returns when the process
/// has ended in any way.
pub fn trace(child: &Child, aim: usize, moment: Moment) -> Trace {
    let process = child.id() as pid_t;
    let mut tracer = Tracer {
        aim,
        moment,
        killer: Arc::new(Killer::new(process)),
        killed: Arc::default(),
        trace: Trace::default(),
        stepping: None,
        within: Vec::new(),
        seen: 0,
    };
    let mut is_new = true;
    while let Some((thread, status)) = next() {
        if libc::WIFSTOPPED(status) {
            if std::mem::take(&mut is_new) {
                let options = libc::PTRACE_O_TRACESYSGOOD
                    | libc::PTRACE_O_TRACECLONE
                    | libc::PTRACE_O_EXITKILL;
                request(libc::PTRACE_SETOPTIONS, thread, 0, options as usize);
            }
            let signal = tracer.stopped(thread, libc::WSTOPSIG(status), status >> 16 != 0);
            request(tracer.how(thread), thread, 0, signal as usize);
        } else if thread == process {
            break;
        }
    }
    let killed = tracer.killed.load(Ordering::SeqCst);
    tracer.trace.killed = (killed > 0).then_some(killed);
    tracer.trace
}

impl Tracer {
    /// Handles a thread that has stopped. Returns the signal that the thread is to get.
    fn stopped(&mut self, thread: pid_t, signal: c_int, is_event: bool) -> c_int {
        match signal {
            _ if is_event => 0,
            CALL => {
                self.called(thread);
                0
            }
            libc::SIGURG => {
                self.marked(thread);
                0
            }
            libc::SIGTRAP => {
                if self.stepping == Some(thread) {
                    self.trace.steps += 1;
                    if matches!(self.moment, Moment::Steps(most) if self.trace.steps >= most) {
                        self.kill();
                    }
                }
                0
            }
            // This is the first stop of a new thread.
            libc::SIGSTOP => 0,
            other => other,
        }
    }

    /// Returns the request by which a thread continues.
    fn how(&self, thread: pid_t) -> libc::c_uint {
        let counts_calls = matches!(self.moment, Moment::Before(..) | Moment::After(..));
        if self.stepping == Some(thread) {
            libc::PTRACE_SINGLESTEP
        } else if counts_calls {
            // Calls are traced before the mark, too: a thread that sleeps in a call would not stop
            // at its next one.
            libc::PTRACE_SYSCALL
        } else {
            libc::PTRACE_CONT
        }
    }

    fn marked(&mut self, thread: pid_t) {
        self.trace.marks.push(now());
        self.stepping = None;
        if self.trace.marks.len() != self.aim {
            return;
        }
        match self.moment {
            Moment::Steps(0) => self.kill(),
            Moment::Steps(_) => self.stepping = Some(thread),
            Moment::Time(length) => {
                let (killer, killed) = (Arc::clone(&self.killer), Arc::clone(&self.killed));
                std::thread::spawn(move || {
                    std::thread::sleep(length);
                    killed.store(now(), Ordering::SeqCst);
                    killer.kill();
                });
            }
            Moment::Before(..) | Moment::After(..) | Moment::Never => {}
        }
    }

    fn called(&mut self, thread: pid_t) {
        if self.trace.marks.len() != self.aim {
            return;
        }
        let within = self.within.iter().position(|(of, _)| *of == thread);
        let entered = within.map(|at| self.within.swap_remove(at).1);
        let comes = match (call(thread), entered) {
            (Some(Ok(number)), _) => {
                self.within.push((thread, number));
                matches!(self.moment, Moment::Before(kind, _) if kind == number)
            }
            // A call without success does not count.
            (Some(Err(result)), Some(number)) => {
                matches!(self.moment, Moment::After(kind, _) if kind == number && result >= 0)
            }
            _ => false,
        };
        self.seen += u32::from(comes);
        if let Moment::Before(_, nth) | Moment::After(_, nth) = self.moment
            && comes
            && self.seen == nth
        {
            self.kill();
        }
    }

    fn kill(&self) {
        self.killed.store(now(), Ordering::SeqCst);
        self.killer.kill();
    }
}
