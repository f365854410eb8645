//! Ranks that meet by a rank table, wherever they are: as processes, as threads, or mixed.
//!
//! Ranks with equal tables meet. So each test, and each run of it, has a `server_id` of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::Output;
use std::time::{Duration, Instant};

use hccl::prelude::*;
use hccl::{Error, ErrorKind};

use crate::collectives::tester::Tester;
use crate::joining::sums;
use crate::ranks::{Place, Processes, is_rank, names_the_dead, run, starter};

/// A time longer than anything here takes on a busy machine, and shorter than ranks wait for one
/// another: see `ranks.rs`.
const LONG: Duration = Duration::from_secs(55);
/// The number of the user `nobody`.
const NOBODY: libc::uid_t = 65534;

/// A table in a file without a name, so that no file stays behind.
struct Table {
    contents: String,
    file: File,
}

impl Table {
    /// Makes a table of one server, whose `ranks` ranks are on devices from `first` on. `name`
    /// distinguishes it from other tables of the test.
    fn from(name: &str, first: u32, ranks: u32) -> Table {
        let server = format!("{name}-{}", starter());
        assert!(server.len() <= 64, "{server} is too long for a table");
        let device = |rank: u32| serde_json::json!({"device_id": (first + rank).to_string(), "rank_id": rank.to_string()});
        let devices: Vec<_> = (0..ranks).map(device).collect();
        let table = serde_json::json!({
            "version": "1.0", "status": "completed", "server_count": "1",
            "server_list": [{"server_id": server, "device": devices}],
        });
        let number = std::thread::current().id();
        let path = format!("hccl-table-{name}-{}-{number:?}", std::process::id());
        let path = std::env::temp_dir().join(path);
        let mut file = File::create_new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // The layout of the file does not matter.
        file.write_all(serde_json::to_string_pretty(&table).unwrap().as_bytes()).unwrap();
        Table { contents: table.to_string(), file }
    }

    fn new(name: &str, ranks: u32) -> Table {
        Table::from(name, 0, ranks)
    }

    fn join(&self, device: &Device, rank: u32) -> hccl::Result<Communicator> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Communicator::from_rank_table(device, path, rank, CommConfig::default()).wait()
    }

    /// Returns the name of the table's abstract socket: see `rendezvous.rs` of the emulator.
    fn socket(&self) -> String {
        let (basis, prime) =
            (0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, 0x0100_0000_0000_0000_0000_013b);
        let hash = |sum: u128, byte| (sum ^ u128::from(byte)).wrapping_mul(prime);
        let hash = self.contents.bytes().fold(basis, hash);
        // SAFETY: the call has no preconditions.
        let user = unsafe { libc::geteuid() };
        format!("ascend-emulator-table-{user}-{hash:032x}")
    }

    /// Returns whether a process keeps the rendezvous of the table.
    fn is_kept(&self) -> bool {
        self.has_socket(|_| true)
    }

    /// Returns whether a client can connect to the process that keeps the rendezvous. Between
    /// `bind` and `listen` this is not possible.
    fn listens(&self) -> bool {
        const ACCEPTS: &str = "00010000";
        self.has_socket(|line| line.split_whitespace().nth(3) == Some(ACCEPTS))
    }

    /// Returns whether the rendezvous has a socket for which `is_such` is true, by its line in the
    /// list of the system.
    fn has_socket(&self, is_such: impl Fn(&str) -> bool) -> bool {
        let name = format!("@{}", self.socket());
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        sockets.lines().any(|line| line.ends_with(&name) && is_such(line))
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from_abstract_name(self.socket()).unwrap()
    }
}

/// Waits until a condition is true.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn succeeded(rank: usize, output: &Output) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rank {rank}:\n{err}");
}

/// Returns device `rank` of a runtime whose ranks wait at most `limit` for one another.
fn device_with_limit(rank: u32, ranks: usize, limit: Duration) -> Device {
    let builder = Runtime::emulator_builder().devices(ranks).connect_timeout(limit);
    builder.build().unwrap().device(rank as usize).unwrap()
}

