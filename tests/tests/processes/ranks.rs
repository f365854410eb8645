//! Ranks that are processes: the test runs itself again, once for each rank.
//!
//! A test calls [`run`] with the body of a rank. In the process of the test, `run` starts the ranks
//! and waits for them. In the process of a rank, it runs the body.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hccl::prelude::*;

const PLACE: &str = "HCCL_TEST_PROCESS";
pub const CONNECT_TIMEOUT: &str = "HCCL_TEST_CONNECT_TIMEOUT";
/// The place of a process that makes a root info, prints it, and waits to be killed.
const MAKES_ROOT: &str = "root";
/// The place, with the number of ranks, of a process that makes the root info and is rank 0.
const HOST: &str = "host";

/// The number of communicators that a test can make.
const ROOTS: usize = 4;

/// Returns the number of the process that starts the ranks. Tests use it in names that no other run
/// has.
pub fn starter() -> u32 {
    match std::env::var_os(PLACE) {
        Some(_) => std::os::unix::process::parent_id(),
        None => std::process::id(),
    }
}

/// One rank of a process.
pub struct Place {
    pub rank: u32,
    pub ranks: u32,
    pub device: Device,
    /// A root info for each communicator that the ranks make.
    roots: std::cell::RefCell<Vec<RootInfo>>,
}

impl Place {
    pub fn new(rank: u32, ranks: u32, device: Device, root: &str) -> Self {
        Self { rank, ranks, device, roots: vec![root_of(root)].into() }
    }

    /// Returns the next root info, which is the same on all ranks.
    pub fn root(&self) -> RootInfo {
        self.roots.borrow_mut().pop().unwrap()
    }

    /// Returns the same rank on another device.
    pub fn on(self, device: Device) -> Place {
        Place { device, ..self }
    }

    /// Waits until all ranks have arrived, however long that takes. Tests use it before waits with
    /// a short limit.
    pub fn meet(&self) {
        let stream = self.device.stream().unwrap();
        self.communicator().barrier(&stream).unwrap().wait().unwrap();
    }

    pub fn communicator(&self) -> Communicator {
        self.joined().unwrap()
    }

    pub fn joined(&self) -> hccl::Result<Communicator> {
        self.joined_with(hccl::CommConfig::default())
    }

    pub fn joined_with(&self, config: hccl::CommConfig) -> hccl::Result<Communicator> {
        let builder = Communicator::builder().device(&self.device).rank(self.rank);
        builder.world_size(self.ranks).root_info(&self.root()).config(config).build().wait()
    }
}

pub fn text_of(root: &RootInfo) -> String {
    let mut text = String::new();
    root.to_bytes().iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
    text
}

fn root_of(text: &str) -> RootInfo {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    RootInfo::from_bytes(&bytes).unwrap()
}

/// The processes of some ranks.
pub struct Processes {
    pub children: Vec<Child>,
    _runtime: Runtime,
}

/// Returns the command that runs the test of this name again, at a place.
pub fn command(name: &str, place: &str) -> Command {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process
        .args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(PLACE, place);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process
}

fn again(name: &str, place: &str) -> Child {
    command(name, place).spawn().unwrap()
}

/// Returns the place of a process that makes a root info, prints it, and is rank 0.
pub fn host_place(ranks: u32) -> String {
    format!("{HOST} {ranks}")
}

/// Returns the place of a process whose ranks get a root info.
pub fn guest_place(first: u32, own: u32, ranks: u32, root: &str) -> String {
    format!("{first} {own} {ranks} {root}")
}

/// Returns the root info that a process prints.
fn root_by(maker: &mut Child) -> String {
    root_among(&mut BufReader::new(maker.stdout.take().unwrap()).lines())
}

