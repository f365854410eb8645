//! The whole text of every error that a program can get, as it is printed.
//!
//! `errors/texts.txt` has the expected texts. This test makes each of these mistakes and compares
//! the texts. After an intended change, `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test errors`
//! writes the file anew, and a person reads the difference.
//!
//! This is a test program of its own, because the texts have numbers of allocations, which continue
//! when a device is used again.

mod mistakes;

use std::fmt::Write as _;

use hccl_tests::repository;

#[test]
fn every_error_reads_as_it_is_written_down() {
    let mut found = String::new();
    for (mistake, errors) in mistakes::all() {
        let _ = writeln!(found, "## {mistake}");
        for (who, text) in errors {
            let _ = writeln!(found, "{who}\n{}", masked(&text));
        }
        found.push('\n');
    }
    // The file has no empty line at its end.
    found.pop();
    let file = repository().join("tests/tests/errors/texts.txt");
    if std::env::var_os("HCCL_TEST_BLESS").is_some() {
        std::fs::write(&file, &found).expect("the file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&file).expect("the file is in the repository");
    let sections = |text: &str| text.split("## ").map(str::to_owned).collect::<Vec<_>>();
    for (found, expected) in sections(&found).iter().zip(&sections(&expected)) {
        assert_eq!(found, expected, "\nfound:\n{found}\nexpected:\n{expected}");
    }
    assert_eq!(found.len(), expected.len(), "a mistake is missing or new");
}

/// Returns the text without the parts that differ from run to run: addresses, numbers of streams
/// and devices, and durations.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let varies = [
        "0x",
        "waited ",
        "timed out after ",
        "stream ",
        "device ",
        "not idle after ",
        "barrier #1, ",
    ];
    let next = |rest: &str| {
        let places = varies.iter().filter_map(|word| Some((rest.find(word)?, word.len())));
        places.min()
    };
    while let Some((at, length)) = next(rest) {
        let (before, after) = rest.split_at(at + length);
        let value = after.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '.');
        // A word that begins with such a letter is no number, and a single digit is the index of a
        // device in its runtime.
        let length = after.len() - value.len();
        let is_index = before.ends_with("device ") && length < 2;
        let is_number = length > 0 && !is_index && !value.starts_with(char::is_alphabetic);
        out += before;
        out += if is_number { "N" } else { "" };
        rest = if is_number { value } else { after };
    }
    out + rest
}
