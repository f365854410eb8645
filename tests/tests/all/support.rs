//! The book lists exactly the functions that `hccl` calls, and rustdoc has a page for each builder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ascend_sys::{Library, SYMBOLS};
use hccl_tests::repository;

/// Collects each word of the text that is the name of a CANN function.
fn functions(text: &str, found: &mut BTreeSet<&'static str>) {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words {
        let symbol = SYMBOLS.iter().find(|it| it.name.to_bytes() == word.as_bytes());
        if let Some(symbol) = symbol.filter(|it| it.library != Library::Extension) {
            found.insert(symbol.name.to_str().expect("names are ASCII"));
        }
    }
}

/// Collects the C functions that the sources of a directory call: `call!(table, F, ..)`,
/// `tell!(table, F, ..)` or `functions().F`.
fn called(directory: &Path, found: &mut BTreeSet<&'static str>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name == "tests" || name == "tests.rs") {
            continue;
        }
        if path.is_dir() {
            called(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source is text");
        for start in ["call!(", "tell!(", "functions()", "self.functions."] {
            for (at, _) in text.match_indices(start) {
                // The end of the statement is the end of the call.
                let rest = &text[at..];
                functions(&rest[..rest.find([';', '?', '{']).unwrap_or(rest.len())], found);
            }
        }
    }
}

#[test]
fn the_book_lists_the_functions_behind_the_calls() {
    let mut calls = BTreeSet::new();
    called(&repository().join("hccl/src"), &mut calls);
    assert!(calls.len() > 30, "the calls have gone missing: {calls:?}");

    let book = repository().join("docs/src/reference/support.md");
    let book = fs::read_to_string(book).expect("the book is there");
    let (_, table) = book.split_once("## CANN functions behind the calls").expect("the table");
    let table = table.split_once("\n## ").map_or(table, |(table, _)| table);
    let mut listed = BTreeSet::new();
    functions(table, &mut listed);
    assert_eq!(listed, calls);
}

/// Names the types of all builders. A type that has no public name has no page.
#[test]
fn builders_are_types_that_can_be_named() {
    use hccl::comm::{CommConfig, CommConfigBuilder, CommunicatorBuilder, Retry, RetryBuilder};
    use hccl::kernel::tiling::{
        Mc2CcTilingConfig, Mc2CcTilingConfigBuilder, Mc2InitTilingConfig,
        Mc2InitTilingConfigBuilder,
    };
    let _: hccl::runtime::EmulatorOptionsBuilder = hccl::Runtime::emulator_builder();
    let _: CommunicatorBuilder<'_> = hccl::Communicator::builder();
    let _: CommConfigBuilder = CommConfig::builder();
    let _: RetryBuilder = Retry::builder();
    let _: Mc2InitTilingConfigBuilder = Mc2InitTilingConfig::builder();
    let _: Mc2CcTilingConfigBuilder = Mc2CcTilingConfig::builder();
}

/// Collects the environment variables in the sources: literals that consist of a name only.
fn variables(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            variables(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for literal in text.split('"') {
            let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            let is_ours = ["HCCL_", "ASCEND_"].iter().any(|start| literal.starts_with(start));
            // These are results, and variables by which tests start themselves again.
            let mut others = ["HCCL_E_", "HCCL_SUCCESS", "HCCL_TEST_"].iter();
            if is_ours
                && literal.bytes().all(is_name)
                && !others.any(|start| literal.starts_with(start))
            {
                found.insert(literal.to_owned());
            }
        }
    }
}

#[test]
fn the_book_lists_every_variable_that_is_read() {
    let mut read = BTreeSet::new();
    for sources in ["ascend-sys/src", "ascend-sys/emulator/src", "hccl"] {
        variables(&repository().join(sources), &mut read);
    }
    assert!(read.len() > 15, "the variables have gone missing: {read:?}");
    let book = repository().join("docs/src/reference/environment.md");
    let book = fs::read_to_string(book).expect("the book is there");
    let missing: Vec<_> = read.iter().filter(|name| !book.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "environment.md does not list {missing:?}");
}
