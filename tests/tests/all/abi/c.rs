//! The declarations and layouts that C and C++ compilers see in the headers.
//!
//! The compilers are those that `CC` and `CXX` name, or else `cc` and `c++`. The C compiler links
//! every Rust program, so it exists. A machine without a C++ compiler leaves out the tests that
//! need it, and prints a note.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hccl_tests::{has_cpp, named};

use crate::abi::data::{Abi, Field, Param};

#[test]
fn c_compilers_see_the_same() {
    compile(&assertions(&Abi::load(), Language::C), Language::C);
}

#[test]
fn each_header_stands_alone_in_c() {
    compile_headers(&Abi::load(), Language::C);
}

#[test]
fn initialisers_do_what_cann_s_do_in_c() {
    run("initialisers.c", Language::C);
}

#[test]
fn cpp_compilers_see_the_same() {
    if has_cpp() {
        compile(&assertions(&Abi::load(), Language::Cpp), Language::Cpp);
    }
}

#[test]
fn each_header_stands_alone_in_cpp() {
    if has_cpp() {
        compile_headers(&Abi::load(), Language::Cpp);
    }
}

#[test]
fn initialisers_do_what_cann_s_do_in_cpp() {
    if has_cpp() {
        run("initialisers.c", Language::Cpp);
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    /// Returns a command for the compiler with options that make it strict.
    fn compiler(self) -> Command {
        let (mut command, options) = match self {
            Language::C => (named("CC", "cc"), ["-xc", "-std=c11"]),
            Language::Cpp => (named("CXX", "c++"), ["-xc++", "-std=c++14"]),
        };
        command.args(options).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../ascend-sys/include"));
        command
    }

    fn extension(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cpp",
        }
    }
}

/// Returns a program that compiles only if the headers match the data.
fn assertions(abi: &Abi, language: Language) -> String {
    let mut program = Program { language, text: "#include \"ascend_sys.h\"\n".to_owned() };
    for it in &abi.enums {
        for (name, value) in &it.values {
            program.assert(&format!("{name} == {value}"));
        }
        program.assert(&format!("sizeof({}) == 4", it.name));
        if language == Language::C {
            let relation = if it.underlying == "int" { "<" } else { ">" };
            program.assert(&format!("({})-1 {relation} 0", it.name));
        }
    }
    for it in &abi.macros {
        program.assert(&format!("{} == {}", it.name, it.value));
        program.assert(&format!("sizeof({}) == sizeof({})", it.name, it.ty));
    }
    // In C these are objects or macros, and a static assertion cannot read an object.
    for it in &abi.constants {
        program.assert(&format!("sizeof({}) == sizeof({})", it.name, it.ty));
        if language == Language::Cpp {
            program.assert(&format!("{} == {}", it.name, it.value));
        }
    }
    for it in &abi.records {
        program.assert(&format!("sizeof({}) == {}", it.name, it.size));
        program.assert(&format!("_Alignof({}) == {}", it.name, it.align));
        program.fields(&it.name, "", &it.fields);
    }
    for it in &abi.typedefs {
        program.assert(&format!("sizeof({}) == {}", it.name, it.size));
        if let Some(params) = &it.params {
            let value = format!("({} (*)({}))0", it.ret, list(params, false));
            program.same(&format!("{} const check_{}", it.name, it.name), &value);
        } else {
            program
                .same(&format!("{} *const check_{}", it.name, it.name), &format!("({} *)0", it.ty));
        }
    }
    for it in &abi.functions {
        let params = list(&it.params, it.variadic);
        program.same(&format!("{} (*const check_{})({params})", it.ret, it.name), &it.name);
    }
    program.text
}

fn list(params: &[Param], variadic: bool) -> String {
    let mut types: Vec<_> = params.iter().map(|(ty, _)| ty.as_str()).collect();
    if variadic {
        types.push("...");
    }
    if types.is_empty() { "void".to_owned() } else { types.join(", ") }
}

