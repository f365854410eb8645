//! Loading libraries, tried with small ones that the machine's C compiler makes.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ascend_sys::{Api, Library, LoadError, SYMBOLS};

/// A directory for the libraries of one test, empty at first.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi-load").join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).expect("the directory for tests can be written");
        }
        std::fs::create_dir_all(&path).expect("the directory for tests can be written");
        Directory(path)
    }

    /// Makes a library of functions that return `value`. If `needs` is given, the library depends
    /// on that library beside it.
    fn library(&self, name: &str, functions: &[&str], value: i32, needs: Option<&str>) -> &Self {
        let path = self.0.join(name);
        let source = path.with_extension("c");
        let mut text = String::new();
        for function in functions {
            writeln!(text, "int {function}(void) {{ return {value}; }}").expect("a string grows");
        }
        std::fs::write(&source, text).expect("the directory for tests can be written");
        let mut command = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        command.args(["-shared", "-fPIC", "-fno-builtin", "-o"]).arg(&path).arg(&source);
        command.arg(format!("-Wl,-soname,{name},--no-as-needed,-rpath,$ORIGIN"));
        command.args(needs.map(|needs| self.0.join(needs)));
        let output = command.output().expect("there is a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// Calls a function of a library that the test has made. Each of them is `int name(void)`.
fn call(api: &Api, name: &str) -> i32 {
    let address = api.address(name).expect("the function is there");
    // SAFETY: the made libraries define each function as `int name(void)`.
    unsafe { std::mem::transmute::<*const std::ffi::c_void, extern "C" fn() -> i32>(address)() }
}

#[test]
fn functions_come_from_their_own_library_and_else_from_the_others() {
    let directory = Directory::new("own");
    directory
        .library("libacl_rt.so", &["aclInit", "HcclBarrier"], 1, None)
        .library("libhcomm.so", &["HcclGetRankId", "HcclBarrier"], 2, None)
        .library("libhccl.so", &["HcclAllReduce", "HcclBarrier", "aclrtGetSocName"], 3, None);
    let api = Api::load_from(&directory.0).expect("all three are there");
    assert_eq!(call(&api, "aclInit"), 1);
    assert_eq!(call(&api, "HcclGetRankId"), 2);
    assert_eq!(call(&api, "HcclAllReduce"), 3);
    assert_eq!(call(&api, "HcclBarrier"), 3, "three have it, and libhccl is its own");
    assert_eq!(call(&api, "aclrtGetSocName"), 3, "only another library has it");

    let moved = api.availability("aclrtGetSocName");
    assert_eq!(moved.file.as_deref(), Some(directory.0.join("libhccl.so").as_path()));

    let error = api.require(&["aclInit", "HcclGroupStart"]).expect_err("one is missing");
    let text = error.to_string();
    assert!(text.contains("HcclGroupStart: in libhcomm.so since CANN 9.0.0"), "{text}");
    for name in ["libacl_rt.so", "libhcomm.so", "libhccl.so"] {
        assert!(text.contains(&directory.path(name)), "{text}");
    }
}

#[test]
fn the_old_name_of_the_runtime_is_taken_too() {
    let directory = Directory::new("old");
    directory
        .library("libascendcl.so", &["aclInit"], 8, None)
        .library("libhcomm.so", &[], 0, None)
        .library("libhccl.so", &[], 0, None);
    let api = Api::load_from(&directory.0).expect("all are there");
    assert_eq!(call(&api, "aclInit"), 8);
}

#[test]
fn a_library_for_profiling_may_be_missing_or_broken() {
    let directory = Directory::new("profiling");
    directory
        .library("libacl_rt.so", &["aclInit"], 1, None)
        .library("libhcomm.so", &[], 0, None)
        .library("libhccl.so", &[], 0, None);
    let api = Api::load_from(&directory.0).expect("the three that are needed are there");
    assert_eq!(api.sources().len(), 3);
    let lacking = api.availability("aclprofInit").to_string();
    assert!(lacking.starts_with("aclprofInit: in libmsprofiler.so since CANN 9.0.0"), "{lacking}");

    directory.library("libgone.so", &[], 0, None).library(
        "libmsprofiler.so",
        &["aclprofInit"],
        5,
        Some("libgone.so"),
    );
    std::fs::rename(directory.0.join("libgone.so"), directory.0.join("libaway.so"))
        .expect("it was just made");
    let api = Api::load_from(&directory.0).expect("the three that are needed are there");
    assert!(!api.availability("aclprofInit").found);

    std::fs::rename(directory.0.join("libaway.so"), directory.0.join("libgone.so"))
        .expect("it was just renamed");
    let api = Api::load_from(&directory.0).expect("all four are there");
    assert_eq!(call(&api, "aclprofInit"), 5);
}

#[test]
fn stand_ins_for_what_an_old_library_lacks_count_as_missing() {
    let directory = Directory::new("stand-in");
    directory
        .library("libacl_rt.so", &["aclInit"], 0, None)
        .library("libhcomm.so", &["HcclGetRankId"], 0, None)
        .library("libhccl_compat.so", &["HcclGetRankId", "HcclGroupStart"], -1, None)
        .library("libhccl.so", &["HcclAllReduce"], 0, Some("libhccl_compat.so"));
    let api = Api::load_from(&directory.0).expect("all are there");
    assert_eq!(call(&api, "HcclGetRankId"), 0);
    assert!(!api.availability("HcclGroupStart").found);
}

#[test]
fn a_missing_library_is_named() {
    let directory = Directory::new("missing");
    directory.library("libacl_rt.so", &["aclInit"], 0, None).library(
        "libhcomm.so",
        &["HcclGetRankId"],
        0,
        None,
    );
    let error = Api::load_from(&directory.0).expect_err("one is missing");
    assert!(!error.is_absent(), "a part of CANN is there: {error}");
    let LoadError::Library { library, attempts } = &error else { panic!("{error}") };
    assert_eq!(*library, Library::Hccl);
    assert_eq!(attempts.len(), 1);
    assert!(error.to_string().contains(&directory.path("libhccl.so: no such file")), "{error}");
    assert!(error.to_string().contains("is incomplete"), "{error}");
}

#[test]
fn a_library_that_does_not_load_is_reported_in_the_loader_s_words() {
    let directory = Directory::new("broken");
    directory.library("libgone.so", &[], 0, None).library(
        "libacl_rt.so",
        &["aclInit"],
        0,
        Some("libgone.so"),
    );
    std::fs::remove_file(directory.0.join("libgone.so")).expect("it was just made");
    let error = Api::load_from(&directory.0).expect_err("it needs what is gone");
    assert!(!error.is_absent(), "something of CANN is there: {error}");
    let text = error.to_string();
    assert!(text.contains("libgone.so: cannot open shared object file"), "{text}");
    assert!(text.contains(&directory.path("libascendcl.so: no such file")), "{text}");
}

/// Runs itself as another process, because the variables belong to the whole process.
#[test]
fn load_takes_the_first_place_that_has_a_library() {
    if std::env::var_os("ABI_LOAD_CHILD").is_some() {
        match Api::load() {
            Ok(api) => println!("value {}", call(&api, "aclInit")),
            Err(error) => println!("{error}"),
        }
        return;
    }
    let home = Directory::new("home/lib64");
    let toolkit = Directory::new("toolkit/lib64");
    for (directory, value) in [(&home, 1), (&toolkit, 2)] {
        directory
            .library("libacl_rt.so", &["aclInit"], value, None)
            .library("libhcomm.so", &[], 0, None)
            .library("libhccl.so", &[], 0, None);
    }
    let loader = Directory::new("loader");
    loader
        .library("libascendcl.so", &["aclInit"], 3, None)
        .library("libhcomm.so", &[], 0, None)
        .library("libhccl.so", &[], 0, None);
    let empty = Directory::new("empty");

    let load = |home: &Path, toolkit: &Path, path: &Path| {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["load_takes_the_first_place_that_has_a_library", "--exact", "--nocapture"])
            .env("ABI_LOAD_CHILD", "1")
            .env("ASCEND_HOME_PATH", home)
            .env("ASCEND_TOOLKIT_HOME", toolkit)
            .env("LD_LIBRARY_PATH", path)
            .output()
            .expect("the test can run itself");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let parent = |directory: &Directory| directory.0.parent().expect("it has one").to_owned();
    let (home, toolkit) = (parent(&home), parent(&toolkit));
    let nowhere = &empty.0;
    for (text, expected) in [
        (load(&home, &toolkit, &loader.0), "value 1"),
        (load(nowhere, &toolkit, &loader.0), "value 2"),
        (load(nowhere, nowhere, &loader.0), "value 3"),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = load(nowhere, nowhere, nowhere);
    for line in [
        empty.path("lib64/libacl_rt.so: no such file"),
        empty.path("lib64/libascendcl.so: no such file"),
        empty.path(&format!("{}-linux/lib64/libacl_rt.so: no such file", std::env::consts::ARCH)),
        "  libacl_rt.so: not on the loader's path".to_owned(),
        "None of these places contains CANN.".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[test]
#[ignore = "builds a program in a target directory of its own"]
fn a_linked_program_has_what_it_was_linked_with() {
    let directory = Directory::new("linked/lib64");
    release(&directory, &[]);
    let output = run_linked(&directory);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = |name: &str, library: &str| {
        let line = format!("{name}: found in {}", directory.path(library));
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    };
    found("aclInit", "libacl_rt.so");
    found("HcclGetRankId", "libhcomm.so");
    found("HcclAllReduce", "libhccl.so");
    found("HcclGroupStart", "libhccl.so");
    let missing = "HcclGroupEnd: in libhcomm.so since CANN 9.0.0; not in the libraries";
    assert!(text.contains(missing), "{text}");

    // Each function of the release is a strong reference, so the program cannot be linked if some
    // functions of each library are missing.
    let lacking = ["aclrtMemcpyAsync", "HcclGetRankSize", "HcclAllReduce"];
    let directory = Directory::new("unlinked/lib64");
    release(&directory, &lacking);
    let output = run_linked(&directory);
    assert!(!output.status.success(), "it is linked without {lacking:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    for name in lacking {
        assert!(
            text.contains(&format!("undefined reference to `{name}'"))
                || text.contains(&format!("undefined symbol: {name}")),
            "{name}: {text}"
        );
    }
}

/// Makes libraries with the functions of CANN 8.5.0 and one newer function, except those in
/// `without`.
fn release(directory: &Directory, without: &[&str]) {
    let of = |library: Library| {
        let exported = SYMBOLS.iter().filter(|it| it.library == library && it.since == "8.5.0");
        let names = exported.map(|it| it.name.to_str().expect("names are ASCII"));
        names.filter(|name| !without.contains(name)).collect::<Vec<_>>()
    };
    let mut hccl = of(Library::Hccl);
    hccl.push("HcclGroupStart");
    directory
        .library("libacl_rt.so", &of(Library::AclRt), 0, None)
        .library("libhcomm.so", &of(Library::Hcomm), 0, None)
        .library("libhccl.so", &hccl, 0, None);
}

/// Builds and runs the example `linked` with the libraries of a directory.
fn run_linked(directory: &Directory) -> Output {
    Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "ascend-sys", "--features", "linked"])
        .args(["--example", "linked", "--target-dir"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("linked-target"))
        .env("ASCEND_HOME_PATH", directory.0.parent().expect("it has one"))
        .env("LD_LIBRARY_PATH", &directory.0)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs")
}
