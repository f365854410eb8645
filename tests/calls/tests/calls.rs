//! Calls every function of the C ABI, in child processes, with fixed seeds. A crash, a panic, a
//! hang or a leak fails with the calls that led to it.

use std::process::Command;

/// Functions that work but that no call here makes succeed, each with the reason.
const UNREACHED: &[(&str, &str)] = &[
    ("aclrtMemImportFromShareableHandle", OTHER_PROCESS),
    ("aclrtMemImportFromShareableHandleV2", OTHER_PROCESS),
    ("aclrtIpcMemImportByKey", OTHER_PROCESS),
    ("aclrtIpcOpenEventHandle", OTHER_PROCESS),
    ("aclrtNotifyImportByKey", OTHER_PROCESS),
    ("aclrtIpcMemImportPidInterServer", ONE_SERVER),
    ("aclrtNotifySetImportPidInterServer", ONE_SERVER),
];

const OTHER_PROCESS: &str = "another process imports; `tests/tests/processes/ipc` does";
const ONE_SERVER: &str = "answers 207000 to what is right: the machine is one server";

/// Returns the number of seeds for a tour and a sweep. Other modes get fewer.
fn seeds() -> u64 {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
    match (set("HCCL_TEST_FULL"), set("HCCL_TEST_SLOW")) {
        (true, _) => 900,
        (_, true) => 30,
        _ => 90,
    }
}

/// Returns the number in an environment variable, if the variable is set.
fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}: a number is expected")))
}

fn calls(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abi-calls"));
    let output =
        command.args(arguments).env("RUST_BACKTRACE", "0").output().expect("the program runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn no_call_crashes_panics_or_hangs_and_every_function_that_works_succeeds() {
    let (seed, rounds) = (number("HCCL_TEST_SEED"), number("HCCL_TEST_ROUNDS"));
    // If a seed is given, only that seed is tried.
    let count = rounds.unwrap_or(if seed.is_some() { 1 } else { seeds() });
    let (first, seeds) = (seed.unwrap_or(0).to_string(), count.to_string());
    let (passed, said) = calls(&["many", "--first", &first, "--seeds", &seeds, "--missing"]);
    assert!(passed, "{said}");
    // Chosen seeds need not reach every function.
    if seed.is_some() || rounds.is_some() {
        return;
    }
    // After the summary there is a line for each missing function.
    let missing = said.lines().filter_map(|line| line.strip_suffix(" calls)"));
    let mut missing: Vec<&str> = missing.filter_map(|line| line.split(' ').next()).collect();
    missing.sort_unstable();
    let mut expected: Vec<&str> = UNREACHED.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    assert_eq!(missing, expected, "{said}");
}

/// Plants defects, and checks that the modes report each of them.
#[test]
fn a_crash_a_panic_a_hang_and_a_leak_are_reported_with_the_calls_before() {
    let planted = [
        (0, "ended by signal 11"),
        (1, "ended by signal 6"),
        (2, "hangs"),
        (3, "something stays behind in each round"),
    ];
    for (seed, how) in planted {
        let (passed, said) = calls(&["one", "planted", &seed.to_string()]);
        assert!(!passed, "{said}");
        for piece in [how, "aclrtGetDeviceCount(", "abi-calls -- one planted"] {
            assert!(said.contains(piece), "{piece} is not in: {said}");
        }
    }
}
