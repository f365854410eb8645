//! The CANN path: `dlopen` opens libraries with CANN's names, and their symbols fill the table, as
//! on a server. The emulator is behind the symbols.

use std::path::Path;
use std::process::Command;

use hccl::Backend;
use hccl::operator::Operator;
use hccl::prelude::*;
use hccl_tests::{emulator_home, from_the_left, installed_emulator};

fn runtime() -> Runtime {
    Runtime::load_from(installed_emulator()).unwrap()
}

/// Runs a test of this program again as another process, with `path` as the loader's path and no
/// CANN in the environment. Returns whether it passed, and its output.
fn as_child(test: &str, path: &Path) -> (bool, String) {
    as_child_with(test, path, None)
}

/// Runs a test like [`as_child`], with one of CANN's variables set if `home` is given.
fn as_child_with(test: &str, path: &Path, home: Option<(&str, &Path)>) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("cann_path::{test}"), "--exact", "--nocapture"])
        .env("CANN_PATH_CHILD", "1")
        .env("LD_LIBRARY_PATH", path)
        .env_remove("ASCEND_HOME_PATH")
        .env_remove("ASCEND_TOOLKIT_HOME")
        .envs(home)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

fn is_child() -> bool {
    std::env::var_os("CANN_PATH_CHILD").is_some()
}

#[test]
fn a_program_runs_over_dlopened_libraries() {
    run_the_program(&runtime());
}

#[test]
fn cann_and_auto_find_the_libraries_on_the_loader_s_path() {
    if is_child() {
        tracing_subscriber::fmt::init();
        for runtime in [Runtime::cann().unwrap(), Runtime::auto().unwrap()] {
            run_the_program(&runtime);
            println!("ran on {:?}", runtime.backend());
        }
        return;
    }
    let (passed, text) =
        as_child("cann_and_auto_find_the_libraries_on_the_loader_s_path", installed_emulator());
    assert!(passed, "{text}");
    assert_eq!(text.matches("ran on Cann").count(), 2, "{text}");
    // Only `Runtime::auto` reports its choice.
    let told =
        "backend: CANN, since its libraries were found: libacl_rt.so, libhcomm.so, libhccl.so";
    assert_eq!(text.matches(told).count(), 1, "{text}");
}

#[test]
fn the_installed_directory_stands_in_for_that_of_cann() {
    if is_child() {
        let runtime = Runtime::auto().unwrap();
        run_the_program(&runtime);
        println!("ran on {:?}", runtime.backend());
        return;
    }
    let test = "the_installed_directory_stands_in_for_that_of_cann";
    let nowhere = Path::new("/there is no CANN here");
    let (passed, text) = as_child_with(test, nowhere, Some(("ASCEND_HOME_PATH", emulator_home())));
    assert!(passed && text.contains("ran on Cann"), "{text}");
}

#[test]
fn a_variable_that_leads_nowhere_is_an_error_of_auto_and_not_the_emulator() {
    if is_child() {
        println!("auto: {}", Runtime::auto().expect_err("the variable leads nowhere"));
        return;
    }
    let nowhere = Path::new("/there is no CANN here");
    let test = "a_variable_that_leads_nowhere_is_an_error_of_auto_and_not_the_emulator";
    for name in ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"] {
        let (passed, text) = as_child_with(test, nowhere, Some((name, nowhere)));
        assert!(passed, "{text}");
        let tried = format!("{}/lib64/libacl_rt.so: no such file", nowhere.display());
        for piece in [&*tried, "correct it", "unset the variable", name] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }
    // The result is the same if the variable names another place.
    for name in ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"] {
        let (passed, text) = as_child_with(test, installed_emulator(), Some((name, nowhere)));
        assert!(passed, "{text}");
        let said = format!("{name} is {}, but CANN is not there", nowhere.display());
        for piece in [&*said, "found as libacl_rt.so", "Correct the variable, or unset it"] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }
    // A variable that is unset or empty cannot be wrong.
    let empty = Some(("ASCEND_HOME_PATH", Path::new("")));
    let (passed, text) =
        as_child_with("auto_takes_the_emulator_where_nobody_names_a_place", nowhere, empty);
    assert!(passed && text.contains("ran on Emulator"), "{text}");
}

#[test]
fn auto_takes_the_emulator_where_nobody_names_a_place() {
    if is_child() {
        println!("ran on {:?}", Runtime::auto().unwrap().backend());
        return;
    }
    let test = "auto_takes_the_emulator_where_nobody_names_a_place";
    let (passed, text) = as_child(test, Path::new("/there is no CANN here"));
    assert!(passed && text.contains("ran on Emulator"), "{text}");
}

