//! Threads that tests look at from outside.

use std::time::{Duration, Instant};

/// The number of the calling thread in the operating system.
pub fn this_thread() -> u32 {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    own.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Waits until a thread of this process sleeps, and goes on doing so: until it waits for something.
///
/// # Panics
///
/// When it does not, for minutes.
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
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    // The name of the thread, in parentheses, may have anything in it.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
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
        // It has still to come out of the call that sends.
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
