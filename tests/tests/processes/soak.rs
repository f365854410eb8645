//! Two processes continue to run while a third one joins them, is killed, and is followed by a new
//! one. Nothing of the dead processes stays behind in the two.
//!
//! `cargo test` makes a few rounds; `HCCL_TEST_SOAK=3600` continues for an hour.

use std::io::{BufRead, Read, Write};
use std::time::{Duration, Instant};

use hccl::prelude::*;

use crate::ranks::{
    CONNECT_TIMEOUT, Place, command, guest_place, host_place, place, root_among, runtime, text_of,
};
use crate::rounds::{
    Aim, MISSING_AFTER, Order, Phase, RANKS, Started, is_rank_of_a_round, live, rank_of_a_round,
    start, tell,
};
use crate::tracer::Moment;

const NAME: &str = "soak::the_dead_leave_nothing_behind_in_those_that_live";
/// The name of a memory file, as the system shows it.
const MEMORY_FILE: &str = "/memfd:ascend-emulator";
/// The place of a process that continues to run.
const LIVES_ON: &str = "lives on";

/// The number of rounds before the first count of resources, and half the number after it.
const FEW: u64 = 6;

/// The resources that a process holds.
#[derive(Clone, Copy, Debug)]
struct Belongings {
    descriptors: usize,
    threads: usize,
    /// The number of sockets with the address of the process.
    sockets: usize,
    /// The number of all mappings. `shared_mappings` is the number of those of shared memory.
    mappings: usize,
    shared_mappings: usize,
    /// The bytes of the memory files that the process has open: its own and those of other
    /// processes.
    shared: usize,
    /// The bytes in use on the heap of the process.
    heap: usize,
}

/// The number of additional mappings that the allocator and the stacks of threads may take.
const MORE_MAPPINGS: usize = 24;
/// The bytes of its own devices' memory that a process may touch later. A leak of a dead process is
/// larger.
const MORE_SHARED: usize = 1 << 20;
/// The bytes that the standard library keeps after a backtrace: the tables of the program.
const MORE_HEAP: usize = 128 << 20;

impl Belongings {
    fn of_this_process() -> Self {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            sockets: sockets_of(std::process::id()),
            mappings: maps.lines().count(),
            shared_mappings: maps.matches(MEMORY_FILE).count(),
            shared: shared_bytes(),
            // SAFETY: the call has no preconditions.
            heap: unsafe { libc::mallinfo2() }.uordblks,
        }
    }

    fn line(self) -> String {
        let Self { descriptors, threads, sockets, mappings, shared_mappings, shared, heap } = self;
        [descriptors, threads, sockets, mappings, shared_mappings, shared, heap]
            .map(|number| number.to_string())
            .join(" ")
    }

    fn from_line(line: &str) -> Self {
        let [descriptors, threads, sockets, mappings, shared_mappings, shared, heap] =
            line.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<usize>>()[..]
        else {
            panic!("{line}")
        };
        Self { descriptors, threads, sockets, mappings, shared_mappings, shared, heap }
    }

    /// Returns whether these resources are not more than `before`, apart from the allowances.
    fn is_within(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.sockets <= before.sockets
            && self.shared_mappings <= before.shared_mappings
            && self.shared <= before.shared + MORE_SHARED
            && self.mappings <= before.mappings + MORE_MAPPINGS
            && self.heap <= before.heap + MORE_HEAP
    }
}

/// Returns the number of sockets of the machine that have an address of a process.
fn sockets_of(process: u32) -> usize {
    let all = std::fs::read_to_string("/proc/net/unix").unwrap();
    all.matches(&format!("@ascend-emulator-{process}-")).count()
}

/// Returns the size of all memory files that this process has open, each counted once, in bytes.
fn shared_bytes() -> usize {
    use std::os::unix::fs::MetadataExt;
    let mut files = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let name = std::fs::read_link(entry.path()).unwrap_or_default();
        if name.to_string_lossy().starts_with(MEMORY_FILE)
            && let Ok(about) = std::fs::metadata(entry.path())
        {
            files.insert(about.ino(), about.blocks() * 512);
        }
    }
    files.values().sum::<u64>() as usize
}

/// Runs a process that continues to run, and does the commands that it reads.
fn live_on() {
    let runtime = runtime(RANKS);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["make"] => {
                let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
                println!("\n{}", text_of(&root));
            }
            ["join", rank, dead, root] => {
                let rank: u32 = rank.parse().unwrap();
                let device = runtime.device(rank as usize).unwrap();
                let place = Place::new(rank, RANKS, device, root);
                let error = live(&place, false, |_| ()).unwrap_err();
                tell(&error, dead.parse().unwrap());
            }
            _ => {
                // A communicator that was dropped before its operations are complete is destroyed
                // by the next allocation on its device.
                for device in (0..RANKS as usize).map(|index| runtime.device(index).unwrap()) {
                    let stream = device.stream().unwrap();
                    drop(device.zeros::<u8>(1, &stream).unwrap());
                }
                println!("\nhas {}", Belongings::of_this_process().line())
            }
        }
    }
}

