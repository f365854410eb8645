//! Tests of the checker: for each rule, a kernel that breaks it and the repaired twin of that
//! kernel.

mod harness;

mod again;
mod client;
mod cube;
mod groups;
mod limits;
mod local;
mod memory;
mod operation;
mod races;
mod sync;
mod traffic;
mod types;
mod units;
mod wasted;
mod windows;

use std::collections::BTreeSet;

/// The rules in the documentation of the module are those that a test breaks.
#[test]
fn every_rule_is_documented_and_broken() {
    let source = include_str!("../../src/check/mod.rs");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let names = rows.flat_map(|row| row.split(" |").next().unwrap_or_default().split(", "));
    let documented: BTreeSet<&str> = names.map(|name| name.trim_matches('`')).collect();
    let texts = include_str!("check/texts.txt").lines();
    let heads = texts.filter(|line| {
        ["error[", "warning[", "note["].iter().any(|severity| line.starts_with(severity))
    });
    let broken = heads.filter_map(|head| head.split(['[', ']']).nth(1)).collect();
    assert_eq!(documented, broken);
}
