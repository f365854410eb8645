//! The page of the book lists which functions work on the emulator.
//!
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all abi::page::` writes it anew.

use std::fmt::Write as _;

use ascend_emulator::{UNDECLARED, UNSUPPORTED};
use ascend_sys::{HcclResult, Library, SYMBOLS, Symbol};
use hccl_tests::repository;

const PAGE: &str = "docs/src/reference/functions.md";
const BEGIN: &str = "<!-- from here on written by a test -->\n";
const END: &str = "<!-- until here -->\n";

/// The parts of the page, each with its libraries.
const PARTS: [(&str, &[Library]); 3] = [
    ("The runtime: `libacl_rt.so`, `libascendcl.so`", &[Library::AclRt, Library::None]),
    ("Profiling: `libmsprofiler.so`", &[Library::MsProfiler]),
    ("Communication: `libhccl.so`, `libhcomm.so`", &[Library::Hccl, Library::Hcomm]),
];

/// Returns the result of a call on the emulator, which is the title of a row.
fn answer(symbol: &Symbol) -> &'static str {
    let name = symbol.name.to_str().expect("names are ASCII");
    if symbol.library == Library::None {
        "no library has it"
    } else if UNSUPPORTED.iter().any(|function| function.name == name) {
        "not supported"
    } else {
        "works"
    }
}

/// Returns a table for each area, in the order of the headers.
fn tables() -> String {
    let mut text = String::new();
    for (part, libraries) in PARTS {
        let symbols: Vec<_> = SYMBOLS.iter().filter(|it| libraries.contains(&it.library)).collect();
        let count = |row| symbols.iter().filter(|it| answer(it) == row).count();
        let (works, not) = (count("works"), count("not supported"));
        write!(text, "## {part}\n\n{works} work, {not} are not supported.\n\n").expect("it grows");
        let mut areas: Vec<&str> = Vec::new();
        for symbol in &symbols {
            if !areas.contains(&symbol.area) {
                areas.push(symbol.area);
            }
        }
        for area in areas {
            write!(text, "### {area}\n\n| | |\n| --- | --- |\n").expect("it grows");
            for row in ["works", "not supported", "no library has it"] {
                let names: Vec<String> = symbols
                    .iter()
                    .filter(|it| it.area == area && answer(it) == row)
                    .map(|it| format!("`{}`", it.name.to_str().expect("names are ASCII")))
                    .collect();
                if !names.is_empty() {
                    writeln!(text, "| {row} | {} |", names.join(", ")).expect("it grows");
                }
            }
            text.push('\n');
        }
    }
    text += "## Without a published signature: `libhcomm.so`\n\n| CANN's header | answer | |\n\
             | --- | --- | --- |\n";
    for list in UNDECLARED {
        let answer = match list.result {
            HcclResult::HCCL_SUCCESS => "0, and does nothing",
            HcclResult::HCCL_E_NOT_SUPPORT => "5, not supported",
            HcclResult::HCCL_E_UNAVAIL => "7, unavailable",
            other => panic!("the page has no words for {other:?}"),
        };
        let names: Vec<String> = list.names.iter().map(|name| format!("`{name}`")).collect();
        let (header, names) = (list.header, names.join(", "));
        writeln!(text, "| `{header}` | {answer} | {names} |").expect("it grows");
    }
    text.push('\n');
    text
}

#[test]
fn the_page_says_of_each_function_whether_it_works() {
    let path = repository().join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("a beginning");
    let (_, after) = rest.split_once(END).expect("an end");
    let expected = format!("{before}{BEGIN}\n{}{END}{after}", tables());
    if std::env::var_os("HCCL_TEST_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).expect("the page is there");
    assert!(page == expected, "{PAGE} is out of date; HCCL_TEST_BLESS=1 writes it anew");
}
