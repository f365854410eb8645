//! A round of deaths: three ranks, each a process, do everything that ranks do. One of them is
//! killed at a chosen moment. The other ranks report which error they got, and when.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hccl::Result;
use hccl::prelude::*;

use crate::ranks::{CONNECT_TIMEOUT, Place, command, guest_place, host_place, is_rank, root_among};
use crate::tracer::{Moment, Trace, mark, now, spawn, trace};

/// The variable that gives the ranks the dying rank, its phase, and its [`Order`].
const AIM: &str = "HCCL_TEST_AIM";
pub const RANKS: u32 = 3;
/// The delay of the rank that comes last.
const LATER: Duration = Duration::from_millis(80);
/// The connect timeout for rounds in which a rank dies before it has arrived, in milliseconds.
pub const MISSING_AFTER: u32 = 2500;
/// The number of elements of a large operation, which takes some milliseconds.
const LARGE: usize = 4 << 20;

/// The phases of a rank, in this order. The rank that dies sets a mark before each phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Join = 1,
    /// The first operation, before which the ranks announce their calls once.
    FirstMeeting,
    Barrier,
    Reduce,
    LargeReduce,
    FirstMessages,
    Messages,
    LargeMessages,
    Split,
    PartMeeting,
    LeavePart,
    Leave,
    End,
}

impl Phase {
    pub const ALL: [Phase; 13] = [
        Self::Join,
        Self::FirstMeeting,
        Self::Barrier,
        Self::Reduce,
        Self::LargeReduce,
        Self::FirstMessages,
        Self::Messages,
        Self::LargeMessages,
        Self::Split,
        Self::PartMeeting,
        Self::LeavePart,
        Self::Leave,
        Self::End,
    ];
}

/// The order in which the ranks reach the last phase of the dying rank: that rank first or last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    First,
    Last,
}

/// A rank, and the moment at which it is killed.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    pub rank: u32,
    pub phase: Phase,
    pub order: Order,
    pub moment: Moment,
    /// The limit for joining, in milliseconds.
    pub connect_timeout: u32,
}

/// The error that a living rank got, and the time when it got it.
#[derive(Debug)]
pub struct Told {
    pub at: u64,
    /// Whether the error lists the killed rank as gone. `missing` is the same for a rank that has
    /// not arrived.
    pub gone: bool,
    pub missing: bool,
    pub text: String,
}

pub struct Round {
    /// The record of the rank that was killed.
    pub trace: Trace,
    pub told: Vec<Told>,
}

/// Runs a rank of a round. A rank that does not leave continues until it gets an error.
pub fn live(place: &Place, leaves: bool, before: impl Fn(Phase)) -> Result<()> {
    let Place { rank, ranks, device, .. } = place;
    let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let stream = device.stream()?;
    let mut small = device.upload(&[1.0f32; 8], &stream)?;
    let mut theirs = device.zeros::<f32>(8, &stream)?;
    let mut large = device.upload(&vec![1.0f32; LARGE], &stream)?;
    let mut all_theirs = device.zeros::<f32>(LARGE, &stream)?;
    before(Phase::Join);
    let mut comm = place.joined()?;
    before(Phase::FirstMeeting);
    comm.barrier(&stream)?.wait()?;
    before(Phase::Barrier);
    comm.barrier(&stream)?.wait()?;
    before(Phase::Reduce);
    comm.all_reduce_in_place(&mut small, Max, &stream)?.wait()?;
    before(Phase::LargeReduce);
    for _ in 0..4 {
        comm.all_reduce_in_place(&mut large, Max, &stream)?.wait()?;
    }
    for phase in [Phase::FirstMessages, Phase::Messages] {
        before(phase);
        comm.batch().send(&small, next).recv(&mut theirs, previous).submit(&stream)?.wait()?;
    }
    before(Phase::LargeMessages);
    for _ in 0..4 {
        comm.batch().send(&large, next).recv(&mut all_theirs, previous).submit(&stream)?.wait()?;
    }
    before(Phase::Split);
    let mut part = comm.split(Some(0), *rank).wait()?.expect("its color has ranks");
    before(Phase::PartMeeting);
    part.barrier(&stream)?.wait()?;
    before(Phase::LeavePart);
    drop(part);
    before(Phase::Leave);
    if !leaves {
        loop {
            comm.barrier(&stream)?.wait()?;
        }
    }
    drop(comm);
    before(Phase::End);
    Ok(())
}

/// Reports the error that a rank got.
pub fn tell(error: &hccl::Error, dead: u32) {
    let at = now();
    let [gone, missing] = [error.gone_ranks(), error.missing_ranks()].map(|it| it.contains(&dead));
    println!("\ntold {at} {gone} {missing} {}", error.to_string().replace('\n', " "));
}

