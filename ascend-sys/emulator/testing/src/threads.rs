//! Threads that tests observe from outside.

use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the number of the calling thread in the operating system.
pub fn this_thread() -> u32 {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    own.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Waits until a thread of this process sleeps for some time, which means that it waits for
/// something.
///
/// # Panics
///
/// Panics if the thread does not sleep within two minutes.
pub fn await_sleep(thread: u32) {
    const LOOKS: u32 = 5;
    let began = Instant::now();
    let mut asleep = 0;
    while asleep < LOOKS {
        assert!(began.elapsed() < Duration::from_secs(120), "thread {thread} does not sleep");
        asleep = if sleeps(thread) { asleep + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn sleeps(thread: u32) -> bool {
    state(Path::new(&format!("/proc/self/task/{thread}"))) == Some('S')
}

/// Returns the state of a thread, given its directory in `/proc`. Returns `None` for a thread that
/// has ended.
fn state(thread: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
    // The name of the thread, in parentheses, may contain any characters.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until every thread of these processes except the calling one sleeps. All must be found
/// asleep `looks` times in a row, 10 ms apart. This is for tests in which another thread must be
/// waiting already. Returns after half a minute in any case, since a housekeeping thread may be
/// awake now and then.
pub fn until_asleep(processes: &[u32], looks: usize) {
    let own = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let all_sleep = || {
        processes.iter().all(|process| {
            let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
            let mut tasks = tasks.into_iter().flatten().flatten().map(|task| task.path());
            tasks.all(|task| task.ends_with(&own) || matches!(state(&task), None | Some('S')))
        })
    };
    let until = Instant::now() + Duration::from_secs(30);
    let mut in_a_row = 0;
    while in_a_row < looks && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        in_a_row = if all_sleep() { in_a_row + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_sleeps_while_it_waits_and_not_while_it_computes() {
        static MAY_WAIT: AtomicBool = AtomicBool::new(false);
        let ((number, its_number), (end, ends)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            number.send(this_thread()).unwrap();
            while !MAY_WAIT.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            ends.recv().unwrap();
        });
        let number = its_number.recv().unwrap();
        // The thread must still return from the call that sends.
        let began = Instant::now();
        while sleeps(number) {
            assert!(began.elapsed() < Duration::from_secs(120), "it does not sleep");
        }
        MAY_WAIT.store(true, Ordering::Release);
        await_sleep(number);
        end.send(()).unwrap();
        thread.join().unwrap();
    }
}
