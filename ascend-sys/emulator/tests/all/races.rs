//! Tests that checked mode finds accesses that nothing orders, and finds nothing in the repaired
//! program.
//!
//! Every race is a small program with a switch. Without the repair there must be exactly the
//! finding that explains the mistake, and with the repair no finding. The result does not depend on
//! the actual timing.

mod comms;
mod host;
mod kernels;
mod operations;
mod setup;
mod streams;

/// Checks that each row of the documentation page on checked mode has a program with that mistake
/// here.
#[test]
fn every_row_of_the_page_is_planted() {
    let page = include_str!("../../../../docs/src/how-to/checked-mode.md");
    let rows = page.split("## What is found").nth(1).unwrap().lines();
    let labels = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    let planted = [
        include_str!("races/comms.rs"),
        include_str!("races/host.rs"),
        include_str!("races/kernels.rs"),
        include_str!("races/streams.rs"),
    ];
    let missing: Vec<_> = labels
        .clone()
        .filter(|label| !planted.iter().any(|source| source.contains(&format!("\"{label}: "))))
        .collect();
    assert!(missing.is_empty() && labels.count() == 8, "{missing:?}");
}