#[test]
fn libraries_without_a_device_are_an_error_of_auto_that_names_both_ways_out() {
    if is_child() {
        println!("cann: {}", Runtime::cann().expect_err("there is no device"));
        println!("auto: {}", Runtime::auto().expect_err("there is no device"));
        return;
    }
    let dir = installed_emulator().join("no-device");
    std::fs::create_dir_all(&dir).unwrap();
    let runtime = "int aclInit(const char *config) { return config != 0; }\n\
                   int aclrtGetDeviceCount(unsigned *count) { *count = 0; return 0; }\n";
    for (name, text) in [("libacl_rt.so", runtime), ("libhcomm.so", ""), ("libhccl.so", "")] {
        let source = dir.join(name).with_extension("c");
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        compiler.args(["-shared", "-fPIC", "-o"]).arg(dir.join(name)).arg(&source);
        let output = compiler.output().expect("there is a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let test = "libraries_without_a_device_are_an_error_of_auto_that_names_both_ways_out";
    let (passed, text) = as_child(test, &dir);
    assert!(passed, "{text}");
    let line = |start| text.lines().find(|line| line.contains(start)).unwrap_or_default();
    assert!(line("cann: ").contains("finds no device"), "{text}");
    for piece in ["finds no device", "ASCEND_RT_VISIBLE_DEVICES", "Runtime::emulator(n)"] {
        assert!(line("auto: ").contains(piece), "{piece}: {text}");
    }
}

/// Runs a small program on four ranks: some operations, one captured operation, and one custom
/// operator.
fn run_the_program(runtime: &Runtime) {
    assert_eq!(runtime.backend(), Backend::Cann);
    let operator = Operator::other("from_the_left", 8, 8, from_the_left);
    let results = runtime
        .run_ranks(4, |rank| -> hccl::Result<(Vec<f32>, Vec<i32>, Vec<u8>)> {
            let device = rank.device();
            let stream = device.stream()?;
            let mut comm = rank.communicator()?;
            let (me, n) = (comm.rank(), comm.world_size());
            let x = device.upload(&vec![me as f32; 100_000], &stream)?;
            let mut sum = device.zeros::<f32>(100_000, &stream)?;
            comm.all_reduce(&x, &mut sum, Sum, &stream)?.wait()?;

            let right = device.upload(&[me as i32; 8], &stream)?;
            let mut left = device.zeros::<i32>(8, &stream)?;
            comm.batch()
                .send(&right, (me + 1) % n)
                .recv(&mut left, (me + n - 1) % n)
                .submit(&stream)?;
            let mut moved = device.zeros::<i32>(8, &stream)?;
            comm.run(&operator).input(&left).output(&mut moved).submit(&stream)?;

            let mut word = device.upload(&[me as u8; 3], &stream)?;
            let capture = device.begin_capture()?;
            comm.broadcast(&mut word, 2, &capture)?;
            capture.end()?.replay(&stream)?;
            comm.barrier(&stream)?.wait()?;
            Ok((
                sum.to_vec(&stream).wait()?,
                [left.to_vec(&stream).wait()?, moved.to_vec(&stream).wait()?].concat(),
                word.to_vec(&stream).wait()?,
            ))
        })
        .unwrap();
    for (me, (sum, left, word)) in results.into_iter().enumerate() {
        assert_eq!(sum, vec![6.0; 100_000]);
        assert_eq!(left[..8], [(me as i32 + 3) % 4; 8]);
        assert_eq!(left[8..], [(me as i32 + 2) % 4; 8]);
        assert_eq!(word, [2; 3]);
    }
}

#[test]
fn a_mismatch_over_dlopened_libraries_names_both_sides() {
    let error = runtime()
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            comm.barrier(&stream)?.wait()?;
            let mut x =
                rank.device().zeros::<f32>(if rank.index() == 0 { 48 } else { 73 }, &stream)?;
            comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()
        })
        .unwrap_err()
        .to_string();
    for part in ["all_reduce", "48", "73"] {
        assert!(error.contains(part), "no {part} in: {error}");
    }
}

#[test]
fn a_folder_without_libraries_is_an_error_that_lists_what_was_tried() {
    let empty = installed_emulator().join("nothing-here");
    std::fs::create_dir_all(&empty).unwrap();
    let error = Runtime::load_from(&empty).expect_err("there is nothing").to_string();
    assert!(error.contains("libhccl.so") || error.contains("libacl_rt.so"), "{error}");
    assert!(error.contains("nothing-here"), "{error}");
}
