//! `ascend-emulator-install DIR`: makes a directory that replaces a CANN installation, with the
//! emulator as its shared libraries. C, C++ and Python programs, and `Runtime::cann`, find CANN's
//! names in it.

mod facade;
mod home;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use ascend_sys::Library;
use clap::Parser;
use facade::{Arch, FACADES, Facade, LINKS};

/// The name of the library that contains the emulator.
const CORE: &str = "libascend_emulator_core.so";

/// Install the emulator as shared libraries with CANN's names.
///
/// Afterwards `DIR` can be `ASCEND_HOME_PATH`. It holds `include`, `set_env.sh`, and in `lib64` the
/// libraries libacl_rt.so, libascendcl.so, libhcomm.so (also as libhccl_fwk.so), libhccl.so,
/// libhccl_compat.so, libmsprofiler.so, libccl_kernel.so, the core that they share, and
/// `pkgconfig/ascend-emulator.pc`. After `. DIR/set_env.sh` a program runs on virtual NPUs. The
/// installation needs `cc` to link.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// Directory to install into; made if it does not exist
    dir: PathBuf,

    /// The core library, if it is not beside this program
    #[arg(long, value_name = "FILE")]
    core: Option<PathBuf>,

    /// Leave out the functions that CANN does not have (ascendExt...), so that programs do without
    /// them, as on an Ascend machine
    #[arg(long)]
    without_extensions: bool,
}

fn main() -> ExitCode {
    match install(&Options::parse()) {
        Ok(lines) => {
            print!("{lines}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("ascend-emulator-install: {message}");
            ExitCode::FAILURE
        }
    }
}

fn install(options: &Options) -> Result<String, String> {
    let arch = Arch::current()
        .ok_or("only x86_64 and aarch64 are supported; install on such a machine")?;
    let dir = &options.dir.join(home::LIBRARIES);
    fs::create_dir_all(dir).map_err(|e| {
        format!("cannot make {}: {e}; pass a directory that can be written", dir.display())
    })?;
    let core = match &options.core {
        Some(core) => core.clone(),
        None => core_beside_this_program().map_err(|e| {
            format!("cannot find the directory of this program: {e}; pass --core FILE")
        })?,
    };
    // The copy gets another name and is then renamed, so that programs which have mapped the old
    // file keep it.
    let staged = dir.join(format!("{CORE}.new"));
    fs::copy(&core, &staged).and_then(|_| fs::rename(&staged, dir.join(CORE))).map_err(|e| {
        format!(
            "cannot copy {} into {}: {e}; pass --core FILE or another DIR",
            core.display(),
            dir.display()
        )
    })?;

    let kept = |library| !options.without_extensions || library != Library::Extension;
    let table = ascend_emulator::table().retain(|symbol| kept(symbol.library));
    let mut lines = format!("{:<20} the emulator itself\n", CORE);
    for facade in FACADES {
        let (symbols, undeclared) = (facade.symbols(&table), facade.undeclared());
        link(dir, facade, &arch.assembly(&symbols, &undeclared))?;
        let count = symbols.len() + undeclared.len();
        lines += &format!("{:<20} {count:>3} functions\n", facade.file);
    }
    for (name, file) in LINKS {
        symbolic_link(dir, name, file).map_err(|e| {
            format!("cannot make {name}: {e}; pass a directory that can be written")
        })?;
        lines += &format!("{name:<20} the same as {file}\n");
    }
    let headers = home::write(&options.dir)?;
    lines += &format!("{:<20} {headers:>3} headers\n", "include");
    lines += &format!("installed in {}\n", options.dir.display());
    Ok(lines)
}

fn core_beside_this_program() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(CORE))
}

/// Makes a link, or replaces an existing link of this name.
fn symbolic_link(dir: &Path, name: &str, file: &str) -> io::Result<()> {
    let staged = dir.join(format!("{name}.new"));
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(file, &staged)?;
    fs::rename(&staged, dir.join(name))
}

/// Assembles and links one thin library with the system's C compiler driver.
fn link(dir: &Path, facade: &Facade, assembly: &str) -> Result<(), String> {
    let source = dir.join(format!("{}.s", facade.file));
    let staged = dir.join(format!("{}.new", facade.file));
    fs::write(&source, assembly).map_err(|e| {
        format!("cannot write {}: {e}; pass a directory that can be written", source.display())
    })?;
    let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&cc)
        .args(["-shared", "-nostdlib", "-Wl,--no-as-needed", "-Wl,-z,noexecstack"])
        .arg(format!("-Wl,-soname,{}", facade.file))
        .args(["-Wl,-rpath,$ORIGIN", "-o"])
        .arg(&staged)
        .arg(&source)
        .arg("-L")
        .arg(dir)
        .args(facade.needs.iter().map(|file| format!("-l:{file}")))
        .arg(format!("-l:{CORE}"))
        .output()
        .map_err(|e| {
            format!("cannot run the C compiler `{cc}`: {e}; install it, or set CC to another one")
        })?;
    let result = if output.status.success() {
        fs::rename(&staged, dir.join(facade.file)).map_err(|e| {
            format!("cannot replace {}: {e}; pass a directory that can be written", facade.file)
        })
    } else {
        Err(format!(
            "{cc} could not link {}; set CC to another C compiler, or correct this:\n{}",
            facade.file,
            String::from_utf8_lossy(&output.stderr)
        ))
    };
    // No one needs the source any more, and a failed removal does no harm to the library.
    let _ = fs::remove_file(&source);
    result
}
