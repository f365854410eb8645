//! Jobs whose processes have the variables of other launchers.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hccl::job::{JobEnv, Store, StoreServer};

use super::{Job, all_end, hcclrun, process, start};

type Variables = Vec<(&'static str, String)>;

/// Runs a process for each rank, and returns the output of each.
fn run(ranks: u32, part: &str, variables: impl Fn(u32) -> Variables) -> Vec<Job> {
    all_end((0..ranks).map(|rank| start(process(part, &variables(rank)))).collect())
}

#[track_caller]
fn all_sum(jobs: Vec<Job>, launcher: &str) {
    let ranks = jobs.len();
    for (rank, job) in jobs.into_iter().enumerate() {
        let sum = ranks * (ranks + 1) / 2;
        job.succeeds().says(&[&format!("rank {rank} on device {rank} by {launcher}: {sum}")]);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns a word that no other job has.
fn unique() -> String {
    format!("{}-{:?}", std::process::id(), std::thread::current().id())
}

#[test]
fn variables_that_somebody_has_set() {
    let port = free_port().to_string();
    let variables = |rank: u32| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "3".into()),
            ("MASTER_ADDR", "localhost".into()),
            ("MASTER_PORT", port.clone()),
        ]
    };
    all_sum(run(3, "sum", variables), "RANK and WORLD_SIZE");
}

#[test]
fn torchrun_whose_agent_has_the_port() {
    // The agent listens at this port and never sends anything.
    let agent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = agent.local_addr().unwrap().port();
    // Another program has the next port.
    let _taken = TcpListener::bind(("127.0.0.1", port + 1));
    let job = unique();
    let variables = |rank: u32| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "3".into()),
            ("LOCAL_RANK", rank.to_string()),
            ("LOCAL_WORLD_SIZE", "3".into()),
            ("MASTER_ADDR", "127.0.0.1".into()),
            ("MASTER_PORT", port.to_string()),
            ("TORCHELASTIC_RUN_ID", job.clone()),
            ("TORCHELASTIC_USE_AGENT_STORE", "True".into()),
        ]
    };
    all_sum(run(3, "sum", variables), "torchrun");
}

#[test]
fn open_mpi() {
    let job = unique();
    let variables = |rank: u32| {
        vec![
            ("OMPI_COMM_WORLD_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_SIZE", "4".into()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4".into()),
            ("PMIX_NAMESPACE", job.clone()),
        ]
    };
    all_sum(run(4, "sum", variables), "Open MPI");
}

#[test]
fn mpich() {
    let job = unique();
    let variables = |rank: u32| {
        vec![
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", "2".into()),
            ("MPI_LOCALRANKID", rank.to_string()),
            ("MPI_LOCALNRANKS", "2".into()),
            // All ranks of all tests have this process as their parent, so its id does not
            // distinguish jobs.
            ("HCCL_JOB_ID", job.clone()),
        ]
    };
    all_sum(run(2, "sum", variables), "MPICH");
}

#[test]
fn slurm() {
    let job = unique();
    let variables = |rank: u32| {
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_NTASKS", "3".into()),
            ("SLURM_LOCALID", rank.to_string()),
            ("SLURM_STEP_NUM_NODES", "1".into()),
            ("SLURM_JOB_ID", job.clone()),
            ("SLURM_STEP_ID", "0".into()),
        ]
    };
    all_sum(run(3, "sum", variables), "Slurm");
}

