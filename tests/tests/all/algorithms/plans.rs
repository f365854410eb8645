//! The resources that the algorithms take of each rank: threads, notifies, channels.

use hccl::operator::{Engine, Plan};

use crate::algorithms::catalogue::{Case, catalogue, even};

/// Returns the plans of all ranks, for all algorithms whose name begins with `algorithm`.
fn plans_of(algorithm: &str, ranks: u32) -> Vec<(Case, Vec<Plan>)> {
    let cases = catalogue(ranks, 0, even(ranks)).into_iter();
    let cases = cases.filter(|case| case.algorithm.starts_with(algorithm));
    let plans = cases.map(|case| {
        let plans = case.operator.record::<f32>(ranks, even(ranks)).unwrap().plans(Engine::AicpuTs);
        (case, plans)
    });
    plans.collect()
}

const SYMMETRIC: [&str; 4] = ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"];

/// Compares the plans with a table in CANN's documentation, whose "Notify" is two for each channel.
#[test]
fn a_ring_and_a_mesh_of_four_take_what_the_documentation_says() {
    for (algorithm, expected) in [("ring", (2, 4, 2)), ("mesh", (3, 6, 3))] {
        for (case, plans) in plans_of(algorithm, 4) {
            for plan in plans.iter().filter(|_| SYMMETRIC.contains(&case.collective)) {
                let found = (plan.threads, plan.channel_notifies(), plan.channels.len());
                assert_eq!(found, expected, "{algorithm} {}", case.collective);
            }
        }
    }
}

#[test]
fn a_ring_takes_a_thread_and_a_channel_for_each_neighbour() {
    for ranks in 1..=17 {
        let neighbours = (ranks - 1).min(2);
        for (case, plans) in plans_of("ring", ranks) {
            for plan in plans {
                assert_eq!(plan.channels.len() as u32, neighbours, "{}", case.collective);
                assert_eq!(plan.channel_notifies(), 2 * u64::from(neighbours));
                if SYMMETRIC.contains(&case.collective) {
                    assert_eq!(plan.threads, neighbours.max(1));
                    // One notify starts the other thread, and one ends it.
                    assert_eq!(plan.thread_notifies(), 2 * u64::from(plan.threads - 1));
                }
                assert!(plan.threads <= neighbours.max(1));
            }
        }
    }
}

#[test]
fn a_mesh_takes_a_thread_and_a_channel_for_each_peer() {
    for ranks in 1..=17 {
        let peers = ranks - 1;
        for (case, plans) in plans_of("mesh", ranks) {
            let all = SYMMETRIC.contains(&case.collective);
            // If the ranks are not equal, the root has the most.
            for plan in plans.iter().take(if all { plans.len() } else { 1 }) {
                assert_eq!(plan.threads, peers.max(1), "{}", case.collective);
                assert_eq!(plan.channels.len() as u32, peers);
                assert_eq!(plan.channel_notifies(), 2 * u64::from(peers));
                assert_eq!(plan.main_notifies, peers.saturating_sub(1));
                assert!(plan.sub_notifies.iter().all(|notifies| *notifies == 1));
                assert_eq!(plan.control_notifies, 2);
            }
        }
    }
}

#[test]
fn a_leaf_of_a_star_takes_one_channel() {
    for ranks in 2..=17 {
        for (_, plans) in plans_of("star", ranks) {
            assert_eq!(
                (plans[0].threads, plans[0].channels.len()),
                (ranks - 1, ranks as usize - 1)
            );
            for leaf in &plans[1..] {
                assert_eq!((leaf.threads, &leaf.channels[..]), (1, &[(0, 2)][..]));
            }
        }
    }
}

#[test]
fn nhr_and_nb_take_one_thread_and_channels_to_those_at_powers_of_two() {
    for ranks in 1..=17_u32 {
        for algorithm in ["NHR", "NB"] {
            for (case, plans) in plans_of(algorithm, ranks) {
                for (rank, plan) in (0..).zip(plans) {
                    assert_eq!(
                        (plan.threads, plan.thread_notifies()),
                        (1, 0),
                        "{}",
                        case.collective
                    );
                    assert!(plan.channels.len() as u32 <= 2 * ranks.next_power_of_two().ilog2());
                    for (peer, notifies) in plan.channels {
                        let distance = (rank + ranks - peer) % ranks;
                        let at_a_power =
                            [distance, ranks - distance].iter().any(|d| d.is_power_of_two());
                        assert!(
                            at_a_power && notifies == 2,
                            "rank {rank} to rank {peer} of {ranks}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn halving_and_doubling_and_pairwise_exchange_take_one_thread() {
    for ranks in 1..=17_u32 {
        for (_, plans) in plans_of("halving-doubling", ranks) {
            // The channels lead to a peer in each step, and to the rank that folds into this one.
            let most = ranks.ilog2().max(ranks.next_power_of_two().ilog2()) as usize + 1;
            assert!(plans.iter().all(|plan| plan.threads == 1 && plan.channels.len() <= 2 * most));
        }
        for (_, plans) in plans_of("pairwise", ranks) {
            let peers = ranks as usize - 1;
            assert!(plans.iter().all(|plan| plan.threads == 1 && plan.channels.len() == peers));
        }
    }
}

#[test]
fn a_pipeline_takes_a_thread_a_card() {
    for ranks in 1..=17_u32 {
        let cards = (1..=ranks).filter(|cards| ranks.is_multiple_of(*cards));
        for (cards, three) in cards.zip(plans_of("pipeline", ranks).chunks(3)) {
            for plan in three.iter().flat_map(|(_, plans)| plans) {
                let servers = ranks / cards;
                assert_eq!(plan.threads, cards);
                assert_eq!(plan.channels.len() as u32, cards - 1 + (servers - 1).min(2));
            }
        }
    }
}

#[test]
fn a_hierarchical_all_to_all_takes_channels_to_its_group_and_to_one_rank_of_each_other() {
    for ranks in 1..=17 {
        for (case, plans) in plans_of("hierarchical", ranks) {
            let sizes: Vec<usize> =
                case.division.split('+').map(|size| size.parse().unwrap()).collect();
            if case.collective != "all-to-all" || sizes.iter().any(|size| *size != sizes[0]) {
                continue;
            }
            for plan in plans {
                assert_eq!((plan.threads, plan.thread_notifies()), (1, 0));
                assert_eq!(plan.channels.len(), sizes[0] - 1 + sizes.len() - 1);
            }
        }
    }
}
