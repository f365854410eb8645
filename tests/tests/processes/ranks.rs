//! Ranks that are processes: the test runs itself again, once for each rank.
//!
//! A test calls [`run`] with what a rank does. In the process of the test that starts the ranks and waits for them; in the process of a rank it does it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hccl::prelude::*;

const PLACE: &str = "HCCL_TEST_PROCESS";
/// As a place: a process that makes a root info, prints it, and waits to be killed.
const MAKES_ROOT: &str = "root";
/// As a place, with the number of ranks: one that makes it and is rank 0.
const HOST: &str = "host";

/// How many communicators a test can make.
const ROOTS: usize = 3;

/// One rank of a process.
pub struct Place {
    pub rank: u32,
    pub ranks: u32,
    pub device: Device,
    /// One for each communicator that the ranks make.
    roots: std::cell::RefCell<Vec<RootInfo>>,
}

impl Place {
    /// The next root info, alike on all ranks.
    pub fn root(&self) -> RootInfo {
        self.roots.borrow_mut().pop().unwrap()
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

fn text_of(root: &RootInfo) -> String {
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

/// A process that runs the test of this name again, at a place.
fn again(name: &str, place: &str) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(PLACE, place);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process.spawn().unwrap()
}

/// The root info that a process prints.
fn root_by(maker: &mut Child) -> String {
    let mut lines = BufReader::new(maker.stdout.take().unwrap()).lines();
    let is_root = |line: &String| line.len() == 2 * RootInfo::BYTES;
    lines.find_map(|line| line.ok().filter(is_root)).unwrap()
}

/// A process that makes a root info and does nothing else; and the root info, as text.
pub fn root_maker(name: &str) -> (Child, String) {
    let mut maker = again(name, MAKES_ROOT);
    let root = root_by(&mut maker);
    (maker, root)
}

/// Runs so many ranks that were given a root info, each in its process.
pub fn ranks_of(name: &str, root: &str, ranks: u32) -> Vec<Output> {
    let start = |rank| again(name, &format!("{rank} 1 {ranks} {root}"));
    let all: Vec<Child> = (0..ranks).map(start).collect();
    all.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
}

/// Runs rank 0 in a process that makes the root info itself, and the others as threads of one more.
pub fn host_and_guests(name: &str, guests: u32) -> Vec<Output> {
    let mut host = again(name, &format!("{HOST} {}", guests + 1));
    let root = root_by(&mut host);
    let others = again(name, &format!("1 {guests} {} {root}", guests + 1));
    [host, others].map(|process| process.wait_with_output().unwrap()).into()
}

/// Starts rank 0 of 2 with the root info of another process, and kills that one while the rank waits.
pub fn wait_for_a_process_that_is_killed(name: &str) -> Output {
    let (mut maker, root) = root_maker(name);
    let rank = again(name, &format!("0 1 2 {root}"));
    std::thread::sleep(Duration::from_millis(500));
    maker.kill().unwrap();
    maker.wait().unwrap();
    rank.wait_with_output().unwrap()
}

/// Whether this is the process of ranks, which it then does: `body` for each, in a thread of its own.
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
        let runtime = Runtime::emulator(ranks.parse().unwrap()).unwrap();
        let device = runtime.device(0).unwrap();
        let root = RootInfo::new(&device).unwrap();
        println!("\n{}", text_of(&root));
        let (roots, ranks) = (vec![root].into(), ranks.parse().unwrap());
        body(Place { rank: 0, ranks, device, roots });
        return true;
    }
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    let (first, own, ranks) = (number(0), number(1), number(2));
    let runtime = Runtime::emulator_builder()
        .devices(ranks as usize)
        .deadline(Duration::from_secs(60))
        .build()
        .unwrap();
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
    /// Starts processes with so many ranks each; they run the test of this name.
    pub fn start(name: &str, each: &[u32]) -> Processes {
        let runtime = Runtime::emulator(1).unwrap();
        let device = runtime.device(0).unwrap();
        let root = |_| text_of(&RootInfo::new(&device).unwrap());
        let text = (0..ROOTS).map(root).collect::<Vec<_>>().join(" ");
        let ranks: u32 = each.iter().sum();
        let mut first = 0;
        let start = |own: &u32| {
            let child = again(name, &format!("{first} {own} {ranks} {text}"));
            first += own;
            child
        };
        let children = each.iter().map(start).collect();
        Processes { children, _runtime: runtime }
    }

    /// Waits for them all.
    pub fn outputs(self) -> Vec<Output> {
        self.children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
    }
}

/// Has every rank do something, in processes with so many ranks each; all must succeed.
pub fn run(name: &str, each: &[u32], body: impl Fn(Place) + Sync) {
    if is_rank(body) {
        std::process::exit(0);
    }
    for (at, output) in Processes::start(name, each).outputs().iter().enumerate() {
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "process {at} of {each:?}:\n{out}\n{err}");
    }
}
