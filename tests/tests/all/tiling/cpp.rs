//! A C++ compiler sees the same struct, in both forms of the header, and values go in both
//! directions.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hccl::kernel::tiling::{Field, Item, Layout, Role};
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, TCubeTiling, Tiling};
use hccl_tests::{has_cpp, named, repository};

use crate::tiling::structs::{AllToAll, Everything, Fused, Older, Sample};

#[test]
fn cpp_reads_what_rust_writes_and_the_reverse() {
    if has_cpp() {
        both_ways::<AllToAll>(512);
        both_ways::<Everything>(512);
        both_ways::<Fused>(512);
        both_ways::<Older>(280);
    }
}

#[test]
fn the_older_form_lays_out_the_same() {
    if has_cpp() {
        older_form::<AllToAll>();
        older_form::<Plain>();
    }
}

#[test]
fn a_cann_with_another_size_does_not_compile() {
    if has_cpp() {
        for (layout, bytes) in [(AllToAll::LAYOUT, 280), (Older::LAYOUT, 512)] {
            let source = write("another", &layout.header(), "int main() {}\n");
            let output = compiler(bytes).arg("-fsyntax-only").arg(source).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "it compiles with {bytes}");
            assert!(text.contains("this release of CANN has another Mc2CcTiling"), "{text}");
        }
    }
}

/// A struct with the types that the macros of the older form have.
#[derive(Tiling)]
#[repr(C)]
#[allow(dead_code, reason = "the layout is what is tested")]
struct Plain {
    init: Mc2InitTiling,
    member: Mc2CcTiling,
    product: TCubeTiling,
    small: i8,
    _pad: [u8; 1],
    half_float: hccl::f16,
    single: f32,
    inner: Inner,
    matrix: [[i16; 3]; 4],
    large: u64,
}

/// A struct that is a part of `Plain`.
#[derive(Tiling)]
#[repr(C)]
#[allow(dead_code, reason = "the layout is what is tested")]
struct Inner {
    x: u32,
    y: u32,
}

fn both_ways<T: Sample>(cc_bytes: usize) {
    let layout = T::LAYOUT;
    let name = format!("both_{}", layout.name);
    let mut random = fastrand::Rng::with_seed(7);
    let mut ours = T::zeroed();
    ours.fill();
    ours.set(|| random.u64(..));
    let (input, output) = (temporary(&format!("{name}.in")), temporary(&format!("{name}.out")));
    fs::write(&input, ours.as_bytes()).unwrap();

    // C++ is to write these values: the same struct with other values.
    let mut theirs = T::zeroed();
    theirs.fill();
    theirs.set(|| random.u64(..));
    let source = write(&name, &layout.header(), &main_of::<T>(&theirs.bits()));
    let printed = run(&source, cc_bytes, &[&input, &output]);
    let mut expected = String::new();
    offsets(&mut expected, layout);
    for bits in ours.bits() {
        let _ = writeln!(expected, "{bits}");
    }
    assert_eq!(printed, expected, "{name}");

    let written = fs::read(&output).unwrap();
    assert_eq!(written, theirs.as_bytes(), "{name}");
    assert_eq!(T::from_bytes(&written).unwrap().bits(), theirs.bits(), "{name}");
}

/// Writes the expected first output of the program: the size of each struct and the offsets of its
/// fields.
fn offsets(text: &mut String, layout: &Layout) {
    for part in readable(layout) {
        let _ = writeln!(text, "{} {}", part.path(), part.size);
        for field in part.fields() {
            let _ = writeln!(text, "{} {} {}", field.name, field.offset, field.size());
        }
    }
}

/// Returns a struct with all structs in it whose fields C++ can name. Some occur more than once.
fn readable(layout: &Layout) -> Vec<&Layout> {
    let mut parts = vec![layout];
    for field in layout.fields() {
        if let Item::Struct(inner) = &field.item
            && matches!(inner.role, Role::User | Role::CubeTiling)
        {
            parts.extend(readable(inner));
        }
    }
    parts
}

