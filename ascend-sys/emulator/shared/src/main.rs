//! `ascend-emulator-install DIR`: puts the emulator into a directory as the shared libraries of a CANN
//! installation, so that C, C++ and Python programs, and `Runtime::load_from`, find CANN's names there.

mod facade;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use clap::Parser;
use facade::{Arch, FACADES, Facade};

/// The name of the library that holds the emulator itself.
const CORE: &str = "libascend_emulator_core.so";

/// Install the emulator as shared libraries with CANN's names.
///
/// Afterwards `DIR` holds libacl_rt.so, libascendcl.so, libhcomm.so, libhccl.so, libmsprofiler.so and the
/// core that they share. Run a program on virtual NPUs with `LD_LIBRARY_PATH=DIR program`, or link with
/// `-L DIR -lhccl -lascendcl`. Needs `cc` to link.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// Directory to install into; made when it is not there
    dir: PathBuf,

    /// The core library, when it is not beside this program
    #[arg(long, value_name = "FILE")]
    core: Option<PathBuf>,
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
    let arch = Arch::current().ok_or("only x86_64 and aarch64 are supported")?;
    let dir = &options.dir;
    fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    let core = match &options.core {
        Some(core) => core.clone(),
        None => core_beside_this_program().map_err(|e| format!("where am I? {e}"))?,
    };
    // A copy under another name and a rename: programs that have the old one mapped keep it.
    let staged = dir.join(format!("{CORE}.new"));
    fs::copy(&core, &staged)
        .and_then(|_| fs::rename(&staged, dir.join(CORE)))
        .map_err(|e| format!("cannot copy {} into {}: {e}", core.display(), dir.display()))?;

    let table = ascend_emulator::table();
    let mut lines = format!("{:<20} the emulator itself\n", CORE);
    for facade in FACADES {
        let symbols = facade.symbols(&table);
        link(dir, facade, &arch.assembly(&symbols))?;
        lines += &format!("{:<20} {:>3} functions\n", facade.file, symbols.len());
    }
    lines += &format!("installed in {}\n", dir.display());
    Ok(lines)
}

fn core_beside_this_program() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(CORE))
}

/// Assembles and links one facade with the system's C compiler driver.
fn link(dir: &Path, facade: &Facade, assembly: &str) -> Result<(), String> {
    let source = dir.join(format!("{}.s", facade.file));
    let staged = dir.join(format!("{}.new", facade.file));
    fs::write(&source, assembly).map_err(|e| format!("cannot write {}: {e}", source.display()))?;
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
        .map_err(|e| format!("cannot run the C compiler `{cc}`: {e} (set CC to another one)"))?;
    let result = if output.status.success() {
        fs::rename(&staged, dir.join(facade.file)).map_err(|e| format!("{}: {e}", facade.file))
    } else {
        Err(format!(
            "{cc} could not link {}:\n{}",
            facade.file,
            String::from_utf8_lossy(&output.stderr)
        ))
    };
    // The source is of no use to anybody, and a failed removal does not make the library worse.
    let _ = fs::remove_file(&source);
    result
}
