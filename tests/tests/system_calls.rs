//! After the first rounds, an operation makes no system call while the ranks fit the cores. The
//! test needs strace, so this file is built only with the feature `strace` (CI does so).
//!
//! The test starts itself again under strace. There, two ranks run a steady loop and set a mark
//! after each *stretch* of a thousand operations. The parent counts the system calls of the ranks'
//! threads in each stretch. The kernel may take a core away from a rank at any time. Its peer then
//! spins, yields and at last sleeps, which takes system calls. But an operation that itself needs a
//! system call makes it in every stretch. So the test asserts that at least one stretch has none.

use std::path::Path;
use std::process::Command;

use hccl::prelude::*;

const STRETCHES: usize = 50;
const OPERATIONS: usize = 1000;

/// The operations that the loop repeats.
const STEADY: &[&str] = &[
    "all_reduce",
    "in place",
    "in chunks",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_v",
    "broadcast",
    "all_gather",
    "all_gather_v",
    "scatter",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_vc",
    "message",
    "barrier",
    "batch",
    "copy",
];

/// A count of 128 KiB of f32, which the emulator works through in several chunks.
const CHUNKED: usize = 32 << 10;

#[test]
fn steady_operations_make_no_system_calls() {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("system_calls.log");
    let output = Command::new("strace")
        .args(["-f", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "steady_loop_for_strace", "--ignored", "--nocapture"])
        .output()
        .expect("strace is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(log).unwrap();
    let steady = STEADY.iter().flat_map(|name| [0, 1].map(|rank| format!("{name} {rank}")));
    for name in steady {
        let name = name.as_str();
        let calls: Vec<usize> = (0..STRETCHES).map(|at| between_marks(&log, name, at)).collect();
        println!("{name}: system calls in each {OPERATIONS} operations: {calls:?}");
        assert_eq!(calls.iter().min(), Some(&0), "{name}");
    }
}

/// Returns the number of calls that the thread of the marks made between mark `at` and the next
/// one.
fn between_marks(log: &str, name: &str, at: usize) -> usize {
    let (begin, end) = (format!("{name} at {at}."), format!("{name} at {}.", at + 1));
    let mut lines = log.lines().skip_while(|line| !line.contains(&begin));
    let thread = lines.next().and_then(|line| line.split(' ').next()).expect("the mark was set");
    lines
        .filter(|line| line.split(' ').next() == Some(thread))
        // This line is the answer to the mark itself.
        .filter(|line| !line.contains("<... write resumed>"))
        .take_while(|line| !line.contains(&end))
        .count()
}

/// Runs the loop that strace watches. A mark is a write to a file that is not open.
#[test]
#[ignore = "run by steady_operations_make_no_system_calls under strace"]
fn steady_loop_for_strace() {
    let mark = |text: String| {
        // SAFETY: the buffer is valid for its length; the write fails, as intended.
        unsafe { libc::write(-1, text.as_ptr().cast(), text.len()) };
    };
    let runtime = Runtime::emulator(2).unwrap();
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let device = rank.device();
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let (me, peer) = (comm.rank(), 1 - comm.rank());
            let send = device.zeros::<f32>(4, &stream)?;
            let mut recv = device.zeros::<f32>(4, &stream)?;
            let both = device.zeros::<f32>(8, &stream)?;
            let mut gathered = device.zeros::<f32>(8, &stream)?;
            let parts = Partition::even(8, 2);
            let matrix = CountMatrix::new(2, vec![4; 4]).map_err(hccl::Error::from)?;
            let mut chunked = device.zeros::<f32>(CHUNKED, &stream)?;
            comm.barrier(&stream)?.wait()?;
            stay_on_core(me as usize);
            for name in STEADY {
                for at in 0..=STRETCHES {
                    mark(format!("{name} {me} at {at}."));
                    for _ in 0..OPERATIONS {
                        match *name {
                            "all_reduce" => comm.all_reduce(&send, &mut recv, Sum, &stream)?,
                            "in place" => comm.all_reduce_in_place(&mut recv, Sum, &stream)?,
                            "in chunks" => comm.all_reduce_in_place(&mut chunked, Sum, &stream)?,
                            "reduce" => {
                                let recv = (me == 1).then_some(&mut recv);
                                comm.reduce(&send, recv, Sum, 1, &stream)?
                            }
                            "reduce_scatter" => {
                                comm.reduce_scatter(&both, &mut recv, Sum, &stream)?
                            }
                            "reduce_scatter_v" => {
                                comm.reduce_scatter_v(&both, &mut recv, Sum, &parts, &stream)?
                            }
                            "all_gather" => comm.all_gather(&send, &mut gathered, &stream)?,
                            "all_gather_v" => {
                                comm.all_gather_v(&send, &mut gathered, &parts, &stream)?
                            }
                            "scatter" => {
                                let send = (me == 0).then_some(&both);
                                comm.scatter(send, &mut recv, 0, &stream)?
                            }
                            "all_to_all" => comm.all_to_all(&both, &mut gathered, &stream)?,
                            "all_to_all_v" => {
                                comm.all_to_all_v(&both, &mut gathered, &parts, &parts, &stream)?
                            }
                            "all_to_all_vc" => {
                                comm.all_to_all_vc(&both, &mut gathered, &matrix, &stream)?
                            }
                            "message" if me == 0 => comm.send(&send, peer, &stream)?,
                            "message" => comm.recv(&mut recv, peer, &stream)?,
                            "broadcast" => comm.broadcast(&mut recv, 0, &stream)?,
                            "barrier" => comm.barrier(&stream)?,
                            "batch" => {
                                let batch = comm.batch().send(&send, peer).recv(&mut recv, peer);
                                batch.submit(&stream)?
                            }
                            _ => recv.copy_from(&send, &stream)?,
                        }
                        .wait()?;
                    }
                }
            }
            Ok(())
        })
        .unwrap();
}

/// Binds a rank to a core. Two ranks on one core would have to wait for each other.
fn stay_on_core(core: usize) {
    // SAFETY: an all-zero set is valid, and the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
