//! Gives the core library the name by which its facades request it from the loader, and collects
//! the C headers for the installer.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libascend_emulator_core.so");
    println!("cargo:rerun-if-changed=build.rs");
    let include = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default())
        .join("../../include")
        .canonicalize()?;
    println!("cargo:rerun-if-changed={}", include.display());
    let mut headers = Vec::new();
    collect(&include, &mut headers)?;
    headers.sort();
    let mut table = String::from("[\n");
    for header in headers {
        let name = header.strip_prefix(&include).map_err(io::Error::other)?;
        table += &format!("    ({name:?}, include_str!({header:?})),\n");
    }
    table += "]\n";
    let out = env::var_os("OUT_DIR")
        .ok_or_else(|| io::Error::other("OUT_DIR is not set; build with cargo"))?;
    fs::write(Path::new(&out).join("headers.rs"), table)
}

/// Adds the paths of all headers below a directory.
fn collect(directory: &Path, headers: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, headers)?;
        } else if path.extension().is_some_and(|extension| extension == "h") {
            headers.push(path);
        }
    }
    Ok(())
}
