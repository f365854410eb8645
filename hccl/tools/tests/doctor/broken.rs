//! Broken installations: the doctor prints a correct line about each, and never crashes.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use hccl_tests::cann_home;

use crate::{Said, directory, doctor_of, run};

const LIBRARIES: [&str; 3] = ["libacl_rt.so", "libhcomm.so", "libhccl.so"];

/// Makes an installation that lacks one of the emulator's libraries. Returns its directory, and the
/// path of the missing library.
fn without(name: &str, library: &str) -> (PathBuf, PathBuf) {
    let home = directory(name);
    let lib64 = home.join("lib64");
    std::fs::create_dir_all(&lib64).unwrap();
    link_others(&lib64, library);
    (home, lib64.join(library))
}

/// Makes symbolic links in `lib64` to all libraries of the emulator except one. A library searches
/// for the others in the directory from which it is loaded.
pub(crate) fn link_others(lib64: &Path, library: &str) {
    for entry in std::fs::read_dir(cann_home().join("lib64")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != library {
            symlink(entry.path(), lib64.join(entry.file_name())).unwrap();
        }
    }
}

/// Returns the output of the doctor for an installation in which `make` makes one library.
fn said_of(name: &str, library: &str, make: impl FnOnce(&Path)) -> Said {
    let (home, place) = without(name, library);
    make(&place);
    run(&mut doctor_of(&home, &[]))
}

/// Compiles a library. `more` are options for the compiler.
pub(crate) fn compile(place: &Path, text: &str, more: &[&str]) {
    let source = place.with_extension("c");
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler.args(["-shared", "-fPIC", "-w", "-o"]).arg(place).arg(&source).args(more);
    let output = compiler.output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_library_that_is_missing_is_named() {
    for library in LIBRARIES {
        let said = said_of("missing", library, |_| ());
        said.ends_with(1)
            .says(&["! Runtime::cann() cannot load", &format!("{library}: no such file")]);
    }
}

#[test]
fn a_library_that_is_cut_off_is_said_to_be() {
    let whole = std::fs::read(cann_home().join("lib64/libhccl.so")).unwrap();
    for kept in [1, 60, 200, 5000, whole.len() / 2] {
        let said =
            said_of("cut", "libhccl.so", |place| std::fs::write(place, &whole[..kept]).unwrap());
        said.ends_with(1).says(&["! collectives (hccl)", "! Runtime::cann()"]);
        if kept > 4 {
            said.says(&["it is cut off"]);
        }
    }
}

#[test]
fn a_library_for_another_processor_is_said_to_be() {
    let mut bytes = std::fs::read(cann_home().join("lib64/libhcomm.so")).unwrap();
    let (machine, name) =
        if cfg!(target_arch = "x86_64") { (183, "aarch64") } else { (62, "x86_64") };
    bytes[18] = machine;
    let said = said_of("processor", "libhcomm.so", |place| std::fs::write(place, &bytes).unwrap());
    said.ends_with(1)
        .says(&[&format!("it is for {name}, and this machine is"), "! Runtime::cann()"]);
    // The file is on the loader's path, where the loader skips it silently.
    let (home, place) = without("processor-path", "libacl_rt.so");
    std::fs::write(&place, &bytes).unwrap();
    let mut command = doctor_of(&home, &[]);
    command.env_remove("ASCEND_HOME_PATH").env("LD_LIBRARY_PATH", home.join("lib64"));
    run(&mut command).ends_with(1).says(&[&format!("libacl_rt.so: it is for {name}")]);
}

#[test]
fn what_is_no_library_is_said_to_be_none() {
    let said =
        said_of("text", "libacl_rt.so", |place| std::fs::write(place, "INPUT(x)\n").unwrap());
    said.ends_with(1).says(&["it is not a shared library: it is a text"]);
    let said = said_of("folder", "libhccl.so", |place| std::fs::create_dir(place).unwrap());
    said.ends_with(1).says(&["it is not a shared library: it is a directory"]);
}

#[test]
fn a_library_that_ends_the_process_ends_only_a_child() {
    let crash = "__attribute__((constructor)) static void start(void) { __builtin_trap(); }\n";
    let said = said_of("trap", "libhcomm.so", |place| compile(place, crash, &[]));
    said.ends_with(1).says(&[
        "! communication (hcomm)",
        "while it was loaded",
        // The other libraries are still examined. One of them needs the broken library.
        "! collectives (hccl)",
        "+ profiling",
        "! Runtime::cann() the process has ended by",
        "while the libraries are loaded; a program would end in the same way",
    ]);
    // This library prints something and ends the process with `exit`.
    let leave = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void start(void) \
                 { puts(\"no driver\"); fputs(\"wrong firmware\\n\", stderr); exit(7); }\n";
    let said = said_of("leave", "libacl_rt.so", |place| compile(place, leave, &[]));
    said.ends_with(1).says(&["the process has ended with status 7", "last words: wrong firmware"]);
}

#[test]
fn a_function_that_is_missing_is_named_with_what_does_not_work() {
    // This library has only the functions that count devices.
    let few = "int aclInit(const char *config) { return config != 0; }\n\
               int aclrtGetDeviceCount(unsigned *count) { *count = 1; return 0; }\n";
    let home = directory("few");
    std::fs::create_dir_all(home.join("lib64")).unwrap();
    for library in LIBRARIES {
        let text = if library == "libacl_rt.so" { few } else { "" };
        compile(&home.join("lib64").join(library), text, &[]);
    }
    let said = run(&mut doctor_of(&home, &[]));
    said.ends_with(1).says(&[
        "+ runtime",
        "2 of the",
        "functions are missing that every program needs: aclrtSetDevice",
        "all_reduce needs HcclAllReduce, which is missing",
        "device 0 cannot be opened",
    ]);
    assert!(!said.text.contains("ascend-emulator-install"), "{}", said.text);
    let (object, _) = super::json::object(&mut doctor_of(&home, &["--json"]));
    let missing = object["missing"].as_array().expect("an array");
    assert!(missing.iter().any(|one| one["name"] == "HcclAllReduce"), "{object:#}");
    assert!(missing.iter().all(|one| one["library"].is_string() && one["since"].is_string()));
    assert!(missing.iter().all(|one| one["name"] != "aclrtGetDeviceCount"), "{object:#}");
}

#[test]
fn an_installation_without_a_device_is_told_from_one_that_does_not_start() {
    for (name, count, expected) in [
        ("no-device", "*count = 0; return 0;", "CANN is installed and finds no device"),
        ("no-start", "return 507899;", "507899"),
        (
            "no-end",
            "__builtin_trap();",
            "while Runtime::cann starts (aclInit, aclrtGetDeviceCount)",
        ),
    ] {
        let home = directory(name);
        std::fs::create_dir_all(home.join("lib64")).unwrap();
        for library in LIBRARIES {
            let text = format!(
                "int aclInit(const char *config) {{ return config != 0; }}\n\
                 int aclrtGetDeviceCount(unsigned *count) {{ {count} }}\n"
            );
            let text = if library == "libacl_rt.so" { &text } else { "" };
            compile(&home.join("lib64").join(library), text, &[]);
        }
        run(&mut doctor_of(&home, &[])).ends_with(1).says(&[
            "! Runtime::cann()",
            expected,
            "! Runtime::auto()",
        ]);
    }
}