/// The two processes that continue to run, and the random numbers that choose the actions of the
/// third one.
struct Soak {
    living: [Started; 2],
    random: fastrand::Rng,
    rounds: u64,
}

impl Soak {
    fn begin() -> Self {
        let begin = || {
            let mut command = command(NAME, LIVES_ON);
            command.env(CONNECT_TIMEOUT, MISSING_AFTER.to_string());
            start(command, None)
        };
        Self { living: [begin(), begin()], random: fastrand::Rng::with_seed(19), rounds: 0 }
    }

    /// Lets a third process join the two, and kills it or lets it leave. In every second round it
    /// has made the root info; otherwise it is a guest like one of the two.
    fn round(&mut self, phase: Phase, moment: Moment) {
        self.rounds += 1;
        let is_home = self.rounds.is_multiple_of(2);
        let rank = if is_home { 0 } else { RANKS - 1 };
        let aim = Aim { rank, phase, order: Order::Last, moment, connect_timeout: MISSING_AFTER };
        let start = |place: &str| start(rank_of_a_round(NAME, place, &aim), Some(aim));
        let (third, root) = if is_home {
            let mut third = start(&host_place(RANKS));
            let root = third.root();
            (third, root)
        } else {
            self.living[0].say("make");
            let root = self.living[0].root();
            (start(&guest_place(rank, 1, RANKS, &root)), root)
        };
        for (own, one) in (u32::from(is_home)..).zip(&mut self.living) {
            one.say(&format!("join {own} {rank} {root}"));
        }
        for one in &mut self.living {
            let told = one.told().unwrap_or_else(|| panic!("{aim:?}: {}", one.complaint()));
            // On a busy machine the third process may be too slow to arrive before the limit.
            let known = ["has ended", "did not call"].iter().any(|part| told.text.contains(part));
            assert!(told.gone || told.missing || known, "{aim:?}: {told:?}");
        }
        drop(third.lives);
        third.end.join().unwrap();
        assert_eq!(sockets_of(third.process), 0, "{aim:?}: an address stays behind");
    }

    fn round_with_a_death(&mut self) {
        let phase = Phase::ALL[self.random.usize(0..Phase::ALL.len())];
        let moment = Moment::Time(Duration::from_micros(self.random.u64(0..20_000)));
        self.round(phase, moment);
    }

    fn belongings(&mut self) -> [Belongings; 2] {
        // The processes have got their errors, but may still have to clean up.
        std::thread::sleep(Duration::from_millis(300));
        self.living.each_mut().map(Started::belongings)
    }

    /// Asserts that neither process holds more than before. Retries, because their threads may take
    /// a while to clean up.
    fn check(&mut self, before: &[Belongings; 2]) -> [Belongings; 2] {
        let began = Instant::now();
        loop {
            let now = self.belongings();
            if now.iter().zip(before).all(|(now, before)| now.is_within(before)) {
                return now;
            }
            let has_waited = began.elapsed() > Duration::from_secs(20);
            assert!(!has_waited, "after {} rounds: {now:#?}, before {before:#?}", self.rounds);
        }
    }
}

impl Started {
    fn say(&mut self, words: &str) {
        writeln!(self.lives, "{words}").unwrap();
    }

    fn root(&mut self) -> String {
        root_among(&mut self.out.by_ref().lines())
    }

    fn belongings(&mut self) -> Belongings {
        self.say("count");
        let mut lines = self.out.by_ref().lines().map(|line| line.unwrap());
        let line = lines.find_map(|line| line.strip_prefix("has ").map(str::to_owned)).unwrap();
        Belongings::from_line(&line)
    }
}

#[test]
fn the_dead_leave_nothing_behind_in_those_that_live() {
    if place().as_deref() == Some(LIVES_ON) {
        live_on();
        std::process::exit(0);
    }
    if is_rank_of_a_round() {
        std::process::exit(0);
    }
    let length = std::env::var("HCCL_TEST_SOAK").ok().map(|seconds| seconds.parse().unwrap());
    let began = Instant::now();
    let mut soak = Soak::begin();
    for _ in 0..FEW {
        soak.round_with_a_death();
    }
    let before = soak.belongings();
    while match length {
        Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
        None => soak.rounds < 3 * FEW,
    } {
        soak.round_with_a_death();
        if soak.rounds.is_multiple_of(100) {
            let now = soak.check(&before);
            println!("{} rounds: {now:?}", soak.rounds);
        }
    }
    let after = soak.check(&before);
    println!("{} rounds; before {before:#?}, after {after:#?}", soak.rounds);
    for one in soak.living {
        let said = one.end_with_complaint();
        assert!(!said.contains("panicked"), "{said}");
    }
}
