//! Jobs in which a rank fails: the rank that is named, and the errors of the others.

use std::process::Command;

use super::{Job, hcclrun};

fn with_victim(part: &str, victim: u32) -> Job {
    Job::of(hcclrun(&["-n", "3"], part).env("HCCL_TEST_VICTIM", victim.to_string()))
}

fn others_are_told(job: &Job, victim: u32) {
    for other in (0..3).filter(|rank| *rank != victim) {
        // Another rank may have noticed the failure earlier and have left, too.
        let told = format!("[{other}] rank {other}: RankGone [");
        let line = job.out.lines().find(|line| line.contains(&told));
        let line = line.unwrap_or_else(|| panic!("{told}\n{}\n{}", job.out, job.err));
        assert!(line.contains(&victim.to_string()), "{line}");
    }
}

#[test]
fn the_rank_that_returns_an_error_is_the_first() {
    for victim in 0..3 {
        let job = with_victim("fails", victim);
        others_are_told(&job, victim);
        assert_eq!(job.status, Some(1));
        job.says(&[
            &format!("hcclrun: rank {victim} failed first (process "),
            "exit status 1\nhcclrun:     an error of its own\n",
            "since another rank was gone",
        ]);
    }
}

#[test]
fn the_rank_that_panics_is_the_first() {
    let job = with_victim("panics", 1);
    others_are_told(&job, 1);
    job.says(&["hcclrun: rank 1 failed first", "hcclrun:     panicked: a panic of rank 1\n"]);
}

#[test]
fn the_rank_that_panics_by_itself_is_the_first() {
    for victim in 0..3 {
        let job = with_victim("panics by itself", victim);
        others_are_told(&job, victim);
        job.says(&[
            &format!("hcclrun: rank {victim} failed first"),
            "hcclrun:     a thread of the rank has panicked\n",
        ]);
    }
}

#[test]
fn the_rank_that_is_killed_is_the_first() {
    for victim in 0..3 {
        let job = with_victim("is killed", victim);
        others_are_told(&job, victim);
        assert_eq!(job.status, Some(137));
        job.says(&[&format!("rank {victim} failed first"), "killed by signal 9 (SIGKILL)"]);
    }
}

#[test]
fn ranks_that_end_before_they_meet_hold_nobody_up() {
    let job = Job::of(
        hcclrun(&["-n", "3"], "only some").env("HCCL_TEST_ABSENT", "1").env("HCCL_TEST_STAYS", "0"),
    );
    assert_eq!(job.status, Some(1));
    job.says(&["RankGone [] [1]", "rank 1 is gone (its process ", "has ended: succeeded"]);
}

#[test]
fn a_deadline_lists_the_ranks_that_have_not_come() {
    let job = Job::of(
        hcclrun(&["-n", "4", "--grace", "5"], "only some")
            .env("HCCL_TEST_ABSENT", "1,3")
            .env("HCCL_TEST_STAYS", "20000")
            .env("HCCL_CONNECT_TIMEOUT", "5"),
    );
    job.says(&["Timeout [1, 3] []", "ranks 1, 3 have not come; check that they have started"]);
}

#[test]
fn the_error_that_main_returns_is_told_with_all_its_lines() {
    let script = "[ $RANK = 1 ] || exec sleep 60; \
                  printf 'some line\\nError: all_reduce: failed\\n\\n  Help: look there\\n' >&2; exit 1";
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
    let job = Job::of(command.args(["-n", "2", "--grace", "5", "sh", "-c", script]));
    assert_eq!(job.status, Some(1));
    let job = job.says(&[
        "rank 1 failed first",
        "hcclrun:     Error: all_reduce: failed\nhcclrun:       Help: look there\n",
    ]);
    assert!(!job.err.contains("hcclrun:     some line"), "{}", job.err);
}

#[test]
fn the_status_is_that_of_the_first() {
    let status = |grace: &str, script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
        Job::of(command.args(["-n", "3", "--grace", grace, "sh", "-c", script]))
    };
    let job = status("20", "[ $RANK = 1 ] || exec sleep 60; echo the last line >&2; exit 42");
    assert_eq!(job.status, Some(42));
    job.says(&[
        "rank 1 failed first",
        "the last line",
        "ranks 0, 2: killed by signal 15 (SIGTERM)",
    ]);
    // A rank that ignores SIGTERM gets SIGKILL. Rank 2 fails when the other ranks ignore it.
    let dir = std::env::temp_dir().join(format!("hcclrun-traps-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let script = format!(
        "trap '' TERM; cd '{}'; touch $RANK; \
         [ $RANK = 2 ] && {{ until [ -e 0 -a -e 1 ]; do sleep 0.01; done; exit 5; }}; \
         while true; do sleep 1; done",
        dir.display()
    );
    let job = status("0.2", &script);
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(job.status, Some(5));
    job.says(&["ranks 0, 1: killed by signal 9 (SIGKILL), ended by hcclrun"]);
}
