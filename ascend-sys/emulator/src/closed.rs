//! Determines whether any thread of the process can still run.
//!
//! A process is *closed* if each of its threads sleeps in one of the emulator's calls, or waits in
//! the kernel for another thread of the process. The second kind of wait is a futex without a time
//! limit: a lock, a channel, a join. Only these threads themselves and the streams can end these
//! waits. If two inspections of the process find every thread in the same sleep, none of the
//! threads ran in between.
//!
//! A thread that waits for anything else may go on by itself: for a time, a file, a socket, another
//! process. So may a thread that handles a signal. So a process that catches a signal is never
//! closed, unless [`catches_signals`] lists that signal as harmless. If the kernel does not give
//! this information, the process never counts as closed.
//!
//! There is one exception, for programs in safe Rust, which report their waits to the emulator. The
//! first thread of the process may wait for another thread with a time limit that is far away, if
//! it has never used a device. The test harness does that.

use crate::executor::cores::{this_thread, threads};
use crate::program_memory;
use crate::sleep::{self, SHORT, SleepingThread, Until};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the first thread of the process has used a device.
static FIRST_USES_DEVICES: AtomicBool = AtomicBool::new(false);

/// Notes that the calling thread uses a device from now on.
pub(crate) fn note_user() {
    thread_local!(static IS_KNOWN: Cell<bool> = const { Cell::new(false) });
    if !IS_KNOWN.replace(true) && is_first(this_thread()) {
        FIRST_USES_DEVICES.store(true, Ordering::Relaxed);
    }
}

fn is_first(number: i32) -> bool {
    number.unsigned_abs() == std::process::id()
}

/// The state of every thread of a closed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The threads in calls of the emulator: their numbers, and how often each fell asleep.
    asleep: Vec<(i32, u64)>,
    /// The number of times that each of these threads has checked whether its wait is over.
    looked: Vec<u64>,
    /// The other threads: their numbers, and how often each has run.
    others: Vec<(i32, u64)>,
}

impl Closed {
    /// Returns the state of the process, if it is closed now.
    pub(crate) fn now(sleepers: &[SleepingThread]) -> Option<Closed> {
        if catches_signals()? {
            return None;
        }
        let says = |until: &Until| matches!(until, Until::SlicedMark(_) | Until::Said);
        let safe = sleepers.iter().any(|sleeper| says(&sleeper.until))
            && sleepers.iter().all(|sleeper| !matches!(sleeper.until, Until::Mark));
        let known: HashMap<i32, &SleepingThread> = sleepers.iter().map(|s| (s.number, s)).collect();
        let (mut asleep, mut looked, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for number in threads()? {
            if let Some(sleeper) = known.get(&number) {
                asleep.push((number, sleeper.sleeps));
                looked.push(sleeper.looked);
            } else if !sleep::is_own(number) {
                let is_harness = is_first(number) && !FIRST_USES_DEVICES.load(Ordering::Relaxed);
                others.push((number, blocked(number, safe && is_harness)?));
            }
        }
        Some(Closed { asleep, looked, others })
    }

    /// Returns whether no thread has run since `earlier`, except to find that its wait is not over.
    pub(crate) fn follows(&self, earlier: &Closed) -> bool {
        let looked = || earlier.looked.iter().zip(&self.looked).all(|(old, new)| *new >= old + 2);
        self.asleep == earlier.asleep && self.others == earlier.others && looked()
    }
}

/// Returns how often a thread has run, if only another thread of the process can wake it. With
/// `may_be_timed`, its wait may also have a time limit that is far away. Returns `None` for any
/// other thread.
fn blocked(number: i32, may_be_timed: bool) -> Option<u64> {
    let call = fs::read_to_string(format!("/proc/self/task/{number}/syscall")).ok()?;
    let mut words = call.split_whitespace();
    let function: i64 = words.next()?.parse().ok()?;
    let mut arguments = words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let [address, operation, _, until] =
        [(); 4].map(|()| arguments.next().and_then(Result::ok).unwrap_or(u64::MAX));
    let operation = i32::try_from(operation & 0x7fff_ffff).ok()?;
    let waits = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET]
        .contains(&(operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)));
    let is_long = || until == 0 || may_be_timed && is_far(until, operation) == Some(true);
    let is_futex = function == libc::SYS_futex && waits && is_long();
    let is_private = operation & libc::FUTEX_PRIVATE_FLAG != 0 || is_own_memory(address)?;
    (is_futex && is_private).then(|| switches(number)).flatten()
}

/// Returns whether the time limit of a futex wait is at least [`SHORT`] away. Returns `None` if the
/// limit cannot be read.
fn is_far(until: u64, operation: i32) -> Option<bool> {
    const LENGTH: usize = size_of::<libc::timespec>();
    let mut bytes = [const { MaybeUninit::uninit() }; LENGTH];
    if program_memory::read(until as usize, &mut bytes) != Some(LENGTH) {
        return None;
    }
    // SAFETY: all bytes were read; a time is two plain numbers.
    let time: libc::timespec = unsafe { bytes.as_ptr().cast::<libc::timespec>().read_unaligned() };
    let is_absolute = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
        == libc::FUTEX_WAIT_BITSET;
    let now = match operation & libc::FUTEX_CLOCK_REALTIME {
        _ if !is_absolute => 0,
        0 => time_of(libc::CLOCK_MONOTONIC).tv_sec,
        _ => time_of(libc::CLOCK_REALTIME).tv_sec,
    };
    Some(time.tv_sec.saturating_sub(now) >= SHORT.as_secs() as libc::time_t)
}

/// Returns how long the calling thread has run on a core.
pub(crate) fn cpu_time() -> Duration {
    let time = time_of(libc::CLOCK_THREAD_CPUTIME_ID);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the monotonic clock in nanoseconds. All processes of a machine share this clock.
pub(crate) fn monotonic() -> u64 {
    let time = time_of(libc::CLOCK_MONOTONIC);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns the time of a clock of the kernel, or zero if there is no clock with this id.
fn time_of(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the out parameter is a live local.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now
}

/// Returns how often a thread has left a core. Returns `None` if the kernel does not provide this.
fn switches(number: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{number}/status")).ok()?;
    let counts = status.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("voluntary_ctxt_switches").then(|| count.trim().parse::<u64>().ok())
    });
    counts.sum()
}

/// Returns whether the memory at this address belongs to this process alone. Returns `None` if this
/// cannot be read.
fn is_own_memory(address: u64) -> Option<bool> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    Some(maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let bound = |text| u64::from_str_radix(text, 16).unwrap_or_default();
        let holds = range.is_some_and(|(from, to)| (bound(from)..bound(to)).contains(&address));
        // The memory is private and of no file. The words are permissions, offset, device and
        // inode.
        let is_private = words.next().is_some_and(|permissions| permissions.ends_with('p'));
        holds && is_private && words.nth(2) == Some("0")
    }))
}

/// Returns whether a signal could make the process run code. This is so if the process catches a
/// signal that is not in the list of harmless signals. The list has the signals that errors of the
/// process raise, those that the C library reserves, and those by which people end programs.
/// Returns `None` if the kernel does not provide the caught signals.
fn catches_signals() -> Option<bool> {
    const HARMLESS: [i32; 13] = [
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        32,
        33,
        34,
    ];
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
    let harmless = HARMLESS.iter().fold(0u64, |set, signal| set | 1 << (signal - 1));
    Some(caught & !harmless != 0)
}
