//! The first thread of a program may still issue the work that other threads wait for, also while
//! it waits for a thread with a limit that is far away. A harness uses that thread itself, so this
//! program has no harness. It runs itself once more, and checks the end of that run.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hccl::prelude::*;

const CHILD: &str = "HCCL_TEST_FIRST_THREAD";

/// A time longer than the search for a certain deadlock takes.
const LONG_ENOUGH: Duration = Duration::from_secs(5);

fn main() {
    if std::env::var_os(CHILD).is_some() {
        wait_and_issue();
        return;
    }
    // `cargo test -- --list` and filters need other answers.
    if std::env::args().skip(1).any(|argument| argument == "--list") {
        println!("the_first_thread_may_be_about_to_issue: test");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).env(CHILD, "1").stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    while since.elapsed() < LONG_ENOUGH && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let goes_on = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(goes_on, "it was ended: {said}");
    println!("test the_first_thread_may_be_about_to_issue ... ok");
}

/// Lets a thread wait for its peer in a barrier, which the first thread would issue later.
fn wait_and_issue() {
    let runtime = Runtime::emulator(2).unwrap();
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let comms = Communicator::init_all(&devices).wait().unwrap();
    let [mut zero, mut one] = <[_; 2]>::try_from(comms).unwrap();
    for pending in [zero.connect(), one.connect()] {
        pending.wait().unwrap();
    }
    let (told, tells) = mpsc::channel::<()>();
    let waits = std::thread::spawn(move || {
        let stream = zero.device().stream().unwrap();
        zero.barrier(&stream).unwrap().wait().unwrap();
        drop(told);
    });
    // The channel stays empty, so the limit ends this, unless the barrier has failed.
    let _ = tells.recv_timeout(Duration::from_secs(60));
    let stream = one.device().stream().unwrap();
    one.barrier(&stream).unwrap().wait().unwrap();
    waits.join().unwrap();
}
