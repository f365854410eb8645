//! Compiles printed sources with a C++ compiler: to check their syntax, and as programs of the
//! host.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ascend_program::{Core, Program, ascend_c};

/// Returns the compiler if there is one: the one that `CXX` names, or `c++`.
pub fn compiler() -> Option<Command> {
    let command = || Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    match command().arg("--version").output() {
        Ok(output) if output.status.success() => Some(command()),
        _ => {
            let note = b"note: there is no `c++`, so the kernels were not seen by a C++ compiler\n";
            // The note bypasses the capture of the test harness, so that a reader sees that this
            // was not tested.
            let _ = std::io::stderr().write_all(note);
            None
        }
    }
}

/// Returns whether to run all tests (`HCCL_TEST_FULL=1`) instead of the sample that every `cargo
/// test` runs. A compiler takes seconds.
pub fn full() -> bool {
    std::env::var_os("HCCL_TEST_FULL").is_some_and(|value| value == "1")
}

/// Returns the directory of our headers, which have the names of CANN's headers.
pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// A directory that is removed when the value is dropped.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ascend-c-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the source of a kernel and the header of its tiling struct.
pub fn sources(program: &Program, to: &Directory) -> PathBuf {
    if let Some(layout) = &program.tiling {
        to.write(&format!("{}_tiling.h", program.name), layout.header());
    }
    to.write("kernel.cpp", ascend_c::kernel(program).unwrap())
}

pub fn options(command: &mut Command, core: u32, more: &Path) {
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror"]);
    // A kernel may have parameters that it does not use, and values that only one kind of core
    // uses.
    command.args(["-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-unused-but-set-variable"]);
    command.arg(format!("-DSTUB_CORE={core}")).arg("-I").arg(include()).arg("-I").arg(more);
}

/// Returns the messages of a compiler about a source, for each kind of core. The text is empty if
/// there are none. Returns `None` without a compiler.
pub fn complaints(more: &[&str], source: &Path) -> Option<String> {
    let mut text = String::new();
    for core in [1, 2] {
        let mut command = compiler()?;
        options(&mut command, core, source.parent().unwrap());
        let output = command.args(more).arg("-fsyntax-only").arg(source).output().unwrap();
        assert!(output.status.success() == output.stderr.is_empty());
        text += &String::from_utf8_lossy(&output.stderr);
    }
    Some(text)
}

/// Compiles a kernel as a program of the host, and returns its path. See `main.cpp` of this
/// package.
pub fn program_of_host(
    compiler: impl Fn() -> Command,
    more: &[&str],
    program: &Program,
    at: &Directory,
) -> PathBuf {
    let source = sources(program, at);
    let (name, run) = (&program.name, at.0.join("run"));
    let mut objects = Vec::new();
    let kinds = [(Core::Aic, 1, "aic"), (Core::Aiv, 2, "aiv")];
    // The kernel is not compiled for kinds of cores on which it does not run.
    let used: Vec<_> = kinds.iter().filter(|(kind, ..)| program.mix.ratio(*kind) > 0).collect();
    for (_, core, kind) in &used {
        let object = at.0.join(format!("{kind}.o"));
        let mut command = compiler();
        options(&mut command, *core, &at.0);
        command.args(more);
        command.arg(format!("-D{name}={name}_{kind}")).args(["-c", "-o"]).arg(&object).arg(&source);
        succeed(command);
        objects.push(object);
    }
    let mut command = compiler();
    command.args(["-std=c++17", "-pthread", "-I"]).arg(include());
    for kind in &kinds {
        // `main.cpp` needs a name even for a form that it never calls.
        let form = if used.contains(&kind) { kind.2 } else { used[0].2 };
        command.arg(format!("-DKERNEL_{}={name}_{form}", kind.2.to_uppercase()));
    }
    command.arg(format!("-DPARAMETERS={}", program.parameters.len()));
    command.arg("-o").arg(&run).arg(include().with_file_name("main.cpp")).args(objects);
    succeed(command);
    run
}

/// Runs a compiler, and panics if it fails.
pub fn succeed(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{said}");
}