#[test]
fn ranks_of_a_table_meet_as_processes_and_as_threads() {
    const NAME: &str = "tables::ranks_of_a_table_meet_as_processes_and_as_threads";
    for each in [&[1, 1][..], &[2, 1], &[1, 2, 1]] {
        run(NAME, each, |place| {
            let table = Table::new("meet", place.ranks);
            let comm = table.join(&place.device, place.rank).unwrap();
            assert_eq!((comm.rank(), comm.world_size()), (place.rank, place.ranks));
            assert_eq!(comm.name(), "hccl_world_group");
            // Every process records that a device is in a communicator of a table, which can be
            // only one at a time.
            let second = table.join(&place.device, place.rank).map(drop).unwrap_err().to_string();
            assert!(second.contains("already in a communicator of a rank table"), "{second}");
            until("the rendezvous stays", || !table.is_kept());
            sums(&place, comm);
        });
    }
}

#[test]
fn operations_between_processes_of_a_table_give_what_they_give_between_threads() {
    const NAME: &str =
        "tables::operations_between_processes_of_a_table_give_what_they_give_between_threads";
    run(NAME, &[2, 1], |place| {
        let comm = Table::new("operations", place.ranks).join(&place.device, place.rank).unwrap();
        let mut tester = Tester::new(comm).unwrap();
        tester.all_reduce::<f32, Sum>().unwrap();
        tester.reduce_scatter::<i32, Max>().unwrap();
        tester.all_gather::<i16>().unwrap();
        tester.broadcast::<u8>().unwrap();
        tester.all_to_all::<f32>().unwrap();
        tester.messages::<i64>().unwrap();
        // No process ends while its last message is in flight.
        tester.comm.barrier(&tester.stream).unwrap().wait().unwrap();
    });
}

#[test]
fn a_table_serves_one_communicator_after_the_other_and_keeps_no_descriptors() {
    const NAME: &str =
        "tables::a_table_serves_one_communicator_after_the_other_and_keeps_no_descriptors";
    run(NAME, &[1, 2, 1], |place| {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let table = Table::new("again", place.ranks);
        let mut random = fastrand::Rng::with_seed(place.rank.into());
        let mut after_some = 0;
        for round in 0..30 {
            // Another process comes first in each round.
            std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
            sums(&place, table.join(&place.device, place.rank).unwrap());
            if round == 5 {
                after_some = open();
            }
        }
        // Threads of one process may hold a few descriptors each for a short time.
        until("descriptors stay behind", || open() <= after_some + 4);
    });
}

#[test]
fn two_tables_at_once_do_not_meet() {
    const NAME: &str = "tables::two_tables_at_once_do_not_meet";
    run(NAME, &[1, 1, 2], |place| {
        let (pair, rank) = (place.rank / 2, place.rank % 2);
        let table = Table::from(["one", "other"][pair as usize], 2 * pair, 2);
        let mut comm = table.join(&place.device, rank).unwrap();
        let stream = place.device.stream().unwrap();
        let mut x = place.device.upload(&[place.rank as i32], &stream).unwrap();
        comm.all_reduce_in_place(&mut x, Sum, &stream).unwrap().wait().unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [[1], [5]][pair as usize]);
    });
}

#[test]
fn a_rank_of_a_table_that_never_comes_is_named_in_all_processes() {
    const NAME: &str = "tables::a_rank_of_a_table_that_never_comes_is_named_in_all_processes";
    run(NAME, &[1, 1], |place| {
        place.meet();
        let device = device_with_limit(place.rank, 3, Duration::from_secs(3));
        let error = Table::new("missing", 3).join(&device, place.rank).map(drop).unwrap_err();
        let text = error.to_string();
        assert_eq!((error.kind(), error.missing_ranks()), (ErrorKind::Timeout, vec![2]), "{text}");
        assert!(text.contains("rank 2 of 3 did not call"), "{text}");
        assert!(text.contains("each with the same rank table"), "{text}");
    });
}