/// Returns a main function that prints the offsets, reads a struct from a file, prints some values,
/// sets them, and writes the struct to another file.
fn main_of<T: Sample>(bits: &[u64]) -> String {
    let mut main = String::from(
        "#include <cstdio>\n#include <cstring>\n\
         template <typename T> unsigned long long bits(const T &value)\n\
         {\n    unsigned long long bits = 0;\n    std::memcpy(&bits, &value, sizeof value);\n    return bits;\n}\n\
         template <typename T> void set(T &value, unsigned long long bits)\n\
         {\n    std::memcpy(&value, &bits, sizeof value);\n}\n\
         int main(int, char **argv)\n{\n",
    );
    for part in readable(T::LAYOUT) {
        let path = part.path();
        let _ = writeln!(main, "    std::printf(\"{path} %zu\\n\", sizeof(::{path}));");
        for Field { name, .. } in part.fields() {
            let offset = format!("offsetof(::{path}, {name})");
            let size = format!("sizeof(static_cast<::{path} *>(nullptr)->{name})");
            let _ = writeln!(main, "    std::printf(\"{name} %zu %zu\\n\", {offset}, {size});");
        }
    }
    let path = T::LAYOUT.path();
    let _ = writeln!(main, "    ::{path} it;");
    main += "    std::FILE *in = std::fopen(argv[1], \"rb\");\n";
    main += "    if (!in || std::fread(&it, sizeof it, 1, in) != 1 || std::fclose(in)) return 1;\n";
    for leaf in T::LEAVES {
        let _ = writeln!(main, "    std::printf(\"%llu\\n\", bits(it.{leaf}));");
    }
    for (leaf, bits) in T::LEAVES.iter().zip(bits) {
        let _ = writeln!(main, "    set(it.{leaf}, {bits}ull);");
    }
    main += "    std::FILE *out = std::fopen(argv[2], \"wb\");\n";
    main += "    return !out || std::fwrite(&it, sizeof it, 1, out) != 1 || std::fclose(out);\n}\n";
    main
}

/// Compares the layout with that of the macros.
fn older_form<T: Tiling>() {
    let layout = T::LAYOUT;
    let header = layout.macro_header("TestOperator").unwrap();
    let mut main = String::from("#include <cstdio>\nint main()\n{\n");
    main += "    optiling::RegisteredTestOperator operator_;\n";
    main += "    std::printf(\"%zu\\n\", operator_.data.GetDataSize());\n";
    let mut expected = format!("{}\n", layout.size);
    for Field { name, offset, .. } in layout.fields() {
        let _ = writeln!(main, "    std::printf(\"{name} %zu\\n\", operator_.data.offset_{name});");
        let _ = writeln!(expected, "{name} {offset}");
    }
    main += "}\n";
    let source = write(&format!("older_{}", layout.name), &header, &main);
    assert_eq!(run(&source, 512, &[]), expected);
}

fn compiler(cc_bytes: usize) -> Command {
    let mut command = named("CXX", "c++");
    command.args(["-xc++", "-std=c++14", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.arg(format!("-DCC_TILING_BYTES={cc_bytes}"));
    command.arg("-I").arg(repository().join("tests/c/tiling"));
    command
}

/// Writes a program that includes a header twice, to test its guard.
fn write(name: &str, header: &str, main: &str) -> PathBuf {
    let file = temporary(&format!("{name}.h"));
    fs::write(&file, header).unwrap();
    let source = file.with_extension("cpp");
    fs::write(&source, format!("#include {file:?}\n#include {file:?}\n{main}")).unwrap();
    source
}

/// Compiles and runs a program, and returns its output.
fn run(source: &Path, cc_bytes: usize, arguments: &[&Path]) -> String {
    let program = source.with_extension("program");
    succeed(compiler(cc_bytes).arg(source).arg("-o").arg(&program));
    succeed(Command::new(program).args(arguments))
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tiling_{name}"))
}
