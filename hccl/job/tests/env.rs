//! Tests the environments that real launchers set, and environments with mistakes.

use std::time::Duration;

use hccl_job::{JobEnv, JobError, Launcher, Store};

fn read(variables: &[(&str, &str)]) -> Result<Option<JobEnv>, JobError> {
    let set: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    JobEnv::from_variables(|name| {
        set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    })
}

#[track_caller]
fn reads(variables: &[(&str, &str)]) -> JobEnv {
    read(variables).unwrap().expect("there is a launcher")
}

/// Returns the rank, the number of ranks, and both numbers on this machine.
fn numbers(env: &JobEnv) -> [u32; 4] {
    [env.rank, env.world_size, env.local_rank, env.local_world_size]
}

#[track_caller]
fn refuses(variables: &[(&str, &str)], pieces: &[&str]) {
    let error = read(variables).unwrap_err().to_string();
    for piece in pieces {
        assert!(error.contains(piece), "{piece} is not in: {error}");
    }
}

/// The variables that `torchrun --nnodes 2 --nproc-per-node 2` sets on its second machine.
const TORCHRUN: &[(&str, &str)] = &[
    ("RANK", "3"),
    ("WORLD_SIZE", "4"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("MASTER_ADDR", "10.0.0.1"),
    ("MASTER_PORT", "29400"),
    ("TORCHELASTIC_RUN_ID", "a5f3"),
    ("TORCHELASTIC_USE_AGENT_STORE", "True"),
];

#[test]
fn no_variable_is_no_launcher() {
    assert_eq!(read(&[]).unwrap(), None);
    assert_eq!(read(&[("RANK", ""), ("MASTER_ADDR", "10.0.0.1")]).unwrap(), None);
    // The variables of a batch script are not those of a step.
    let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "3")];
    assert_eq!(read(&script).unwrap(), None);
}

