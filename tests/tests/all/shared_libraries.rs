//! The emulator as shared libraries with CANN's names: C programs run on it, each library holds the symbols
//! that CANN's holds, and a Rust program that merely links the emulator exports none of them.

use std::process::Command;

use ascend_sys::{Library, SYMBOLS};
use hccl_tests::{compile_c, compile_cpp, has_cpp, installed_emulator};

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

#[test]
fn each_library_holds_its_own_symbols_and_no_others() {
    let table = ascend_emulator::table();
    // The libraries of a CANN release, and the functions that each is asked for.
    for (file, homes) in [
        ("libacl_rt.so", &[Library::AclRt, Library::Extension][..]),
        ("libascendcl.so", &[Library::AclRt, Library::Extension]),
        ("libhcomm.so", &[Library::Hcomm]),
        ("libhccl.so", &[Library::Hccl]),
    ] {
        let mut expected: Vec<&str> = SYMBOLS
            .iter()
            .filter(|symbol| {
                // CANN 9 has this one in both.
                let twice = file == "libhcomm.so" && symbol.name == c"HcclBarrier";
                homes.contains(&symbol.library) || twice
            })
            .filter_map(|symbol| symbol.name.to_str().ok())
            .filter(|name| table.address(name).is_some())
            .collect();
        expected.sort_unstable();
        assert!(!expected.is_empty());
        assert_eq!(exported(file), expected, "{file}");
    }
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

/// The names that a library in the installed directory defines for others, sorted.
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
