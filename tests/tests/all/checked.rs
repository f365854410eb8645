//! Safe programs never race: checked mode finds nothing in them, and their results are those of one
//! step after the other.
//!
//! The programs are random: copies, fills, collectives and messages over slices, on several streams
//! and from several threads. Works are dropped, forgotten, waited for and awaited. At the same time
//! graphs are captured, replayed, dropped and forgotten. Buffers, streams and communicators are
//! dropped while they are in use, and host memory takes part, too. `cargo test` runs twelve
//! thousand steps, `HCCL_TEST_FULL=1` half a million. Both run once more on devices without checks,
//! where `hccl` detects completion in another way.
//!
//! A failure names its seed and the fewest steps that fail:
//! `HCCL_TEST_SEED=7 HCCL_TEST_STEPS=31 cargo test -p hccl-tests --test all checked::`.

mod program;
mod reference;
mod run;

use std::time::Duration;

use ascend_emulator_testing::ranks::slow;
use hccl::prelude::*;
use hccl::{Error, Result};
use hccl_tests::{full, own_devices, runtime_with};
use program::Program;
use reference::State;

/// Runs the first steps of a program in checked mode, and then without it. Without it, the backend
/// counts completed tasks for `hccl`. Fails with the first problem.
fn attempt(program: &Program, steps: usize) -> Result<(), String> {
    let expected = reference::reference(program, steps);
    [true, false].into_iter().try_for_each(|checked| {
        attempt_in(checked, program, steps, &expected)
            .map_err(|problem| format!("checked {checked}: {problem}"))
    })
}

fn attempt_in(
    checked: bool,
    program: &Program,
    steps: usize,
    expected: &[State],
) -> Result<(), String> {
    let runtime = own_devices()
        .devices(program.ranks)
        .memory(64 << 20)
        .checked(checked)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.set_deadline(std::time::Duration::from_secs(10));
    let found = run::run(&runtime, program, steps).map_err(|error| format!("{error:?}"))?;
    for (rank, (found, expected)) in found.iter().zip(expected).enumerate() {
        if found != expected {
            let at = found.buffers.iter().zip(&expected.buffers).position(|(a, b)| a != b);
            return Err(format!("rank {rank} has other values, first in buffer {at:?}"));
        }
    }
    match runtime.findings().first() {
        None => Ok(()),
        Some(finding) => Err(finding.to_string()),
    }
}

fn check(seed: u64, steps: usize) {
    let program = Program::new(seed, steps);
    let Err(problem) = attempt(&program, steps) else { return };
    // Looks for a shorter program that fails too. A failure may depend on timing, so each length
    // gets a few tries.
    let fails = |steps| (0..3).find_map(|_| attempt(&program, steps).err());
    let (mut good, mut bad, mut problem) = (0, steps, problem);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match fails(middle) {
            Some(shorter) => (bad, problem) = (middle, shorter),
            None => good = middle,
        }
    }
    let last = &program.steps[..bad][bad.saturating_sub(10)..];
    panic!("HCCL_TEST_SEED={seed} HCCL_TEST_STEPS={bad}: {problem}\nthe last steps: {last:#?}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn safe_programs_have_no_finding_and_the_results_of_one_step_after_the_other() {
    if let Some(seed) = number("HCCL_TEST_SEED") {
        return check(seed, number("HCCL_TEST_STEPS").unwrap_or(500) as usize);
    }
    // Forgotten handles keep their devices in use, and there are not enough devices for many more
    // programs.
    let programs = if slow() { 8 } else { 24 };
    let (programs, steps) = if full() { (50, 10_000) } else { (programs, 500) };
    (1..=programs).for_each(|seed| check(seed, steps));
}

/// Checks that a race is found which a program can cause only with `unsafe` code.
#[test]
fn a_program_that_goes_around_the_types_is_found_out() -> Result<()> {
    let runtime = own_devices().devices(1).checked(true).build()?;
    let raced = runtime.run_ranks(1, |rank| {
        let device = rank.device();
        let (one, two) = (device.stream()?, device.stream()?);
        let mut x = device.zeros::<f32>(1024, &one)?;
        one.synchronize()?;
        // SAFETY: the contract is broken on purpose. This is the same memory as `x`, and nothing
        // keeps the two apart. But the emulator stays within bounds.
        let mut again = unsafe { DeviceBuffer::<f32>::from_raw(device, x.as_ptr(), 1024) }?;
        x.fill_zero(&one)?.wait()?;
        let work = x.fill_zero(&one)?;
        again.fill_zero(&two)?;
        work.wait()?;
        two.synchronize()
    });
    let Err(error @ Error::Found { .. }) = raced else { panic!("{raced:?}") };
    let text = error.to_string();
    assert!(text.starts_with("race: bytes 0..4096 of allocation #"), "{text}");
    assert!(text.contains("\n  1 write: fill of 4096 bytes"), "{text}");
    assert!(text.contains("on thread \"rank 0\"\n  2 write: fill of 4096 bytes"), "{text}");
    assert!(text.contains("\n  help: record an event after 1"), "{text}");
    let findings = runtime.findings();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].svg().starts_with("<svg "));
    Ok(())
}

#[test]
fn a_runtime_that_is_not_checked_finds_nothing() -> Result<()> {
    let runtime = runtime_with(1);
    assert!(runtime.findings().is_empty());
    Ok(())
}

/// Frees pinned memory of one runtime, so that the other runtime gets its address.
#[test]
fn two_checked_runtimes_share_the_addresses_of_the_host_and_find_nothing() -> Result<()> {
    // Larger than the memory that a runtime keeps for the next allocation.
    const BYTES: usize = 300 << 20;
    let [one, two] = [(); 2].map(|()| own_devices().devices(1).checked(true).build().unwrap());
    for runtime in [&one, &two, &one] {
        drop(runtime.host_buffer::<u8>(BYTES)?);
        let stream = runtime.device(0)?.stream()?;
        // Dropped memory is returned when the stream that was dropped in flight ends.
        stream.host_fn(|| std::thread::sleep(Duration::from_millis(20)))?;
        drop(stream);
        std::thread::sleep(Duration::from_millis(200));
    }
    for runtime in [&two, &one] {
        let mut buffer = runtime.host_buffer::<u8>(BYTES)?;
        buffer.as_mut_slice()?[BYTES - 1] = 1;
        assert_eq!(buffer.as_slice()?[BYTES - 1], 1);
    }
    assert_eq!((one.findings().len(), two.findings().len()), (0, 0), "{:?}", one.findings());
    Ok(())
}