#[test]
fn each_launcher_says_its_numbers() {
    let env = reads(TORCHRUN);
    assert_eq!((numbers(&env), env.launcher), ([3, 4, 1, 2], Launcher::Torchrun));
    // The store of torchrun's agent is at `MASTER_PORT` itself.
    assert!(format!("{env:?}").contains("10.0.0.1, ports 29401 to 29416"), "{env:?}");

    let mut without_agent = TORCHRUN.to_vec();
    without_agent[7].1 = "False";
    assert!(format!("{:?}", reads(&without_agent)).contains("10.0.0.1:29400"));

    let by_hand = [("RANK", "1"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "localhost")];
    let env = reads(&by_hand);
    assert_eq!((numbers(&env), env.launcher), ([1, 3, 1, 3], Launcher::Variables));
    assert!(format!("{env:?}").contains("localhost:29500"));

    let hcclrun = [by_hand.as_slice(), &[("HCCL_JOB_SERVED", "1"), ("HCCL_JOB_SECRET", "s3cret")]];
    let env = reads(&hcclrun.concat());
    assert_eq!(env.launcher, Launcher::Hcclrun);
    assert!(!format!("{env:?}").contains("s3cret"), "secrets are not printed");

    let open_mpi = [
        ("OMPI_COMM_WORLD_RANK", "2"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("PMIX_NAMESPACE", "prterun-host-17@1"),
        // These variables belong to the Slurm allocation around the job.
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_STEP_ID", "0"),
    ];
    let env = reads(&open_mpi);
    assert_eq!((numbers(&env), env.launcher), ([2, 4, 2, 4], Launcher::OpenMpi));
    assert!(format!("{env:?}").contains("prterun-host-17@1"));

    let hydra =
        [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "2")];
    let env = reads(&hydra);
    assert_eq!((numbers(&env), env.launcher), ([1, 2, 1, 2], Launcher::Mpich));
    assert!(format!("{env:?}").contains("parent "));

    let slurm = [
        ("SLURM_PROCID", "4"),
        ("SLURM_NTASKS", "5"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_ID", "2"),
        ("SLURM_JOB_ID", "77"),
        ("SLURM_STEP_NUM_NODES", "3"),
        ("SLURM_NODEID", "2"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2),1"),
        ("MASTER_ADDR", "node0"),
    ];
    let env = reads(&slurm);
    assert_eq!((numbers(&env), env.launcher), ([4, 5, 0, 1], Launcher::Slurm));
    let one_node = [&slurm[..5], &[("SLURM_STEP_NUM_NODES", "1")]].concat();
    let env = reads(&one_node);
    assert_eq!(numbers(&env), [4, 5, 0, 5]);
    assert!(format!("{env:?}").contains("77.2"));
}

#[test]
fn a_rank_table_comes_before_a_store() {
    let table = [("RANK_TABLE_FILE", "/etc/ranks.json"), ("RANK_ID", "1"), ("RANK_SIZE", "2")];
    let env = reads(&table);
    assert_eq!((numbers(&env), env.launcher), ([1, 2, 1, 2], Launcher::RankTable));
    assert!(format!("{env:?}").contains("RankTable(/etc/ranks.json)"));
    let env = reads(&[&table[..1], TORCHRUN].concat());
    assert_eq!((numbers(&env), env.launcher), ([3, 4, 1, 2], Launcher::Torchrun));
    assert!(format!("{env:?}").contains("RankTable"));
    refuses(&table[..1], &["RANK_ID is not set", "RANK_TABLE_FILE"]);
    refuses(&table[..2], &["RANK_SIZE is not set", "RANK_ID is set"]);
}

#[test]
fn a_job_without_a_place_for_a_store_says_which_variable_to_change() {
    let join = |variables: &[(&str, &str)], pieces: &[&str]| {
        let joined = Store::join(&reads(variables), Duration::from_millis(200));
        let error = joined.err().expect("there is no store").to_string();
        for piece in pieces {
            assert!(error.contains(piece), "{piece} is not in: {error}");
        }
    };
    let table = [("RANK_TABLE_FILE", "/etc/ranks.json"), ("RANK_ID", "1"), ("RANK_SIZE", "2")];
    let of_table = ["RANK_TABLE_FILE is \"/etc/ranks.json\"", "no store", "set MASTER_ADDR"];
    join(&table, &of_table);
    // The launcher's own address is set, but the rank table comes before it.
    join(&[&table[..1], TORCHRUN].concat(), &of_table);
    // The agent of torchrun has the last port, and none is left for our store.
    for rank in ["0", "3"] {
        let mut last_port = TORCHRUN.to_vec();
        last_port.retain(|(name, _)| !["RANK", "LOCAL_RANK", "MASTER_PORT"].contains(name));
        last_port.extend([("RANK", rank), ("LOCAL_RANK", "0"), ("MASTER_PORT", "65535")]);
        join(&last_port, &["MASTER_PORT leaves no port", "set a smaller MASTER_PORT"]);
    }
}

#[test]
fn a_wrong_value_is_named_with_what_belongs_there() {
    let with = |name: &'static str, value: &'static str| {
        let mut all: Vec<_> = TORCHRUN.iter().copied().filter(|(it, _)| *it != name).collect();
        all.push((name, value));
        all
    };
    refuses(&with("RANK", "x"), &["RANK is \"x\"", "a number from 0 to 4294967295"]);
    refuses(&with("RANK", "-1"), &["RANK is \"-1\""]);
    refuses(&with("RANK", "4"), &["RANK is \"4\"", "WORLD_SIZE is 4, so it must be below 4"]);
    refuses(&with("WORLD_SIZE", "0"), &["WORLD_SIZE is \"0\"", "at least one rank"]);
    refuses(&with("LOCAL_RANK", "2"), &["LOCAL_WORLD_SIZE is 2, so it must be below 2"]);
    let alone = [("RANK", "0"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "5")];
    refuses(&alone, &["LOCAL_RANK is \"5\"", "WORLD_SIZE is 4, so it must be below 4"]);
    let alone = [("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "2")];
    refuses(&alone, &["LOCAL_RANK is not set, but LOCAL_WORLD_SIZE is 2", "of rank 3"]);
    refuses(&with("LOCAL_WORLD_SIZE", "9"), &["LOCAL_WORLD_SIZE is \"9\"", "at most 4"]);
    refuses(&with("MASTER_PORT", "0"), &["MASTER_PORT is \"0\"", "1 to 65535"]);
    refuses(&with("MASTER_PORT", "65536"), &["1 to 65535"]);
    // The port is checked, too, where it only names the job.
    let alone = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "abc")];
    refuses(&alone, &["MASTER_PORT is \"abc\"", "1 to 65535"]);
    refuses(&with("MASTER_ADDR", ""), &["MASTER_ADDR is not set", "only 2 of the 4 ranks"]);
    refuses(&[("RANK", "0")], &["WORLD_SIZE is not set", "RANK is set"]);
    refuses(&[("WORLD_SIZE", "2")], &["RANK is not set", "WORLD_SIZE is set"]);
    let far = [("PMI_RANK", "0"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")];
    refuses(&far, &["MASTER_ADDR is not set", "only 2 of the 4 ranks are on this machine"]);
    let odd = [
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(y"),
    ];
    refuses(&odd, &["SLURM_STEP_TASKS_PER_NODE is \"1(y\"", "how many tasks node 0 has"]);
}
