//! Helpers that the tests share.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

mod run;

pub use run::{
    Devices, RUNTIME, both_backends, both_with, is_loaded, own_devices, products, runtime_with,
    without_extensions,
};

/// Returns the root of the repository.
pub fn repository() -> &'static Path {
    // The manifest is in `tests/`, so it has a parent.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Returns the directory of the libraries in [`emulator_home`].
pub fn installed_emulator() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| emulator_home().join("lib64"))
}

/// Returns a directory that takes the place of a CANN installation and has the emulator's
/// libraries. The installer, which the book describes, makes it once for each test program, in the
/// profile of the tests.
pub fn emulator_home() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| install("virtual-cann", &[]))
}

/// Returns a directory like [`emulator_home`], but without the functions that CANN does not have,
/// as on an Ascend machine.
pub fn cann_home() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| install("plain-cann", &["--without-extensions"]))
}

/// Runs the installer for a directory of this test program.
fn install(kind: &str, options: &[&str]) -> PathBuf {
    let program = std::env::current_exe().expect("a running test has a path");
    let name = program.file_stem().expect("which ends in a name");
    let dir = program.with_file_name(kind).join(name);
    // With a test, and in the whole workspace, cargo chooses the same features as for `cargo test`.
    // Otherwise it would build the emulator again.
    let built = built(&["build", "--lib", "--bin", INSTALLER, "--test", "abi_load"]);
    let installer = built.into_iter().find(|built| built.executable.ends_with(INSTALLER));
    let installer = installer.expect("cargo says where it is").executable;
    output(Command::new(installer).args(options).arg(&dir));
    dir
}

const INSTALLER: &str = "ascend-emulator-install";

/// A program that cargo has built.
pub struct Built {
    /// The library, the test or the program that it is made of.
    pub target: String,
    /// The manifest of the program's package.
    pub manifest: PathBuf,
    /// The path of the program.
    pub executable: PathBuf,
}

/// Builds the whole workspace in the profile of the tests, and returns the executables. `arguments`
/// is a command of cargo and its options.
///
/// # Panics
///
/// If cargo fails.
pub fn built(arguments: &[&str]) -> Vec<Built> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(repository()).args(arguments);
    cargo.args(["--quiet", "--message-format=json", "--workspace"]);
    // The programs are built without these flags, even if the tests are built with sanitizers.
    cargo.env_remove("RUSTFLAGS");
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = |line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(Built {
            target: message["target"]["name"].as_str()?.to_owned(),
            manifest: PathBuf::from(message["manifest_path"].as_str()?),
            executable: PathBuf::from(message["executable"].as_str()?),
        })
    };
    output(&mut cargo).lines().filter_map(built).collect()
}

/// Runs a command that has to succeed, and returns its standard output.
///
/// # Panics
///
/// If the command fails. The message is its standard error.
pub fn output(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles C sources against the headers and libraries of the installed emulator, and returns the
/// program.
pub fn compile_c(name: &str, sources: &[&str]) -> PathBuf {
    // `cc` is the driver with which Rust links.
    compile(Command::new("cc").arg("-std=c11"), name, sources)
}

/// Compiles C++ sources like [`compile_c`]. Call it only where [there is a compiler](has_cpp).
pub fn compile_cpp(name: &str, sources: &[&str]) -> PathBuf {
    compile(named("CXX", "c++").arg("-std=c++14"), name, sources)
}

fn compile(compiler: &mut Command, name: &str, sources: &[&str]) -> PathBuf {
    let dir = installed_emulator();
    let program = dir.join(name);
    let sources = sources.iter().map(|source| repository().join("tests/c").join(source));
    let output = compiler
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"])
        .arg(&program)
        .args(sources)
        .arg("-I")
        .arg(emulator_home().join("include"))
        .arg("-L")
        .arg(dir)
        .args(["-Wl,--no-as-needed", "-lhccl", "-lhcomm", "-lascendcl"])
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Returns a command for the program that a variable of the environment names, or else for the
/// usual one.
pub fn named(variable: &str, usual: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or(usual.into()))
}

/// Returns whether to use a C++ compiler. If there is none, the result is false, unless the
/// environment names a compiler or requests the whole matrix: then a test that compiles fails.
///
/// # Panics
///
/// If the note about a missing compiler cannot be written to standard error.
pub fn has_cpp() -> bool {
    let asked_for = std::env::var_os("CXX").is_some() || full();
    match named("CXX", "c++").arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound && !asked_for => {
            // Not with `eprintln!`: the harness hides its output if the test passes.
            let note = b"note: there is no `c++`, so the headers were not seen by a C++ compiler\n";
            std::io::stderr().write_all(note).expect("there is a standard error");
            false
        }
        _ => true,
    }
}

/// Returns whether the whole matrix is requested (`HCCL_TEST_FULL=1`) instead of the sample that
/// every `cargo test` takes.
pub fn full() -> bool {
    std::env::var_os("HCCL_TEST_FULL").is_some_and(|value| value == "1")
}

/// The programs in the book and in the README, which run as documentation tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/src/learn/first-steps.md")]
    mod first_steps {}
    #[doc = include_str!("../../docs/src/learn/ring.md")]
    mod ring {}
    #[doc = include_str!("../../docs/src/learn/in-flight.md")]
    mod in_flight {}
    #[doc = include_str!("../../docs/src/learn/kernels.md")]
    mod kernels {}
    #[doc = include_str!("../../docs/src/reference/algorithms.md")]
    mod algorithms {}
    #[doc = include_str!("../../docs/src/reference/collectives.md")]
    mod collectives {}
    #[doc = include_str!("../../docs/src/reference/kernel-checks.md")]
    mod kernel_checks {}
    #[doc = include_str!("../../docs/src/reference/tiling.md")]
    mod tiling {}
    #[doc = include_str!("../../docs/src/how-to/test.md")]
    mod test {}
    #[doc = include_str!("../../docs/src/how-to/checked-mode.md")]
    mod checked_mode {}
    #[doc = include_str!("../../docs/src/how-to/errors.md")]
    mod errors {}
    #[doc = include_str!("../../docs/src/how-to/processes.md")]
    mod processes {}
    #[doc = include_str!("../../docs/src/how-to/time-limits.md")]
    mod time_limits {}
    #[doc = include_str!("../../docs/src/how-to/host-memory.md")]
    mod host_memory {}
    #[doc = include_str!("../../docs/src/how-to/capture.md")]
    mod capture {}
    #[doc = include_str!("../../docs/src/how-to/tracing.md")]
    mod tracing {}
    #[doc = include_str!("../../docs/src/moving-in/torch.md")]
    mod from_torch {}
    #[doc = include_str!("../../docs/src/moving-in/nccl.md")]
    mod from_nccl {}
    #[doc = include_str!("../../docs/src/moving-in/mpi.md")]
    mod from_mpi {}
    #[doc = include_str!("../../docs/src/moving-in/dividing.md")]
    mod dividing {}
}

/// Records an operator in which each rank reads from the rank before it, on a thread beside the
/// stream.
pub fn from_the_left(op: &hccl::operator::Recorder<'_>, main: &mut hccl::operator::MainThread<'_>) {
    let shared = ..op.input().len();
    main.copy(op.input(), op.buffer().slice(shared));
    main.fork(2, |threads| {
        let [main, sub] = threads.array();
        let exposed = main.expose(op.channel(op.peer(1)));
        let access = sub.enter(op.channel(op.peer(-1)));
        sub.read(access.buffer().slice(shared), op.output());
        sub.leave(access);
        main.reclaim(exposed);
    });
}
