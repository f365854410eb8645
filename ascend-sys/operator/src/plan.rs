//! The resources that an operator takes from a rank: threads, notifies and channels.
//!
//! A [`Plan`] is counted from the recorded tasks before anything is acquired. CANN's documentation
//! counts notifies in two ways. A plan keeps the kinds of notifies apart, so that both counts can
//! be read from it. In operators whose ranks meet before and after they move data, each channel has
//! two notifies; those are the "Notify" of CANN's older tables.

use crate::task::{RankTasks, Signal, Task};
use std::fmt::{self, Display, Formatter};

/// The limits of a communicator's resources, for all engines together.
pub mod limits {
    /// The greatest number of threads that can be acquired. The user's stream does not count.
    pub const THREADS: u32 = 200;
    /// The greatest number of notifies of all threads together.
    pub const NOTIFIES: u32 = 65_536;
    /// The greatest number of notifies of one thread.
    pub const THREAD_NOTIFIES: u32 = 65_535;
    /// The greatest number of notifies of each end of a channel.
    pub const CHANNEL_NOTIFIES: u32 = 64;
    /// The number of notifies between the host and the AI CPU that expands an operator: one starts
    /// the operator, and one ends it.
    pub const CONTROL_NOTIFIES: u32 = 2;
    /// The number of additional notifies of the main thread on an AI CPU: the host starts the
    /// thread with one.
    pub const START_NOTIFIES: u32 = 1;
}

/// The engine that executes the threads of an operator (CANN: `CommEngine`).
///
/// | | Atlas A2 | Atlas A3 | Ascend 950 |
/// | --- | --- | --- | --- |
/// | [`CpuTs`](Self::CpuTs) | HCCS | emulator only, HCCS | emulator only, ROCE |
/// | [`AicpuTs`](Self::AicpuTs) | emulator only, HCCS | emulator only, HCCS | emulator only, UB_CTP |
///
/// The last word is the protocol of the channels. "Emulator only" means that on hardware the host
/// cannot drive these threads: a kernel on the AI CPU of the device does. The emulator has no AI
/// CPU and lets the host drive them, so that an operator can be tried on every product. None of
/// these engines has been tried on hardware.
///
/// Vector cores (AIV) and the communication unit (CCU) are engines of CANN too. They run programs
/// of their own instead of these tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Task queues of the device, filled by the host. The main thread is the user's stream itself.
    #[default]
    CpuTs,
    /// Task queues of the device, filled by its AI CPU. The user's stream starts the main thread
    /// with one notify and waits for its end with another one.
    AicpuTs,
}

/// A product: the chip, and its rules.
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

/// The resources that an operator takes from one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The number of threads, including the main thread.
    pub threads: u32,
    /// The number of notifies of the main thread.
    pub main_notifies: u32,
    /// The number of notifies of each sub-thread.
    pub sub_notifies: Vec<u32>,
    /// The channels: the peer of each, and the number of notifies of this end.
    pub channels: Vec<(u32, u32)>,
    /// The number of notifies between the host and the AI CPU.
    pub control_notifies: u32,
    /// The engine for which the plan is counted.
    pub engine: Engine,
}

impl Plan {
    /// Returns the resources that the tasks of a rank take on this engine.
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

    /// Returns the number of notifies of all threads together.
    pub fn thread_notifies(&self) -> u64 {
        let all = [self.main_notifies].into_iter().chain(self.sub_notifies.iter().copied());
        all.map(u64::from).sum()
    }

    /// Returns the number of notifies of this rank's ends of all channels together.
    pub fn channel_notifies(&self) -> u64 {
        self.channels.iter().map(|(_, notifies)| u64::from(*notifies)).sum()
    }

    /// Returns the number of notifies of the channel that has the most.
    pub fn notifies_per_channel(&self) -> u32 {
        self.channels.iter().map(|(_, notifies)| *notifies).max().unwrap_or(0)
    }

    /// Returns the number of notifies of the sub-thread that has the most.
    pub fn notifies_per_sub_thread(&self) -> u32 {
        self.sub_notifies.iter().copied().max().unwrap_or(0)
    }

    /// Returns the number of notifies with which to acquire each thread (CANN:
    /// `notifyNumPerThread`). It is the same for all threads. If the user's stream is the main
    /// thread, its notifies are counted apart.
    pub fn notifies_per_thread(&self) -> u32 {
        let main = match self.engine {
            Engine::AicpuTs => self.main_notifies.saturating_add(limits::START_NOTIFIES),
            Engine::CpuTs => 0,
        };
        main.max(self.notifies_per_sub_thread())
    }

    /// Returns the number of threads to acquire. If the user's stream is the main thread, it does
    /// not count, because it need not be acquired.
    pub fn threads_to_acquire(&self) -> u32 {
        match self.engine {
            Engine::AicpuTs => self.threads,
            Engine::CpuTs => self.threads.saturating_sub(1),
        }
    }

    /// Returns the resources for an operator with this plan and an operator with the other plan, if
    /// the two run one after the other and share as much as possible.
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

    /// Returns the numbers of a table column, without the names of the peers.
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

/// Returns the plans of all ranks as a table. `plans` is in the order of the ranks. Ranks whose
/// plans have the same numbers share a column of the table's `Display`.
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

/// A table of plans, made by [`table`].
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