/// Writes a rank table with `ranks` ranks on one server. No other job has this server, and the test
/// removes the file.
fn table(name: &str, ranks: u32) -> PathBuf {
    let device = |rank| format!(r#"{{"device_id": "{rank}", "rank_id": "{rank}"}}"#);
    let devices = (0..ranks).map(device).collect::<Vec<_>>().join(", ");
    let name = format!("{name}-{}", std::process::id());
    let text = format!(
        r#"{{"version": "1.0", "status": "completed", "server_count": "1", "server_list": [{{"server_id": "{name}", "device": [{devices}]}}]}}"#
    );
    let path = std::env::temp_dir().join(format!("hccl-jobs-{name}.json"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Returns the variables that a person sets to start one of three ranks of a table.
fn by_hand(table: &Path, rank: u32) -> Vec<(&'static str, String)> {
    vec![
        ("RANK_TABLE_FILE", table.to_str().unwrap().into()),
        ("RANK_ID", rank.to_string()),
        ("RANK_SIZE", "3".into()),
    ]
}

#[test]
fn a_rank_table_without_a_launcher() {
    let path = table("by-hand", 3);
    let variables = |rank| by_hand(&path, rank);
    let (sums, comms) = (run(3, "sum", variables), run(3, "communicator", variables));
    std::fs::remove_file(&path).unwrap();
    all_sum(sums, "RANK_TABLE_FILE");
    comms.into_iter().enumerate().for_each(|(rank, job)| {
        job.succeeds().says(&[&format!("rank {rank} of 3")]);
    });
}

#[test]
fn a_rank_table_beside_hcclrun() {
    let path = table("hcclrun", 2);
    let job = Job::of(hcclrun(&["-n", "2"], "sum").env("RANK_TABLE_FILE", &path));
    std::fs::remove_file(&path).unwrap();
    job.succeeds().says(&["rank 0 on device 0 by hcclrun: 3", "rank 1 on device 1 by hcclrun: 3"]);
}

#[test]
fn a_rank_table_with_another_number_of_ranks_is_told() {
    let path = table("number", 2);
    let variables = |rank| by_hand(&path, rank);
    let jobs = run(2, "communicator", variables);
    std::fs::remove_file(&path).unwrap();
    for job in jobs {
        assert_eq!(job.status, Some(1), "{}", job.err);
        job.says(&["has 2 ranks, but the environment says 3", "correct RANK_SIZE"]);
    }
}

#[test]
fn the_process_of_rank_0_may_come_last() {
    let job = unique();
    let variables = |rank: u32| {
        vec![
            ("OMPI_COMM_WORLD_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_SIZE", "3".into()),
            ("PMIX_NAMESPACE", job.clone()),
        ]
    };
    let mut children = Vec::new();
    for rank in [2, 1] {
        children.push(start(process("sum", &variables(rank))));
    }
    std::thread::sleep(Duration::from_millis(300));
    children.insert(0, start(process("sum", &variables(0))));
    children.swap(1, 2);
    all_sum(all_end(children), "Open MPI");
}

#[test]
fn two_jobs_at_one_port_are_told_apart() {
    let port = free_port().to_string();
    let variables = |secret: &'static str| {
        let port = port.clone();
        move |rank: u32| {
            vec![
                ("RANK", rank.to_string()),
                ("WORLD_SIZE", "2".into()),
                ("MASTER_ADDR", "127.0.0.1".into()),
                ("MASTER_PORT", port.clone()),
                ("HCCL_JOB_SECRET", secret.into()),
                ("HCCL_CONNECT_TIMEOUT", "60".into()),
            ]
        }
    };
    let (own, other) = (variables("one"), variables("another"));
    let rank_0 = start(process("sum", &own(0)));
    let stranger = start(process("sum", &other(1)));
    let stranger = all_end(vec![stranger]).into_iter().next().unwrap();
    assert_eq!(stranger.status, Some(1));
    stranger.says(&["has refused rank 1: its secret is not that of this job"]);
    let rank_1 = start(process("sum", &own(1)));
    let jobs = all_end(vec![rank_0, rank_1]);
    assert!(jobs[0].err.contains("was refused: its secret is not that of"), "{}", jobs[0].err);
    all_sum(jobs, "RANK and WORLD_SIZE");
}

#[test]
fn nobody_at_the_address_is_said_with_what_to_do() {
    let port = free_port().to_string();
    let variables = vec![
        ("RANK", "1".into()),
        ("WORLD_SIZE", "2".into()),
        ("MASTER_ADDR", "127.0.0.1".into()),
        ("MASTER_PORT", port.clone()),
        ("HCCL_CONNECT_TIMEOUT", "1".into()),
    ];
    let job = Job::of(&mut process("sum", &variables));
    assert_eq!(job.status, Some(1));
    job.says(&[
        &format!("rank 1 cannot reach the store of its job at 127.0.0.1:{port} within "),
        "Connection refused",
        "see whether rank 0 has started",
    ]);
}

#[test]
fn a_time_limit_that_is_no_number_is_refused_before_anybody_waits() {
    for wrong in ["soon", "0", "7201", ""] {
        let variables = vec![
            ("RANK", "1".into()),
            ("WORLD_SIZE", "2".into()),
            ("MASTER_ADDR", "127.0.0.1".into()),
            ("MASTER_PORT", free_port().to_string()),
            ("HCCL_CONNECT_TIMEOUT", wrong.into()),
        ];
        let job = Job::of(&mut process("sum", &variables));
        assert_eq!(job.status, Some(1));
        job.says(&[&format!(
            "HCCL_CONNECT_TIMEOUT={wrong}: set it to a whole number of seconds from 1 to 7200"
        )]);
    }
}

fn env(rank: u32, server: &StoreServer, secret: &str) -> JobEnv {
    let variable = |name: &str| {
        Some(match name {
            "RANK" => rank.to_string(),
            "WORLD_SIZE" => "2".into(),
            "MASTER_ADDR" => "127.0.0.1".into(),
            "MASTER_PORT" => server.port().to_string(),
            "HCCL_JOB_SECRET" => secret.into(),
            "HCCL_JOB_SERVED" => "1".into(),
            _ => return None,
        })
    };
    JobEnv::from_variables(variable).unwrap().unwrap()
}

/// Strangers send no bytes, garbage, a greeting and then garbage, and wrong lengths.
#[test]
fn a_store_lives_through_strangers() {
    let server = StoreServer::start(2, "secret").unwrap();
    let mut store = Store::join(&env(0, &server, "secret"), Duration::from_secs(30)).unwrap();
    let mut open = Vec::new();
    for number in 0..400_u32 {
        let mut stranger = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let greeting = b"hccl-job store 1";
        let bytes: Vec<u8> = match number % 6 {
            0 => Vec::new(),
            1 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            2 => b"hccl-job store 9".to_vec(),
            3 => [&greeting[..], &u32::MAX.to_le_bytes()].concat(),
            4 => [&greeting[..], &5_u32.to_le_bytes(), &[0xff; 5]].concat(),
            _ => [&greeting[..], &60_u32.to_le_bytes(), &[7; 3]].concat(),
        };
        // The store may have closed the connection.
        let _ = stranger.write_all(&bytes);
        if number % 3 == 0 {
            open.push(stranger);
        }
    }
    store.set("key", b"value").unwrap();
    assert_eq!(store.get("key", Duration::from_secs(30)).unwrap(), b"value");
    drop(open);
    // The store closes the connection of a stranger without sending anything.
    let mut stranger = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stranger.write_all(b"garbage garbage garbage").unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut read = Vec::new();
    let _ = stranger.read_to_end(&mut read);
    assert_eq!(read, b"");
    let wrong = Store::join(&env(1, &server, "guess"), Duration::from_secs(30)).err().unwrap();
    assert!(wrong.to_string().contains("its secret is not that of this job"), "{wrong}");
    let twice = Store::join(&env(0, &server, "secret"), Duration::from_secs(30)).err().unwrap();
    assert!(twice.to_string().contains("is rank 0 of this job already"), "{twice}");
    Store::join(&env(1, &server, "secret"), Duration::from_secs(30)).unwrap();
}

#[test]
fn a_wait_for_a_value_ends_when_its_rank_is_gone_and_when_the_store_is() {
    let server = StoreServer::start(2, "s").unwrap();
    let limit = Duration::from_secs(20);
    let mut own = Store::join(&env(0, &server, "s"), limit).unwrap();
    let other = Store::join(&env(1, &server, "s"), limit).unwrap();
    let waits = std::thread::spawn(move || {
        let gone = own.get_from(1, "key", limit).unwrap_err();
        (own, gone)
    });
    std::thread::sleep(Duration::from_millis(50));
    drop(other);
    let (mut own, gone) = waits.join().unwrap();
    assert_eq!(
        gone.to_string(),
        "rank 1 is gone (it is done), so storing \"key\" by rank 1 cannot happen; \
         see the output of rank 1 for the cause"
    );
    let late = own.get("key", Duration::from_millis(50)).unwrap_err();
    assert!(late.to_string().starts_with("storing \"key\" did not happen within 50ms"), "{late}");
    let large = own.set("key", &vec![0; 65537]).unwrap_err();
    assert!(large.to_string().contains("65537 bytes: the limit is 65536"), "{large}");
    own.set("key", &vec![1; 65536]).unwrap();
    assert_eq!(own.get("key", limit).unwrap().len(), 65536);
}
