//! The emulator as shared libraries with CANN's names. C programs run on it, each library has the
//! symbols that CANN's library has, and a Rust program that merely links the emulator exports none
//! of them.

use std::path::Path;
use std::process::Command;

use ascend_emulator::UNDECLARED;
use ascend_sys::{HcclResult, Library, SYMBOLS};
use hccl_tests::{compile_c, compile_cpp, emulator_home, has_cpp, installed_emulator, repository};

#[test]
fn a_c_program_runs_on_virtual_npus() {
    let program = compile_c("ring", &["ring.c"]);
    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", installed_emulator())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: String = (0..8)
        .map(|rank| {
            let previous = (rank + 7) % 8;
            format!("rank {rank} received {} .. {}\n", previous * 100, previous * 100 + 7)
        })
        .collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn a_c_program_shares_memory_and_a_notify_between_processes_as_the_page_does() {
    let program = compile_c("share", &["share.c"]);
    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", installed_emulator())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 numbers of 4096 are wrong\n");
}

#[test]
fn a_cpp_program_makes_an_operator_of_its_own_as_the_page_does() {
    if !has_cpp() {
        return;
    }
    let program = compile_cpp("point_to_point", &["point_to_point.cpp"]);
    for product in ["a2", "a3"] {
        let output = Command::new(&program)
            .env("LD_LIBRARY_PATH", installed_emulator())
            .env("ASCEND_EMULATOR_PRODUCT", product)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "rank 1 received 1000000 floats three times\n", "{product}");
    }
}

/// Links and runs a C program with two libraries and the settings of `set_env.sh`. Most functions
/// of `hccl_comm.h` are in `libhcomm.so`, which is a dependency of `libhccl.so` only.
#[test]
fn the_script_sets_what_a_program_needs_that_links_with_two_libraries() {
    let commands = r#"set -eu
        . "$HOME_OF_EMULATOR/set_env.sh"
        ${CC:-cc} -std=c11 -Wall -Wextra -Werror -pthread -I "$ASCEND_HOME_PATH/include" "$SOURCE" \
            -L "$ASCEND_HOME_PATH/lib64" -lhccl -lascendcl -o "$HOME_OF_EMULATOR/all_reduce"
        "$HOME_OF_EMULATOR/all_reduce""#;
    let output = Command::new("sh")
        .args(["-c", commands])
        .env("HOME_OF_EMULATOR", emulator_home())
        .env("SOURCE", repository().join("tests/c/all_reduce.c"))
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: String =
        (0..8).map(|rank| format!("rank {rank}: 0 sums of 100000 are wrong\n")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn every_header_is_installed() {
    let ours = headers(&repository().join("ascend-sys/include"));
    assert!(ours.iter().any(|(name, _)| name == "hccl/hccl.h"));
    // The directory may contain other headers from an earlier installation.
    let installed = headers(&emulator_home().join("include"));
    for header in &ours {
        assert!(installed.contains(header), "{}", header.0);
    }
}

#[test]
fn each_library_holds_its_own_symbols_and_no_others() {
    let table = ascend_emulator::table();
    // The libraries of a CANN release, each with the functions that it must have.
    for (file, homes) in [
        ("libacl_rt.so", &[Library::AclRt, Library::Extension][..]),
        ("libascendcl.so", &[Library::AclRt, Library::Extension]),
        ("libhcomm.so", &[Library::Hcomm]),
        ("libhccl.so", &[Library::Hccl]),
        ("libmsprofiler.so", &[Library::MsProfiler]),
    ] {
        let mut expected: Vec<&str> = SYMBOLS
            .iter()
            .filter(|symbol| {
                // In CANN 9 both libraries have this function.
                let twice = file == "libhcomm.so" && symbol.name == c"HcclBarrier";
                homes.contains(&symbol.library) || twice
            })
            .filter_map(|symbol| symbol.name.to_str().ok())
            .filter(|name| table.address(name).is_some())
            .collect();
        if file == "libhcomm.so" {
            expected.extend(UNDECLARED.iter().flat_map(|list| list.names));
        }
        expected.sort_unstable();
        assert!(!expected.is_empty());
        assert_eq!(exported(file), expected, "{file}");
    }
}

#[test]
fn the_library_of_kernels_holds_the_primitives() {
    let header = repository().join("ascend-sys/include/hcomm/hcomm_primitives.h");
    let header = std::fs::read_to_string(header).expect("it is text");
    // A declaration begins a line, and its name ends where the arguments begin.
    let declared = header.lines().filter(|line| line.starts_with(char::is_alphabetic));
    let names = declared.filter_map(|line| line.split_once('(')?.0.rsplit(' ').next());
    let mut expected: Vec<&str> = names.collect();
    // Those without a published signature are there, too, except for the collective unit's.
    let others = UNDECLARED.iter().filter(|it| it.result != HcclResult::HCCL_E_UNAVAIL);
    expected.extend(others.flat_map(|list| list.names));
    expected.sort_unstable();
    assert!(expected.contains(&"HcommLocalCopyOnThread") && expected.len() > 30, "{expected:?}");
    assert_eq!(exported("libccl_kernel.so"), expected);
}

#[test]
fn a_shared_library_that_embeds_the_emulator_exports_no_symbol_of_cann() {
    let exported = exported("libascend_emulator_core.so");
    assert!(exported.iter().any(|name| name == "ascend_emulator_table"), "{exported:?}");
    for symbol in SYMBOLS {
        assert!(
            !exported.iter().any(|name| name.as_bytes() == symbol.name.to_bytes()),
            "{symbol:?}"
        );
    }
}

/// Returns the names that a library in the installed directory exports, sorted.
fn exported(file: &str) -> Vec<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(installed_emulator().join(file))
        .output()
        .expect("nm is part of the binutils that the linker is in");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split(' ').next()).map(String::from).collect();
    names.sort_unstable();
    names
}

/// Returns the headers below a directory, by their path, with their texts.
fn headers(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory is there") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are ASCII");
        if path.is_dir() {
            found.extend(
                headers(&path).into_iter().map(|(it, text)| (format!("{name}/{it}"), text)),
            );
        } else if name.ends_with(".h") {
            found.push((name.to_owned(), std::fs::read_to_string(&path).expect("it is text")));
        }
    }
    found.sort_unstable();
    found
}
