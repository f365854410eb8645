//! The resources that an operator takes of a rank: threads, notifies, channels.
//!
//! A [`Plan`] is counted from the recorded tasks before anything is acquired. CANN's documentation
//! counts in two ways. A plan keeps the kinds of notifies apart, so that both counts can be read
//! from it. The notifies of its channels, two for each channel where ranks meet before and after
//! they move data, are the "Notify" of CANN's older tables.

use crate::task::{RankTasks, Signal, Task};
use std::fmt::{self, Display, Formatter};

/// The resources of a communicator, all engines together.
pub mod limits {
    /// The number of threads that can be acquired. The user's stream does not count.
    pub const THREADS: u32 = 200;
    /// The number of notifies of all threads together.
    pub const NOTIFIES: u32 = 65_536;
    /// The number of notifies of one thread.
    pub const THREAD_NOTIFIES: u32 = 65_535;
    /// The number of notifies of each end of a channel.
    pub const CHANNEL_NOTIFIES: u32 = 64;
    /// The number of notifies between the host and the AI CPU that expands an operator: one starts
    /// it, one ends it.
    pub const CONTROL_NOTIFIES: u32 = 2;
    /// The number of additional notifies of the main thread on an AI CPU: the host starts it with
    /// one.
    pub const START_NOTIFIES: u32 = 1;
}

/// The engine that works through the threads of an operator (CANN: `CommEngine`).
///
/// | | Atlas A2 | Atlas A3 | Ascend 950 |
/// | --- | --- | --- | --- |
/// | [`CpuTs`](Self::CpuTs) | HCCS | emulator only, HCCS | emulator only, ROCE |
/// | [`AicpuTs`](Self::AicpuTs) | emulator only, HCCS | emulator only, HCCS | emulator only, UB_CTP |
///
/// The last word is the protocol of the channels. "Emulator only": on hardware a kernel on the AI
/// CPU of the device drives these threads, and the host cannot. The emulator has no AI CPU, and
/// lets the host do it, so that an operator can be tried on every product. Nothing of this has run
/// on hardware.
///
/// Vector cores (AIV) and the communication unit (CCU) are engines of CANN too. They take programs
/// of their own, not these tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Task queues of the device that the host fills. The main thread is the stream itself.
    #[default]
    CpuTs,
    /// Task queues of the device that its AI CPU fills. The stream starts the main thread and waits
    /// for its end, with a notify each.
    AicpuTs,
}

/// A product: the chip, and the rules that come with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// Atlas A2.
    A2,
    /// Atlas A3.
    A3,
    /// Ascend 950.
    Ascend950,
}

impl Product {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Product::A2 => "A2",
            Product::A3 => "A3",
            Product::Ascend950 => "Ascend 950",
        }
    }
}

/// The resources that an operator takes of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The number of threads, with the main one.
    pub threads: u32,
    /// The number of notifies of the main thread.
    pub main_notifies: u32,
    /// The number of notifies of each sub-thread.
    pub sub_notifies: Vec<u32>,
    /// The peer of each channel, and the notifies of this end of it.
    pub channels: Vec<(u32, u32)>,
    /// The number of notifies between the host and the AI CPU.
    pub control_notifies: u32,
    /// The engine for which it is counted.
    pub engine: Engine,
}

impl Plan {
    /// The resources that the tasks of a rank take, on this engine.
    pub fn of(tasks: &RankTasks, engine: Engine) -> Plan {
        let mut notifies = vec![0; tasks.threads.len().max(1)];
        for step in tasks.threads.iter().flatten() {
            if let Task::Record(signal) | Task::Wait(signal) = step.task
                && let Signal::Thread { thread, index, .. } = signal
                && let Some(number) = notifies.get_mut(thread as usize)
            {
                *number = index.saturating_add(1).max(*number);
            }
        }
        Plan {
            threads: notifies.len() as u32,
            main_notifies: notifies[0],
            sub_notifies: notifies.split_off(1),
            channels: tasks.channels.clone(),
            control_notifies: match engine {
                Engine::AicpuTs => limits::CONTROL_NOTIFIES,
                Engine::CpuTs => 0,
            },
            engine,
        }
    }

    /// The number of notifies of all threads together.
    pub fn thread_notifies(&self) -> u64 {
        let all = [self.main_notifies].into_iter().chain(self.sub_notifies.iter().copied());
        all.map(u64::from).sum()
    }

    /// The number of notifies of this rank's ends of all channels together.
    pub fn channel_notifies(&self) -> u64 {
        self.channels.iter().map(|(_, notifies)| u64::from(*notifies)).sum()
    }

