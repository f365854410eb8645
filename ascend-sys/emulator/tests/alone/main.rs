//! Tests that need a process of their own: they count its threads, its memory or its allocations, set variables of its environment,
//! fork it, or leave a device set in a thread that runs host functions, which from then on counts as awake.
//!
//! Each of them starts this program once more, for itself alone, one after the other.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Goes on in a process that has no other test. In the first process, waits for that one and returns from the test.
macro_rules! alone {
    () => {
        fn here() {}
        if !crate::is_alone(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

mod determinism_of_the_environment;
mod fast_path;
mod faults_of_the_environment;
mod fork;
mod host_functions;
mod kernels_damaged;
mod kernels_leak;
mod operator_fast_path;
mod picture;
mod thousand;
mod workers;

/// Whether this process is the one for the test. `here` is the path of a function in it.
fn is_alone(here: &str) -> bool {
    const CHILD: &str = "ASCEND_EMULATOR_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = here.split_once("::").and_then(|(_, path)| path.rsplit_once("::"));
    let (test, _) = path.expect("the function is in a test of a module");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--include-ignored", "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {}", output.status);
    assert!(said.contains("1 passed"), "{test} did not run");
    false
}
