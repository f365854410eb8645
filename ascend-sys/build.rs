//! Tells the linker where CANN is, only for the feature `linked`: without it, CANN is loaded at run
//! time.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_LINKED").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=ASCEND_HOME_PATH");
    println!("cargo::rerun-if-env-changed=ASCEND_TOOLKIT_HOME");
    let directories = directories();
    for directory in &directories {
        println!("cargo::rustc-link-search=native={}", directory.display());
    }
    // CANN 8 has the runtime only under its old name.
    let old = directories.iter().any(|it| it.join("libascendcl.so").exists())
        && !directories.iter().any(|it| it.join("libacl_rt.so").exists());
    for library in [if old { "ascendcl" } else { "acl_rt" }, "hcomm", "hccl"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// Returns the directories with CANN's libraries for linking, in the order of the search at run
/// time. `devlib` has stub libraries for machines without a driver.
fn directories() -> Vec<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"]
        .into_iter()
        .filter_map(env::var_os)
        .filter(|home| !home.is_empty())
        .flat_map(|home| {
            let home = Path::new(&home);
            let of_arch = home.join(format!("{arch}-linux"));
            [home.join("lib64"), of_arch.join("lib64"), of_arch.join("devlib")]
        })
        .filter(|directory| directory.is_dir())
        .collect()
}