/// Kills a rank while it waits for a third one: the rank that decides, or the other one.
#[test]
fn a_rank_of_a_table_that_is_killed_while_it_waits_is_named_at_once() {
    const NAME: &str = "tables::a_rank_of_a_table_that_is_killed_while_it_waits_is_named_at_once";
    let body = |place: Place| {
        let table = Table::new("waits", 3);
        match place.rank {
            0 => {}
            1 => until("rank 0 does not come", || table.is_kept()),
            _ => return,
        }
        let error = table.join(&place.device, place.rank).map(drop).unwrap_err();
        names_the_dead(&error, 1 - place.rank);
        assert_eq!(error.gone_ranks(), [1 - place.rank], "{error}");
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    for dead in [0, 1] {
        let mut processes = Processes::start(NAME, &[1, 1, 1]);
        let children = &processes.children;
        // A process watches the ends of the processes that it has met.
        let watches = |rank: usize| {
            let files = std::fs::read_dir(format!("/proc/{}/fd", children[rank].id()));
            let mut links =
                files.into_iter().flatten().flatten().map(|file| file.path().read_link());
            links.any(|link| link.is_ok_and(|link| link.to_string_lossy().contains("pidfd")))
        };
        until("the ranks do not meet", || watches(0) && watches(1));
        // The test also waits until both ranks wait for the third one.
        ascend_emulator_testing::threads::until_asleep(&[children[0].id(), children[1].id()], 30);
        processes.children[dead].kill().unwrap();
        let began = Instant::now();
        let outputs = processes.outputs();
        succeeded(1 - dead, &outputs[1 - dead]);
        assert!(began.elapsed() < LONG, "it has waited for its limit");
    }
}

/// Kills a rank that makes communicators again and again at a random moment.
#[test]
fn whichever_rank_of_a_table_is_killed_whenever_the_others_end_and_name_it() {
    const NAME: &str =
        "tables::whichever_rank_of_a_table_is_killed_whenever_the_others_end_and_name_it";
    let dead_of = |round: u64| (round % 3) as u32;
    let body = |place: Place| {
        let (table, began) = (Table::new("killed", place.ranks), Instant::now());
        let device = device_with_limit(place.rank, 3, Duration::from_secs(5));
        let stream = device.stream().unwrap();
        let generation = || -> hccl::Result<()> {
            let mut comm = table.join(&device, place.rank)?;
            comm.barrier(&stream)?.wait()?;
            println!("again");
            Ok(())
        };
        let is_over = |error: &Error| {
            println!("gone {:?} missing {:?}", error.gone_ranks(), error.missing_ranks());
            println!("after {} ms: {error}", began.elapsed().as_millis());
        };
        std::iter::repeat_with(generation).find_map(Result::err).iter().for_each(is_over);
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    use std::io::{BufRead, BufReader};
    let rounds = std::env::var("HCCL_TEST_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(19);
    for round in 0..rounds {
        let dead = dead_of(round);
        let mut processes = Processes::start(NAME, &[1, 1, 1]);
        let outs = processes.children.iter_mut().map(|child| {
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            lines.find(|line| line.as_ref().is_ok_and(|line| line == "again"));
            std::thread::spawn(move || {
                lines.map_while(Result::ok).filter(|line| line != "again").collect::<Vec<_>>()
            })
        });
        let outs: Vec<_> = outs.collect();
        std::thread::sleep(Duration::from_micros(random.u64(0..30_000)));
        processes.children[dead as usize].kill().unwrap();
        let outputs = processes.outputs();
        for (rank, out) in outs.into_iter().enumerate().filter(|(rank, _)| *rank as u32 != dead) {
            let said = out.join().unwrap();
            succeeded(rank, &outputs[rank]);
            let names = said.iter().find(|line| line.starts_with("gone "));
            let names = names.unwrap_or_else(|| panic!("round {round}, rank {rank}: {said:?}"));
            assert!(names.contains(&dead.to_string()), "round {round}, rank {rank}: {said:?}");
        }
    }
}

/// Connects clients that are no ranks to the rendezvous: one sends data that is never read, one
/// stays, and one belongs to another user.
#[test]
fn strangers_at_the_rendezvous_do_no_harm() {
    const NAME: &str = "tables::strangers_at_the_rendezvous_do_no_harm";
    let body = |place: Place| {
        let table = Table::new("strangers", place.ranks);
        if place.rank == 1 {
            until("nobody lets this rank go on", || std::fs::exists(go_on()).unwrap());
        }
        sums(&place, table.join(&place.device, place.rank).unwrap());
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let table = Table::new("strangers", 2);
    let processes = Processes::start(NAME, &[1, 1]);
    until("rank 0 does not come", || table.listens());
    // The name belongs to this user, whichever client connects.
    let address = table.address();
    let connect = || {
        let stream = UnixStream::connect_addr(&address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    let strangers: Vec<UnixStream> = (0..50).map(|_| connect()).collect();
    for mut stranger in &strangers {
        let _ = stranger.write_all(&[0xff; 10_000]);
    }
    let mut answer = Vec::new();
    connect().read_to_end(&mut answer).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["rank"], 0, "{answer}");
    let by_another = as_another_user(|| {
        let mut answer = Vec::new();
        // Whether the connection ends normally or with an error, no data was received.
        let _ = connect().read_to_end(&mut answer);
        answer
    });
    if let Some(answer) = by_another {
        assert!(answer.is_empty(), "another user is answered: {}", answer.escape_ascii());
    }
    File::create(go_on()).unwrap();
    let outputs = processes.outputs();
    let _ = std::fs::remove_file(go_on());
    outputs.iter().enumerate().for_each(|(rank, output)| succeeded(rank, output));
}

/// Returns the path of the flag for which rank 1 waits.
fn go_on() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("hccl-strangers-{}", starter()))
}

/// Runs `act` in a thread of another effective user. Returns `None` if this user may not change its
/// thread's user.
fn as_another_user<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    let alone = || {
        // SAFETY: the system call changes only the calling thread, unlike the function of the
        // library, and the thread ends soon.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, -1, NOBODY, -1) };
        (result == 0).then(act)
    };
    std::thread::scope(|scope| scope.spawn(alone).join().unwrap())
}

/// Checks the errors if the rendezvous of a table is taken by another user, or by a process that
/// does not answer like an emulator.
#[test]
fn a_rendezvous_that_is_taken_by_something_else_is_told_with_its_process() {
    let told = |name: &str, seconds: u64, listener: UnixListener, pieces: &[&str]| {
        let device = device_with_limit(0, 2, Duration::from_secs(seconds));
        let error = Table::new(name, 2).join(&device, 0).map(drop).unwrap_err().to_string();
        drop(listener);
        let own = format!("process {}", std::process::id());
        for piece in pieces.iter().chain(&[&*own, "rank 0 cannot meet", "another server_id"]) {
            assert!(error.contains(piece), "{piece}: {error}");
        }
    };
    let bind = |name: &str| UnixListener::bind_addr(&Table::new(name, 2).address()).unwrap();
    let address = Table::new("user", 2).address();
    if let Some(listener) = as_another_user(|| UnixListener::bind_addr(&address).unwrap()) {
        told("user", 20, listener, &["of user 65534 has taken the socket name"]);
    }
    told("silent", 2, bind("silent"), &["has not answered within"]);
    let listener = bind("garbage");
    let speaker = listener.try_clone().unwrap();
    let speaks = std::thread::spawn(move || {
        let (mut stream, _) = speaker.accept().unwrap();
        stream.write_all(b"{\"home\": 7}").unwrap();
    });
    told("garbage", 20, listener, &["does not answer as an emulator does"]);
    speaks.join().unwrap();
}
