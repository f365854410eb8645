//! Helpers for tests that need a process of their own.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Continues the test in a process that runs no other test. In the first process, waits for that
/// process and then returns from the test. These tests run one after the other, unless they may
/// run `beside` each other.
#[macro_export]
macro_rules! alone {
    ($($beside:ident)?) => {
        fn here() {}
        let beside = false $(|| stringify!($beside) == "beside")?;
        if !$crate::alone::is_alone(std::any::type_name_of_val(&here), beside) {
            return;
        }
    };
}

/// Returns whether this process is the one for the test. If it is not, runs that process, waits for
/// it and prints its output. `here` is the path of a function in the test.
pub fn is_alone(here: &str, beside: bool) -> bool {
    match run_alone(here, beside) {
        None => true,
        Some(output) => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            false
        }
    }
}

/// Returns the output of the process for the test, or `None` in that process itself. Waits until
/// that process has ended, and panics if the test failed there. `here` is the path of a function in
/// the test.
pub fn run_alone(here: &str, beside: bool) -> Option<Output> {
    const CHILD: &str = "ASCEND_EMULATOR_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = (!beside).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let path = here.split_once("::").and_then(|(_, path)| path.rsplit_once("::"));
    let (test, _) = path.expect("the function is in a test of a module");
    let mut child = Command::new(std::env::current_exe().unwrap());
    // With one thread for tests, the first thread of the process only waits for that thread.
    child.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    let output = child.env(CHILD, "1").output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {}\n{said}\n{errors}", output.status);
    assert!(said.contains("1 passed"), "{test} did not run");
    Some(output)
}
