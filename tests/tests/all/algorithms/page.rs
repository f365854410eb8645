//! The numbers in the book are those of the recorded tasks.
//!
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all algorithms::page::` writes them anew.

use std::fmt::Write as _;

use hccl::operator::{Cost, Engine, Model};
use hccl_tests::repository;

use crate::algorithms::catalogue::{Case, catalogue, even, whole};

const PAGE: &str = "docs/src/reference/algorithms.md";
const BEGIN: &str = "<!-- from here on written by a test -->\n";
const END: &str = "<!-- until here -->\n";

/// Returns a table with a line for each algorithm and collective: numbers of four ranks, and the
/// steps of some other numbers of ranks.
fn table() -> String {
    let mut table = String::from(
        "| algorithm | collective | steps of 4, 5 and 8 ranks | sent by a rank | threads | thread notifies | channels | channel notifies |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let all = [4, 5, 8].map(|ranks| (ranks, catalogue(ranks, 0, even(ranks))));
    let in_two = |division: &str| ["", "2+2", "3+2", "4+4"].contains(&division);
    for case in all[0].1.iter().filter(|case| in_two(&case.division)) {
        let Case { algorithm, collective, .. } = *case;
        let steps = all.each_ref().map(|(ranks, cases)| {
            let same =
                |other: &&Case| (other.algorithm, other.collective) == (algorithm, collective);
            let other = cases.iter().filter(same).find(|other| in_two(&other.division));
            other.map_or("-".to_owned(), |other| cost(other, *ranks).steps.to_string())
        });
        let n = whole(collective, 4, even(4) as u64) as f64;
        let sent = cost(case, 4).bytes_sent.into_iter().max().unwrap_or_default() as f64 / n;
        let plans = case.operator.record::<u8>(4, even(4)).unwrap().plans(Engine::AicpuTs);
        let most = plans.iter().max_by_key(|plan| (plan.threads, plan.channels.len())).unwrap();
        let (threads, channels) = (most.threads, most.channels.len());
        let notifies = (most.thread_notifies(), most.channel_notifies());
        let steps = steps.join(", ");
        writeln!(
            table,
            "| {algorithm} | {collective} | {steps} | {sent} n | {threads} | {} | {channels} | {} |",
            notifies.0, notifies.1
        )
        .unwrap();
    }
    table
}

fn cost(case: &Case, ranks: u32) -> Cost {
    let recorded = case.operator.record::<u8>(ranks, even(ranks)).unwrap();
    recorded.cost(&Model::default())
}

#[test]
fn the_page_has_the_numbers_of_the_recorded_tasks() {
    let path = repository().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    if std::env::var_os("HCCL_TEST_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == expected, "{PAGE} has other numbers; HCCL_TEST_BLESS=1 writes them anew");
}
