//! The fuzz target for rank tables.

use std::path::Path;

use crate::fabric::rank_table::RankTable;
use crate::profile::Product;

/// The words with which the error text of a rank table may begin: the table itself ("it"), and its
/// keys.
const PLACES: &[&str] = &[
    "it ",
    "version",
    "status",
    "server_count",
    "server_list",
    "super_pod_list",
    "rank_count",
    "rank_list",
];
/// The largest length of an error text in bytes.
const LONGEST_TEXT: usize = 1000;

/// Parses a text as a rank table, for each product. The result is a table, or an error whose text
/// names the place and the mistake. A table that is written and parsed again is the same table.
pub fn rank_table(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("table.json");
    for product in [Product::A2, Product::A3, Product::Ascend950] {
        match RankTable::parse(text, path, product) {
            Ok(table) => {
                let again = RankTable::parse(&table.contents, path, product);
                let again = again.unwrap_or_else(|failure| panic!("{}", failure.text));
                assert_eq!(again.contents, table.contents);
                assert!(again.ranks() == table.ranks() && table.ranks() > 0);
                assert!(table.may_join(table.ranks(), 0).is_err());
            }
            Err(failure) => says_what(&failure.text),
        }
    }
}

fn says_what(text: &str) {
    assert!(text.len() <= LONGEST_TEXT, "an error of {} bytes", text.len());
    if let Some(why) = text.strip_prefix("EI0004: the rank table table.json cannot be read: ") {
        return assert!(why.contains(" at line "), "{text}");
    }
    let (report, what) = text.split_once(": the rank table table.json: ").expect(text);
    assert!(["EI0014", "EI0017"].contains(&report), "{text}");
    assert!(PLACES.iter().any(|place| what.starts_with(place)), "{text}");
}
