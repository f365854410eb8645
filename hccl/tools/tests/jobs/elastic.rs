//! Jobs that continue when ranks are gone.

use super::{Job, hcclrun};

/// Runs four ranks, kills some of them, and returns the output of those that reached the end.
fn run(options: &[&str], victims: &str, at_end: u32) -> Vec<String> {
    let mut all = vec!["-n", "4", "--elastic", "--no-label"];
    all.extend(options);
    let mut command = hcclrun(&all, "elastic");
    command.env("HCCL_TEST_VICTIMS", victims).env("HCCL_TEST_RANKS_AT_END", at_end.to_string());
    let job = Job::of(&mut command).succeeds();
    let mut lines: Vec<String> =
        job.out.lines().filter(|line| line.starts_with("rank ")).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_ranks_that_are_left_go_on() {
    for victim in 0..4 {
        let lines = run(&[], &format!("{victim}@7"), 3);
        let left = (0..4).filter(|rank| *rank != victim);
        let expected: Vec<String> = left
            .enumerate()
            .map(|(index, rank)| {
                format!("rank {index} of 3 in generation 2, started as {rank}, old")
            })
            .collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn ranks_that_are_killed_one_after_the_other_leave_one() {
    let lines = run(&[], "0@3,2@9,1@20", 1);
    assert_eq!(lines, ["rank 0 of 1 in generation 4, started as 3, old"]);
}

#[test]
fn a_rank_that_was_killed_comes_again_and_the_job_grows() {
    for victim in [0, 3] {
        let lines = run(&["--restarts", "1"], &format!("{victim}@7"), 4);
        assert_eq!(lines.len(), 4, "{lines:?}");
        let new: Vec<&String> = lines.iter().filter(|line| line.ends_with("new")).collect();
        assert_eq!(new.len(), 1, "{lines:?}");
        assert!(new[0].contains(&format!("started as {victim}, new")), "{lines:?}");
        assert!(new[0].starts_with("rank 3 of 4"), "newcomers follow: {lines:?}");
    }
}

#[test]
fn a_restart_that_is_due_after_the_end_of_the_job_does_not_take_place() {
    let mut command = hcclrun(
        &["-n", "3", "--elastic", "--no-label", "--restarts", "1", "--restart-delay", "2"],
        "elastic",
    );
    command.env("HCCL_TEST_VICTIMS", "1@7").env("HCCL_TEST_RANKS_AT_END", "2");
    let job = Job::of(&mut command).succeeds();
    let said = "hcclrun: rank 1 is not started again: the other ranks are done";
    assert!(job.err.contains(said), "{}", job.err);
    assert!(!job.err.contains("rank 1 is started again"), "{}", job.err);
}
