//! Records operators for tests, task by task. Every task has the line that recorded it.

#![allow(dead_code, reason = "each test takes what it needs")]

use ascend_operator::check::{Report, check, check_all};
use ascend_operator::{Goal, Memory, Operator, Piece, RankTasks, ReduceOp, Signal, Step, Task};
use std::ops::Range;
use std::panic::Location;

/// The number of bytes of an element.
pub const ELEMENT: u64 = 4;

/// An operator under construction. Ranges are in elements.
pub struct Recorder {
    pub operator: Operator,
    /// The lines that a finding must point at.
    pub marks: Vec<u32>,
    marking: bool,
    /// The notify on which all ranks meet once more at the end.
    meets: Option<u32>,
}

pub fn input(rank: u32, range: Range<u64>) -> Piece {
    piece(rank, Memory::Input, range)
}

pub fn output(rank: u32, range: Range<u64>) -> Piece {
    piece(rank, Memory::Output, range)
}

pub fn buffer(rank: u32, range: Range<u64>) -> Piece {
    piece(rank, Memory::Buffer, range)
}

pub fn piece(rank: u32, memory: Memory, range: Range<u64>) -> Piece {
    Piece { rank, memory, start: range.start * ELEMENT, bytes: (range.end - range.start) * ELEMENT }
}

/// Returns a notify of a thread.
pub fn of_thread(rank: u32, thread: u32, index: u32) -> Signal {
    Signal::Thread { rank, thread, index }
}

/// Returns a notify at a rank's end of its channel with a peer.
pub fn of_channel(rank: u32, peer: u32, index: u32) -> Signal {
    Signal::Channel { rank, peer, index }
}

impl Recorder {
    /// Returns a recorder with only main threads, no channels, and a buffer of `buffer` elements
    /// for each rank.
    pub fn new(goal: Goal, ranks: u32, count: u64, buffer: u64) -> Recorder {
        let of = |rank| {
            let (input, output) = goal.sizes(rank, ranks, count);
            RankTasks {
                threads: vec![Vec::new()],
                input: input.saturating_mul(ELEMENT),
                output: output.saturating_mul(ELEMENT),
                buffer: buffer * ELEMENT,
                ..RankTasks::default()
            }
        };
        let ranks = (0..ranks).map(of).collect();
        let operator = Operator {
            name: "test".into(),
            goal,
            count,
            element: ELEMENT,
            floats: false,
            handshake: false,
            source: None,
            ranks,
        };
        Recorder { operator, marks: Vec::new(), marking: false, meets: None }
    }

    /// Marks the task that is recorded next, so that a finding must point at it.
    pub fn here(&mut self) -> &mut Self {
        self.marking = true;
        self
    }

    #[track_caller]
    pub fn task(&mut self, rank: u32, thread: u32, task: Task) -> &mut Self {
        if std::mem::take(&mut self.marking) {
            self.marks.push(Location::caller().line());
        }
        let threads = &mut self.operator.ranks[rank as usize].threads;
        if threads.len() <= thread as usize {
            threads.resize(thread as usize + 1, Vec::new());
        }
        threads[thread as usize].push(Step { task, source: Location::caller() });
        self
    }

    #[track_caller]
    pub fn copy(&mut self, rank: u32, thread: u32, from: Piece, to: Piece) -> &mut Self {
        self.task(rank, thread, Task::Copy { from, to })
    }

    #[track_caller]
    pub fn sum(&mut self, rank: u32, thread: u32, from: Piece, to: Piece) -> &mut Self {
        self.task(rank, thread, Task::Reduce { from, to, op: ReduceOp::Sum })
    }

    #[track_caller]
    pub fn record(&mut self, rank: u32, thread: u32, signal: Signal) -> &mut Self {
        self.task(rank, thread, Task::Record(signal))
    }

    #[track_caller]
    pub fn wait(&mut self, rank: u32, thread: u32, signal: Signal) -> &mut Self {
        self.task(rank, thread, Task::Wait(signal))
    }

    /// Opens both ends of a channel.
    pub fn channel(&mut self, a: u32, b: u32, notifies: u32) -> &mut Self {
        self.operator.ranks[a as usize].channels.push((b, notifies));
        self.operator.ranks[b as usize].channels.push((a, notifies));
        self
    }

    /// Opens a channel between every two ranks.
    pub fn all_channels(&mut self, notifies: u32) -> &mut Self {
        let ranks = self.operator.ranks.len() as u32;
        for a in 0..ranks {
            for b in a + 1..ranks {
                self.channel(a, b, notifies);
            }
        }
        self
    }