    /// The number of notifies of the channel that has most of them.
    pub fn notifies_per_channel(&self) -> u32 {
        self.channels.iter().map(|(_, notifies)| *notifies).max().unwrap_or(0)
    }

    /// The number of notifies of the sub-thread that has most of them.
    pub fn notifies_per_sub_thread(&self) -> u32 {
        self.sub_notifies.iter().copied().max().unwrap_or(0)
    }

    /// The number of notifies to acquire each thread with (CANN: `notifyNumPerThread`): the same
    /// for all. The stream, where it is the main thread, has its own number.
    pub fn notifies_per_thread(&self) -> u32 {
        let main = match self.engine {
            Engine::AicpuTs => self.main_notifies.saturating_add(limits::START_NOTIFIES),
            Engine::CpuTs => 0,
        };
        main.max(self.notifies_per_sub_thread())
    }

    /// The number of threads to acquire. The user's stream does not count where it is the main
    /// thread: it comes by itself.
    pub fn threads_to_acquire(&self) -> u32 {
        match self.engine {
            Engine::AicpuTs => self.threads,
            Engine::CpuTs => self.threads.saturating_sub(1),
        }
    }

    /// The resources that an operator with this plan and one with the other need, if they run one
    /// after the other and share as much as possible.
    pub fn with(mut self, other: &Plan) -> Plan {
        self.threads = self.threads.max(other.threads);
        self.main_notifies = self.main_notifies.max(other.main_notifies);
        if self.sub_notifies.len() < other.sub_notifies.len() {
            self.sub_notifies.resize(other.sub_notifies.len(), 0);
        }
        for (mine, its) in self.sub_notifies.iter_mut().zip(&other.sub_notifies) {
            *mine = *its.max(mine);
        }
        for (peer, notifies) in &other.channels {
            match self.channels.iter_mut().find(|(known, _)| known == peer) {
                Some((_, mine)) => *mine = *notifies.max(mine),
                None => self.channels.push((*peer, *notifies)),
            }
        }
        self.control_notifies = self.control_notifies.max(other.control_notifies);
        self
    }

    /// The numbers of a table, without the names of the peers.
    fn numbers(&self) -> [u64; ROWS.len()] {
        [
            self.threads.into(),
            self.main_notifies.into(),
            self.notifies_per_sub_thread().into(),
            self.thread_notifies(),
            self.notifies_per_thread().into(),
            self.channels.len() as u64,
            self.notifies_per_channel().into(),
            self.channel_notifies(),
            self.control_notifies.into(),
        ]
    }
}

/// The names of the lines of a table.
const ROWS: [&str; 9] = [
    "threads",
    "notifies of the main thread",
    "notifies of each sub-thread",
    "notifies of all threads",
    "notifies to acquire per thread",
    "channels",
    "notifies of each channel",
    "notifies of all channels",
    "control notifies",
];

/// The plans of all ranks, in the order of the ranks, as a table: its `Display` has one column for
/// ranks with equal plans.
pub fn table(plans: &[Plan]) -> Table {
    let mut columns: Vec<([u64; ROWS.len()], Vec<usize>)> = Vec::new();
    for (rank, plan) in plans.iter().enumerate() {
        let numbers = plan.numbers();
        match columns.iter_mut().find(|(known, _)| *known == numbers) {
            Some((_, ranks)) => ranks.push(rank),
            None => columns.push((numbers, vec![rank])),
        }
    }
    let all = columns.len() == 1;
    let name = |ranks: &[usize]| if all { "all ranks".into() } else { crate::words::ranks(ranks) };
    Table { columns: columns.iter().map(|(numbers, ranks)| (name(ranks), *numbers)).collect() }
}

/// See [`table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(String, [u64; ROWS.len()])>,
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let first = ROWS.iter().map(|row| row.len()).max().unwrap_or(0);
        let width = |(name, numbers): &(String, [u64; ROWS.len()])| {
            let digits = numbers.iter().map(|number| number.to_string().len()).max();
            name.len().max(digits.unwrap_or(0))
        };
        let widths: Vec<usize> = self.columns.iter().map(width).collect();
        write!(f, "{:first$}", "")?;
        for ((name, _), width) in self.columns.iter().zip(&widths) {
            write!(f, "  {name:>width$}")?;
        }
        for (at, row) in ROWS.iter().enumerate() {
            write!(f, "\n{row:first$}")?;
            for ((_, numbers), width) in self.columns.iter().zip(&widths) {
                write!(f, "  {:>width$}", numbers[at])?;
            }
        }
        Ok(())
    }
}
