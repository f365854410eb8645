//! The printed text equals the expected text.

use std::path::PathBuf;

use ascend_program::ascend_c;

/// Returns the directory of the expected texts.
pub fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/ascend_c/golden")
}

/// Compares a text with the text in a file. With `HCCL_TEST_BLESS` in the environment, the text
/// becomes the expected one.
pub fn expect(path: &str, text: &str) {
    let long = text.lines().find(|line| line.len() > 120 && !path.ends_with(".txt"));
    assert!(long.is_none(), "{path}: {long:?} is too long");
    let path = golden().join(path);
    if std::env::var_os("HCCL_TEST_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(text.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or(expected.lines().count().min(text.lines().count()));
    assert!(
        expected == text,
        "{} differs in line {}; is:\n{}\nexpected:\n{}\nIf it is better now: HCCL_TEST_BLESS=1 cargo test -p ascend-program --test all ascend_c",
        path.display(),
        line + 1,
        text.lines().nth(line).unwrap_or("(the end)"),
        expected.lines().nth(line).unwrap_or("(the end)"),
    );
}

#[test]
fn kernels_look_as_a_person_would_write_them() {
    for (name, program) in super::all() {
        expect(&format!("{name}.cpp"), &ascend_c::kernel(&program).unwrap());
    }
}