    /// Makes the main threads of all ranks with channels wait for each other.
    pub fn meet(&mut self, notify: u32) -> &mut Self {
        for rank in 0..self.operator.ranks.len() as u32 {
            let channels = self.operator.ranks[rank as usize].channels.clone();
            for (peer, _) in &channels {
                self.record(rank, 0, of_channel(*peer, rank, notify));
            }
            for (peer, _) in &channels {
                self.wait(rank, 0, of_channel(rank, *peer, notify));
            }
        }
        self
    }

    /// Makes the main threads of all ranks with channels wait for each other now, on the first
    /// notify. In [`twins`] they do so once more at the end, on the second notify, so that the
    /// tasks in between stay within the operator.
    pub fn meeting(&mut self, notifies: [u32; 2]) -> &mut Self {
        self.meets = Some(notifies[1]);
        self.meet(notifies[0])
    }

    /// Makes the main thread start a sub-thread.
    #[track_caller]
    pub fn start(&mut self, rank: u32, thread: u32) -> &mut Self {
        self.record(rank, 0, of_thread(rank, thread, 0)).wait(
            rank,
            thread,
            of_thread(rank, thread, 0),
        )
    }

    /// Ends a sub-thread, and makes the main thread wait for it.
    #[track_caller]
    pub fn end(&mut self, rank: u32, thread: u32) -> &mut Self {
        let signal = of_thread(rank, 0, thread - 1);
        self.record(rank, thread, signal).wait(rank, 0, signal)
    }

    /// Makes a rank record one of its peer's notifies, and the peer wait for it, each on one of its
    /// threads.
    #[track_caller]
    pub fn tell(&mut self, from: (u32, u32), to: (u32, u32), index: u32) -> &mut Self {
        let signal = of_channel(to.0, from.0, index);
        self.record(from.0, from.1, signal).wait(to.0, to.1, signal)
    }
}

/// Returns a recorder for another goal, with eight elements. There is a channel of four notifies
/// between every two ranks.
pub fn other(ranks: u32) -> Recorder {
    let mut recorder = Recorder::new(Goal::Other { input: 8, output: 8 }, ranks, 0, 8);
    recorder.all_channels(4);
    recorder
}

/// Returns a recorder as [`other`] does, with two more notifies for each channel. On these the
/// ranks meet before and after the operator.
pub fn meeting(ranks: u32) -> Recorder {
    let mut recorder = Recorder::new(Goal::Other { input: 8, output: 8 }, ranks, 0, 8);
    recorder.all_channels(6).meeting([4, 5]);
    recorder
}

/// Returns the rules of a report's findings.
pub fn rules(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.rule).collect()
}

/// Checks a broken operator and its repaired twin. The broken one must break this rule once, in the
/// marked lines, and the finding must contain these words. The twin must have no finding.
pub fn twins(
    rule: &str,
    words: &[&str],
    new: impl Fn() -> Recorder,
    build: impl Fn(&mut Recorder, bool),
) {
    let [broken, good] = [true, false].map(|broken| {
        let mut recorder = new();
        build(&mut recorder, broken);
        if let Some(notify) = recorder.meets {
            recorder.meet(notify);
        }
        recorder
    });
    expect(&check(&good.operator), "", &[], &[]);
    expect(&check(&broken.operator), rule, words, &broken.marks);
}

/// Checks several operators on one communicator, and their repaired twins, as [`twins`] does.
pub fn twin_rows(rule: &str, words: &[&str], build: impl Fn(bool) -> Vec<Recorder>) {
    let operators = |row: &[Recorder]| -> Vec<Operator> {
        row.iter().map(|recorder| recorder.operator.clone()).collect()
    };
    let (broken, good) = (build(true), build(false));
    expect(&check_all(&operators(&good)), "", &[], &[]);
    let marks: Vec<u32> = broken.iter().flat_map(|recorder| recorder.marks.clone()).collect();
    expect(&check_all(&operators(&broken)), rule, words, &marks);
}

/// Checks that a report has one finding, of this rule and in these lines. If `rule` is empty, it
/// must have none.
#[track_caller]
pub fn expect(report: &Report, rule: &str, words: &[&str], lines: &[u32]) {
    let text = report.to_string();
    if rule.is_empty() {
        assert!(report.is_good() && report.skipped.is_empty(), "{text}");
        return;
    }
    assert_eq!(rules(report), [rule], "{text}");
    for words in words {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    let mut found: Vec<u32> =
        report.findings[0].places.iter().map(|place| place.source.line()).collect();
    let mut lines = lines.to_vec();
    found.sort_unstable();
    lines.sort_unstable();
    assert_eq!(found, lines, "{text}");
}