/// Returns whether this is the process of a rank. If so, the rank has run before the return.
pub fn is_rank_of_a_round() -> bool {
    is_rank(|place| {
        let aim = std::env::var(AIM).unwrap();
        let [rank, phase, order] = aim.split(' ').collect::<Vec<_>>()[..] else { panic!("{aim}") };
        let dies = rank == place.rank.to_string();
        let is_late = dies == (order == format!("{:?}", Order::Last));
        let before = |next: Phase| {
            if is_late && phase == format!("{next:?}") {
                // A process that starts has more to do before this phase.
                std::thread::sleep(if next == Phase::Join { 5 * LATER } else { LATER });
            }
            if dies {
                mark();
            }
        };
        let Err(error) = live(&place, dies, before) else { return };
        tell(&error, rank.parse().unwrap());
        if dies {
            return;
        }
        // The process ends when all ranks have got their error. Otherwise some would report this
        // end.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    })
}

/// A process, which a thread of its own has started. The thread traces the process or only waits.
pub struct Started {
    pub out: BufReader<ChildStdout>,
    err: ChildStderr,
    /// The process does not end by itself as long as this pipe is open.
    pub lives: ChildStdin,
    pub process: u32,
    pub end: JoinHandle<Trace>,
}

pub fn start(mut command: Command, aim: Option<Aim>) -> Started {
    let (tell, started) = mpsc::channel();
    let pipes = move |child: &mut Child| {
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        tell.send((out, err, child.stdin.take().unwrap(), child.id())).unwrap();
    };
    command.stdin(Stdio::piped());
    let end = std::thread::spawn(move || match aim {
        Some(aim) => {
            let mut child = spawn(&mut command);
            pipes(&mut child);
            trace(&child, aim.phase as usize, aim.moment)
        }
        None => {
            let mut child = command.spawn().unwrap();
            pipes(&mut child);
            child.wait().unwrap();
            Trace::default()
        }
    });
    let (out, err, lives, process) = started.recv().unwrap();
    Started { out: BufReader::new(out), err, lives, process, end }
}

/// Returns the command that runs a rank of a round of a test.
pub fn rank_of_a_round(name: &str, place: &str, aim: &Aim) -> Command {
    let mut command = command(name, place);
    command.env(AIM, format!("{} {:?} {:?}", aim.rank, aim.phase, aim.order));
    command.env(CONNECT_TIMEOUT, aim.connect_timeout.to_string());
    command
}

/// Runs the ranks of a test, one of which dies. Asserts that all other ranks get an error.
pub fn round(name: &str, aim: Aim) -> Round {
    let mut root = String::new();
    let mut all = Vec::new();
    for rank in 0..RANKS {
        let place = match rank {
            0 => host_place(RANKS),
            _ => guest_place(rank, 1, RANKS, &root),
        };
        let command = rank_of_a_round(name, &place, &aim);
        let mut started = start(command, (rank == aim.rank).then_some(aim));
        if rank == 0 {
            root = root_among(&mut started.out.by_ref().lines());
        }
        all.push(started);
    }
    let traced = all.remove(aim.rank as usize);
    let told = all
        .iter_mut()
        .map(|one| one.told().unwrap_or_else(|| panic!("{aim:?}: {}", one.complaint())));
    let told = told.collect();
    let ends = all.into_iter().map(|Started { lives, end, .. }| {
        drop(lives);
        end
    });
    ends.collect::<Vec<_>>().into_iter().for_each(|end| drop(end.join().unwrap()));
    Round { trace: traced.end.join().unwrap(), told }
}

impl Started {
    /// Returns the error that the rank reports, or `None` if it ends without one.
    pub fn told(&mut self) -> Option<Told> {
        let mut lines = self.out.by_ref().lines().map(|line| line.unwrap());
        let line = lines.find_map(|line| line.strip_prefix("told ").map(str::to_owned))?;
        let [at, gone, missing, text] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let [gone, missing] = [gone, missing].map(|word| word == "true");
        Some(Told { at: at.parse().unwrap(), gone, missing, text: text.into() })
    }

    /// Lets the process end, and returns its standard error.
    pub fn end_with_complaint(self) -> String {
        let Self { lives, mut err, .. } = self;
        drop(lives);
        let mut text = String::new();
        err.read_to_string(&mut text).unwrap();
        text
    }

    pub fn complaint(&mut self) -> String {
        let mut text = String::new();
        self.err.read_to_string(&mut text).unwrap();
        text
    }
}
