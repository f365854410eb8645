//! The known algorithms: the checker proves each of them, each has the cost of its formula and
//! takes the resources of its plan, and each runs.
//!
//! `cargo test` takes a sample of counts and of runs; with `HCCL_TEST_FULL=1` it is the
//! whole matrix.

mod catalogue;
mod page;
mod plans;
mod run;

use catalogue::{Case, catalogue, even, with_a_matrix};
use hccl::operator::{Model, Recorded};
use hccl_tests::full;

/// Asserts that the checker has no error. It has then traced all elements to their origin.
fn is_good(recorded: &Recorded, case: &Case, what: &str) {
    let report = recorded.check();
    let (algorithm, collective) = (case.algorithm, case.collective);
    assert!(report.is_good(), "{algorithm} {collective}, {what}: {report}");
}

#[test]
fn no_algorithm_has_a_finding() {
    for ranks in 1..=17 {
        let p = ranks as usize;
        let counts = if full() || ranks <= 5 { vec![0, 1, p - 1, 2 * p + 3] } else { vec![p + 1] };
        for root in [0, ranks / 2] {
            for case in catalogue(ranks, root, even(ranks)) {
                if root > 0 && case.operator.goal().root().is_none() {
                    continue;
                }
                for &count in &counts {
                    let recorded = case.operator.record::<f32>(ranks, count).unwrap();
                    is_good(&recorded, &case, &format!("{ranks} ranks, {count} elements"));
                }
            }
        }
    }
}

#[test]
fn data_larger_than_the_buffer_goes_in_rounds() {
    for ranks in (1..=17).filter(|ranks| full() || [1, 2, 3, 5, 8].contains(ranks)) {
        for case in catalogue(ranks, ranks - 1, even(ranks)) {
            // The buffer has room for two elements of each rank and for their sums.
            let setting = case.operator.on(ranks).buffer_bytes(4 * 4 * u64::from(ranks));
            let recorded = setting.count(4 * ranks as usize + 1).record().unwrap();
            is_good(&recorded, &case, &format!("{ranks} ranks, rounds"));
        }
    }
}

#[test]
fn a_buffer_without_room_for_a_round_is_refused() {
    for case in catalogue(4, 0, even(4)) {
        let refused = case.operator.on(4).buffer_bytes(0).count(1).record().unwrap_err();
        assert!(refused.to_string().contains("set a larger communication buffer"), "{refused}");
        // A run without elements needs no buffer.
        case.operator.on(4).buffer_bytes(0).record().unwrap();
    }
}

#[test]
fn what_can_work_in_place_does() {
    for ranks in (1..=17).filter(|ranks| full() || [1, 2, 3, 5, 8].contains(ranks)) {
        for case in catalogue(ranks, ranks / 2, even(ranks)) {
            let in_place = ["all-reduce", "all-gather", "all-to-all", "broadcast", "reduce"];
            if in_place.contains(&case.collective) {
                let setting = case.operator.on(ranks).in_place().buffer_bytes(64 * 17);
                let recorded = setting.count(3 * ranks as usize + 1).record().unwrap();
                is_good(&recorded, &case, &format!("{ranks} ranks, in place"));
            }
        }
    }
}

#[test]
fn steps_and_bytes_are_those_of_the_formulas() {
    for ranks in 1..=17 {
        let count = even(ranks);
        for case in catalogue(ranks, ranks / 3, count) {
            let recorded = case.operator.record::<u8>(ranks, count).unwrap();
            let found = recorded.cost(&Model::default());
            let Case { algorithm, collective, steps, sent, .. } = case;
            let what = format!("{algorithm} {collective} on {ranks} ranks");
            assert!(steps.holds(found.steps), "{what}: {} steps, {steps:?}", found.steps);
            let most = found.bytes_sent.into_iter().max().unwrap();
            assert!(sent.holds(most), "{what}: {most} of {count} elements sent, {sent:?}");
        }
    }
}

#[test]
fn blocks_of_all_to_all_may_differ_in_length() {
    for ranks in 1..=17 {
        for (name, operator) in with_a_matrix(ranks) {
            for buffer in [1 << 20, 8 * u64::from(ranks)] {
                let recorded = operator.on(ranks).buffer_bytes(buffer).record().unwrap();
                let report = recorded.check();
                assert!(report.is_good(), "{name} on {ranks} ranks: {report}");
            }
        }
    }
}