struct Program {
    language: Language,
    text: String,
}

impl Program {
    fn assert(&mut self, condition: &str) {
        let (keyword, condition) = match self.language {
            Language::C => ("_Static_assert", condition.to_owned()),
            Language::Cpp => ("static_assert", condition.replace("_Alignof", "alignof")),
        };
        writeln!(self.text, "{keyword}({condition}, \"{condition}\");").expect("a string grows");
    }

    /// Adds a check that two types are the same: one initialises the other without a warning.
    fn same(&mut self, declaration: &str, value: &str) {
        writeln!(self.text, "static {declaration} __attribute__((unused)) = {value};")
            .expect("a string grows");
    }

    fn fields(&mut self, record: &str, prefix: &str, fields: &[Field]) {
        for field in fields {
            let name = field.name.as_deref().map(|name| format!("{prefix}{name}"));
            if let Some(name) = &name {
                self.assert(&format!("offsetof({record}, {name}) == {}", field.offset));
                self.assert(&format!("sizeof((({record} *)0)->{name}) == {}", field.size));
            }
            if let Some(inner) = &field.fields {
                let prefix = name.map_or(prefix.to_owned(), |name| format!("{name}."));
                self.fields(record, &prefix, inner);
            }
        }
    }
}

/// Compiles a program without linking it.
fn compile(program: &str, language: Language) {
    let path = temporary(&format!("abi.{}", language.extension()));
    std::fs::write(&path, program).expect("the directory for tests can be written");
    // The data names functions that CANN has deprecated, and these programs use them on purpose.
    run_command(
        language.compiler().args(["-Wno-deprecated-declarations", "-fsyntax-only"]).arg(&path),
    );
}

/// Compiles each header by itself, by the path that users write.
fn compile_headers(abi: &Abi, language: Language) {
    let mut headers: Vec<_> = abi
        .functions
        .iter()
        .map(|it| &it.header)
        .chain(abi.records.iter().map(|it| &it.header))
        .chain(abi.enums.iter().map(|it| &it.header))
        .map(String::as_str)
        .chain(["acl/acl.h", "acl/acl_base.h", "hcomm/hcomm_res_defs.h", "ascend/ascend_ext.h"])
        .chain(["hccl/hcomm_primitives.h", "hccl/hcomm_res_defs.h", "hccl/hcomm_channel.h"])
        .chain(["acl/error_codes/rt_error_codes.h", "acl/error_codes/ge_error_codes.h"])
        .chain(["hccl/hcomm_team_defs.h", "hccl/hccl_ex.h", "hccl/hccl_res_expt.h"])
        .collect();
    headers.sort_unstable();
    headers.dedup();
    for header in headers {
        // Each header is included twice, to test its guard.
        let name = format!("header-{}.{}", header.replace('/', "-"), language.extension());
        let path = temporary(&name);
        let text = format!("#include <{header}>\n#include \"{header}\"\n");
        std::fs::write(&path, text).expect("the directory for tests can be written");
        run_command(language.compiler().arg("-fsyntax-only").arg(&path));
    }
}

/// Compiles and runs a program of `data/`, which exits with the line of the check that fails.
fn run(file: &str, language: Language) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
    let program = temporary(&format!("{file}.{}", language.extension()));
    run_command(language.compiler().arg(source).arg("-o").arg(&program));
    run_command(&mut Command::new(program));
}

/// Compiles and runs a program, and returns its output.
pub fn output(program: &str, name: &str, language: Language) -> String {
    let source = temporary(&format!("{name}.{}", language.extension()));
    std::fs::write(&source, program).expect("the directory for tests can be written");
    let program = source.with_extension("out");
    run_command(language.compiler().arg(&source).arg("-o").arg(&program));
    run_command(&mut Command::new(program))
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a command that has to succeed, and returns its output.
fn run_command(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
