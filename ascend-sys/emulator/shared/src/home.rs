//! The files of a CANN installation besides its libraries: headers, the script that sets the
//! environment, and a file for pkg-config.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The C headers, each with its path below `include` and its text.
pub const HEADERS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// The directory of the libraries, relative to that of the installation.
pub const LIBRARIES: &str = "lib64";

/// Writes the files, and returns the number of headers among them.
///
/// # Errors
///
/// Fails if a directory or a file cannot be written, or if the path of the directory is not UTF-8.
/// The message names the directory or the file.
pub fn write(home: &Path) -> Result<usize, String> {
    for (name, text) in HEADERS {
        write_file(home.join("include").join(name), text)?;
    }
    let package = home.join(LIBRARIES).join("pkgconfig/ascend-emulator.pc");
    write_file(package, &package_config())?;
    let absolute = home
        .canonicalize()
        .map_err(|e| format!("cannot find {}: {e}; pass another directory", home.display()))?;
    let place = absolute.to_str().ok_or_else(|| {
        format!(
            "{absolute:?} is not UTF-8, so that no script can name it: choose another directory"
        )
    })?;
    write_file(home.join("set_env.sh"), &environment(place))?;
    Ok(HEADERS.len())
}

fn write_file(path: PathBuf, text: &str) -> Result<(), String> {
    let write = || -> io::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&path, text)
    };
    write().map_err(|e| {
        format!("cannot write {}: {e}; pass a directory that can be written", path.display())
    })
}

/// Returns the text of the file for pkg-config. Its options make the linker always keep the
/// libraries. Most functions of `hccl_comm.h` are weak, and a linker may drop a library that only
/// weak references use.
fn package_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         includedir=${{prefix}}/include\n\
         libdir=${{prefix}}/{LIBRARIES}\n\
         \n\
         Name: ascend-emulator\n\
         Description: CANN's AscendCL and HCCL on virtual NPUs\n\
         Version: {}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -Wl,--push-state,--no-as-needed -lhccl -lhcomm -lascendcl -Wl,--pop-state\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the text of the script to source. In Bash the script finds its own directory, so the
/// directory can be moved. In other shells it uses the directory where it was installed.
fn environment(place: &str) -> String {
    let quoted = place.replace('\'', r"'\''");
    format!(
        r#"# Source this file to run and build programs with the emulator in the place of CANN.
ASCEND_HOME_PATH='{quoted}'
if [ -n "${{BASH_SOURCE:-}}" ]; then
    ASCEND_HOME_PATH=$(CDPATH= cd -- "$(dirname -- "$BASH_SOURCE")" && pwd)
fi
export ASCEND_HOME_PATH
export ASCEND_TOOLKIT_HOME="$ASCEND_HOME_PATH"
export LD_LIBRARY_PATH="$ASCEND_HOME_PATH/{LIBRARIES}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PKG_CONFIG_PATH="$ASCEND_HOME_PATH/{LIBRARIES}/pkgconfig${{PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}}"
"#
    )
}
