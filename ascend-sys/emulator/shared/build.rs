//! Gives the core library the name that its facades ask the loader for.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libascend_emulator_core.so");
    println!("cargo:rerun-if-changed=build.rs");
}