/// Returns the root info among the lines that a process prints.
pub fn root_among(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> String {
    let is_root = |line: &String| line.len() == 2 * RootInfo::BYTES;
    lines.find_map(|line| line.ok().filter(is_root)).unwrap()
}

/// Starts a process that only makes a root info. Returns the process, and the root info as text.
pub fn root_maker(name: &str) -> (Child, String) {
    let mut maker = again(name, MAKES_ROOT);
    let root = root_by(&mut maker);
    (maker, root)
}

/// Runs `ranks` ranks that got a root info, each in its own process.
pub fn ranks_of(name: &str, root: &str, ranks: u32) -> Vec<Output> {
    let start = |rank| again(name, &guest_place(rank, 1, ranks, root));
    let all: Vec<Child> = (0..ranks).map(start).collect();
    all.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
}

/// Runs rank 0 in a process that makes the root info itself, and the other ranks as threads of
/// another process.
pub fn host_and_guests(name: &str, guests: u32) -> Vec<Output> {
    let mut host = again(name, &host_place(guests + 1));
    let root = root_by(&mut host);
    let others = again(name, &guest_place(1, guests, guests + 1, &root));
    [host, others].map(|process| process.wait_with_output().unwrap()).into()
}

/// Starts rank 0 of 2 with the root info of another process, and kills that process while the rank
/// waits.
pub fn wait_for_a_process_that_is_killed(name: &str) -> Output {
    let (mut maker, root) = root_maker(name);
    let rank = again(name, &guest_place(0, 1, 2, &root));
    std::thread::sleep(Duration::from_millis(500));
    maker.kill().unwrap();
    maker.wait().unwrap();
    rank.wait_with_output().unwrap()
}

/// Returns the place of this process, if a test started it at a place of its own.
pub fn place() -> Option<String> {
    std::env::var(PLACE).ok()
}

/// Returns the runtime of a process of ranks. [`CONNECT_TIMEOUT`] is the time, in milliseconds,
/// that a rank waits for the arrival of other ranks.
pub fn runtime(ranks: u32) -> Runtime {
    let connect = std::env::var(CONNECT_TIMEOUT).map_or(60_000, |limit| limit.parse().unwrap());
    Runtime::emulator_builder()
        .devices(ranks as usize)
        .deadline(Duration::from_secs(180))
        .connect_timeout(Duration::from_millis(connect))
        .build()
        .unwrap()
}

/// Returns whether this is the process of ranks. If so, it first runs `body` for each rank, in a
/// thread of its own.
pub fn is_rank(body: impl Fn(Place) + Sync) -> bool {
    let Ok(place) = std::env::var(PLACE) else { return false };
    if place == MAKES_ROOT {
        let runtime = Runtime::emulator(1).unwrap();
        let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
        println!("\n{}", text_of(&root));
        std::thread::sleep(Duration::from_secs(60));
        return true;
    }
    let words: Vec<&str> = place.split(' ').collect();
    if let [HOST, ranks] = words[..] {
        let ranks = ranks.parse().unwrap();
        let runtime = runtime(ranks);
        let device = runtime.device(0).unwrap();
        let root = RootInfo::new(&device).unwrap();
        println!("\n{}", text_of(&root));
        let roots = vec![root].into();
        body(Place { rank: 0, ranks, device, roots });
        return true;
    }
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    let (first, own, ranks) = (number(0), number(1), number(2));
    let runtime = runtime(ranks);
    let roots: Vec<RootInfo> = words[3..].iter().map(|word| root_of(word)).collect();
    std::thread::scope(|scope| {
        for rank in first..first + own {
            let device = runtime.device(rank as usize).unwrap();
            let roots = roots.clone().into();
            let place = Place { rank, ranks, device, roots };
            let body = &body;
            scope.spawn(move || body(place));
        }
    });
    true
}

impl Processes {
    /// Starts processes with these numbers of ranks, which run the test of this name.
    pub fn start(name: &str, each: &[u32]) -> Processes {
        let runtime = Runtime::emulator(1).unwrap();
        let device = runtime.device(0).unwrap();
        let root = |_| text_of(&RootInfo::new(&device).unwrap());
        let text = (0..ROOTS).map(root).collect::<Vec<_>>().join(" ");
        let ranks: u32 = each.iter().sum();
        let mut first = 0;
        let start = |own: &u32| {
            let child = again(name, &guest_place(first, *own, ranks, &text));
            first += own;
            child
        };
        let children = each.iter().map(start).collect();
        Processes { children, _runtime: runtime }
    }

    /// Waits for all processes, and returns their outputs.
    pub fn outputs(self) -> Vec<Output> {
        self.children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
    }
}

/// Waits until a process prints these words. A thread reads and drops the lines that follow.
pub fn until_says(process: &mut Child, words: &str) {
    let out = process.stdout.take().unwrap();
    let mut lines = BufReader::new(out).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains(words)), "it has not said: {words}");
    std::thread::spawn(move || lines.for_each(drop));
}

/// Sends a signal to a process that was not waited for.
pub fn signal(process: &Child, signal: i32) {
    // SAFETY: the number is that of the process as long as it was not waited for.
    assert_eq!(unsafe { libc::kill(process.id() as i32, signal) }, 0);
}

/// Asserts that the error of a rank whose peer was killed names the peer and its process.
#[track_caller]
pub fn names_the_dead(error: &hccl::Error, dead: u32) {
    let text = error.to_string();
    // Another rank may have got its error and have left by then.
    assert!(error.gone_ranks().contains(&dead), "{text}");
    let rank = format!("rank {dead} is gone (process ");
    assert!(text.contains(&rank) && text.contains("has ended"), "{text}");
}

/// Runs `body` on every rank, in processes with these numbers of ranks; all must succeed.
pub fn run(name: &str, each: &[u32], body: impl Fn(Place) + Sync) {
    if is_rank(body) {
        std::process::exit(0);
    }
    // A failure that the first processes report may have begun in the last process.
    let mut failed = String::new();
    for (at, output) in Processes::start(name, each).outputs().iter().enumerate() {
        if !output.status.success() {
            let out = String::from_utf8_lossy(&output.stdout);
            let err = String::from_utf8_lossy(&output.stderr);
            write!(failed, "process {at} of {each:?}:\n{out}\n{err}\n").unwrap();
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
