//! Tests `hccl-doctor` on machines with and without CANN. The emulator's libraries take the place
//! of CANN, whole or broken in many ways.

mod broken;
mod json;
mod reports;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use hccl_tests::{cann_home, emulator_home};

/// The doctor's status and output.
struct Said {
    status: i32,
    text: String,
}

impl Said {
    #[track_caller]
    fn says(&self, pieces: &[&str]) -> &Said {
        for piece in pieces {
            // The doctor breaks lines between words.
            let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(piece), "\"{piece}\" is not in\n{}", self.text);
        }
        self
    }

    #[track_caller]
    fn ends_with(&self, status: i32) -> &Said {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

/// Makes a command that runs the doctor in an environment without CANN.
fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hccl-doctor"));
    command.args(arguments).env("LD_LIBRARY_PATH", "/there is no CANN here");
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["ASCEND", "HCCL", "ACL", "RANK", "OMPI", "PMI", "SLURM"]
            .iter()
            .any(|it| name.starts_with(it))
        {
            command.env_remove(&*name);
        }
    }
    command
}

fn run(command: &mut Command) -> Said {
    let output = command.output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("it is text");
    Said { status: output.status.code().expect("it ends by itself"), text }
}

/// Makes a command that runs the doctor with a CANN at this place.
fn doctor_of(home: &Path, arguments: &[&str]) -> Command {
    let mut command = doctor(arguments);
    command.env("ASCEND_HOME_PATH", home).env("ASCEND_EMULATOR_DEVICES", "2");
    command
}

/// Makes an empty directory for one test.
fn directory(name: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("it can be made");
    directory
}

#[test]
fn a_machine_with_nothing_has_the_emulator() {
    let said = run(&mut doctor(&[]));
    said.ends_with(1).says(&[
        "libacl_rt.so: not on the loader's path",
        "cannot load libacl_rt.so or libascendcl.so of CANN",
        "the emulator with 8 virtual devices, since CANN is not installed",
        "none: this process is no rank of a job",
    ]);
    assert!(!said.text.contains('\x1b'), "{}", said.text);
}

#[test]
fn a_variable_that_leads_nowhere_is_named() {
    let said = run(&mut doctor_of(Path::new("/there is/no CANN"), &[]));
    said.ends_with(1).says(&[
        "! ASCEND_HOME_PATH",
        "there is no such directory: correct it or unset it",
        "/there is/no CANN/lib64/libacl_rt.so: no such file",
        "! Runtime::auto()",
    ]);
}

#[test]
fn the_libraries_of_the_emulator_are_said_to_be_its_own_and_run() {
    let library = cann_home().join("lib64/libhccl.so").display().to_string();
    run(&mut doctor_of(cann_home(), &[])).ends_with(0).says(&[
        &library,
        "of the emulator (ascend-emulator-install), not of CANN",
        "+ Runtime::cann() runs, on 2 virtual devices of the emulator's libraries",
        "+ Runtime::auto() CANN, with 2 devices",
        "Atlas A3",
        "device 1",
        "24 cube cores",
        "not there, as in every CANN: events show whether work is complete",
        "deadlocks end at time limits",
        "version, hccl 9.2.0",
    ]);
    // These libraries have the entries that CANN lacks, and another product.
    let mut command = doctor_of(emulator_home(), &[]);
    run(command.env("ASCEND_EMULATOR_PRODUCT", "A2")).ends_with(0).says(&[
        "optional entries there: all of hccl works",
        "Atlas A2",
        "ASCEND_EMULATOR_PRODUCT",
    ]);
}

#[test]
fn libraries_are_found_on_the_loader_s_path_too() {
    let mut command = doctor(&[]);
    command.env("LD_LIBRARY_PATH", cann_home().join("lib64"));
    let file = std::fs::canonicalize(cann_home().join("lib64/libhcomm.so")).unwrap();
    let shown = format!("libhcomm.so -> {}", file.display());
    run(&mut command).ends_with(0).says(&[&shown, "+ Runtime::cann() runs"]);
}

#[test]
fn the_place_in_a_job_is_said_and_its_secret_is_not() {
    let mut command = doctor(&[]);
    command.envs([("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "node3")]);
    command.env("HCCL_JOB_SECRET", "open sesame").env("HCCL_IF_IP", "10.1.2.3");
    let said = run(&mut command);
    said.says(&["RANK and WORLD_SIZE: rank 1 of 4", "HCCL_JOB_SECRET set;", "HCCL_IF_IP 10.1.2.3"]);
    assert!(!said.text.contains("sesame"), "{}", said.text);
    let mut command = doctor(&[]);
    run(command.env("RANK", "seven").env("WORLD_SIZE", "4")).says(&["! launcher", "RANK", "seven"]);
}

#[test]
fn colours_are_for_who_asks() {
    let said = run(&mut doctor(&["--color", "always"]));
    assert!(said.text.contains("\x1b[1mMachine\x1b[0m"), "{}", said.text);
}

#[test]
fn what_is_asked_wrongly_is_an_error_of_its_own() {
    for arguments in [&["--seconds", "0"][..], &["--report"], &["--reprot", "x"]] {
        run(&mut doctor(arguments)).ends_with(2).says(&["error:"]);
    }
    let nowhere = ["--report", "/there is/no directory/for it"];
    run(&mut doctor(&nowhere)).ends_with(2).says(&["hccl-doctor: /there is/no directory/for it:"]);
    let help = run(&mut doctor(&["--help"]));
    help.ends_with(0).says(&["names of the machine and of the user", "The status is 0 when"]);
    assert!(!help.text.contains("--child"), "{}", help.text);
}
