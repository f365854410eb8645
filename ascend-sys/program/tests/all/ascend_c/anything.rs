//! Every valid program is printed or rejected, and the printed source compiles.

use std::fmt::Write as _;

use ascend_program::{Program, ascend_c};
use fastrand::Rng;

use ascend_program_testing::compiler::{Directory, complaints};
use ascend_program_testing::random;

/// The struct from which random programs read their numbers.
const TILING: &str = "\
struct KernelTiling {
    uint64_t tileLen;
    uint64_t list[8];
    uint64_t counts[4];
    Mc2CcTiling cc;
    TCubeTiling matmul;
};
";

#[test]
fn whatever_is_printed_compiles() {
    let mut random = Rng::with_seed(4);
    let mut text = String::from(
        "#include \"kernel_operator.h\"\n#include \"lib/hccl/hccl.h\"\n#include \"lib/matmul_intf.h\"\n",
    );
    text += TILING;
    let mut printed = 0;
    while printed < 60 {
        let mut program = random::program(&mut random);
        program.name = format!("kernel{printed}");
        let Ok(source) = ascend_c::kernel(&program) else { continue };
        let source: Vec<&str> =
            source.lines().filter(|line| !line.starts_with("#include")).collect();
        let _ = writeln!(text, "namespace number{printed} {{\n{}\n}}", source.join("\n"));
        printed += 1;
    }
    let directory = Directory::new("anything");
    let source = directory.write("kernel.cpp", text);
    // The sources have no meaning, and a compiler would warn about that.
    let Some(said) = complaints(&["-w"], &source) else { return };
    assert!(said.is_empty(), "{said}");
}

#[test]
fn damaged_programs_are_printed_or_refused() {
    let mut random = Rng::with_seed(5);
    let (mut refused, mut printed) = (0, 0);
    for _ in 0..1500 {
        let mut bytes = random::program(&mut random).to_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            bytes[at] ^= 1 << random.u32(0..8);
        }
        let Ok(program) = Program::from_bytes(&bytes) else { continue };
        match ascend_c::kernel(&program) {
            Ok(_) => printed += 1,
            Err(why) => {
                assert!(!why.is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 20 && printed > 50, "{refused} refused, {printed} printed");
}
