//! A rank is killed at chosen points of everything that it does, and every other rank gets an error
//! that names it.
//!
//! Rank 0 is in the process that has made the root info, which is called the home. Ranks 1 and 2
//! are its guests; the process of rank 2 connects to that of rank 1. A phase with system calls
//! makes the same calls in every run, so its points are calls. The points of other phases are
//! fractions of their instructions, which are stepped through one by one, or of their time.
//!
//! `cargo test` tries every fourth point, `HCCL_TEST_FULL=1` tries all of them, and
//! `HCCL_TEST_ROUNDS=1000` makes a thousand rounds, point after point.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use libc::{
    SYS_accept4, SYS_bind, SYS_connect, SYS_memfd_create, SYS_pidfd_open, SYS_recvmsg, SYS_sendmsg,
};

use crate::rounds::Order::{self, First, Last};
use crate::rounds::Phase::{self, *};
use crate::rounds::{Aim, MISSING_AFTER, Round, is_rank_of_a_round, round};
use crate::tracer::Moment;

/// The moment at which a rank is killed.
#[derive(Clone, Copy)]
enum When {
    /// Before the n-th call of a kind, or after it for `After`.
    Before(i64, u32),
    After(i64, u32),
    /// When this many hundredths of the instructions of the phase are done.
    Steps(u64),
    /// When this many hundredths of the phase's time have passed.
    Time(u64),
    /// When the rank has waited for the other ranks for a while.
    Waits,
}
use When::{After, Before, Steps, Time, Waits};

/// The way in which the other ranks report the dead rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The rank is gone.
    Gone,
    /// The rank left before it died, and reported that.
    Left,
    /// The rank had not arrived yet. The other ranks list it as missing when their connect timeout
    /// ends.
    Missing,
    /// The process of the rank has made the root info, and had not reported the arrival of the
    /// rank. The other ranks name the process.
    Unreachable,
}
use Known::{Gone, Left, Missing, Unreachable};

struct Point {
    name: &'static str,
    rank: u32,
    phase: Phase,
    order: Order,
    when: When,
    known: Known,
}

const fn point(
    name: &'static str,
    rank: u32,
    (phase, order): (Phase, Order),
    when: When,
    known: Known,
) -> Point {
    Point { name, rank, phase, order, when, known }
}

const POINTS: &[Point] = &[
    point("guest: its own address is made", 1, (Join, Last), After(SYS_bind, 1), Missing),
    point("guest: about to connect", 1, (Join, Last), Before(SYS_connect, 1), Missing),
    point("guest: connected, has said nothing", 1, (Join, Last), Before(SYS_sendmsg, 1), Missing),
    point("guest: has said which process it is", 1, (Join, Last), After(SYS_sendmsg, 1), Missing),
    point("guest: is welcome", 1, (Join, Last), After(SYS_recvmsg, 1), Missing),
    point("guest: its rank has come, as the last", 1, (Join, Last), After(SYS_sendmsg, 2), Gone),
    point("guest: its rank has come, as the first", 1, (Join, First), After(SYS_sendmsg, 2), Gone),
    point("guest: has heard who is there", 1, (Join, First), After(SYS_recvmsg, 2), Gone),
    point("guest: has heard who sits where", 1, (Join, Last), After(SYS_recvmsg, 2), Gone),
    point("guest: another guest comes to it", 1, (Join, Last), After(SYS_accept4, 1), Gone),
    point("guest: has heard the other guest", 1, (Join, Last), After(SYS_recvmsg, 3), Gone),
    point("guest: has welcomed the other guest", 1, (Join, Last), After(SYS_sendmsg, 3), Gone),
    point("guest: watches the other guest", 1, (Join, Last), After(SYS_pidfd_open, 2), Gone),
    point("guest: its side is made, not said", 1, (Join, Last), Before(SYS_sendmsg, 4), Gone),
    point("guest: has said that it is ready", 1, (Join, Last), After(SYS_sendmsg, 4), Gone),
    point("guest: has heard that all are ready", 1, (Join, Last), After(SYS_recvmsg, 4), Gone),
    point("goer: about to go to the other guest", 2, (Join, Last), Before(SYS_connect, 2), Gone),
    point("goer: has spoken to the other guest", 2, (Join, Last), After(SYS_sendmsg, 3), Gone),
    point("goer: is welcome at the other guest", 2, (Join, Last), After(SYS_recvmsg, 3), Gone),
    point("goer: its side is made, not said", 2, (Join, Last), Before(SYS_sendmsg, 4), Gone),
    point("home: a guest has connected", 0, (Join, First), After(SYS_accept4, 1), Unreachable),
    point("home: has heard a guest", 0, (Join, First), After(SYS_recvmsg, 1), Unreachable),
    point("home: has welcomed a guest", 0, (Join, First), After(SYS_sendmsg, 1), Unreachable),
    point("home: has said who is there", 0, (Join, First), After(SYS_sendmsg, 5), Gone),
    point("home: the shared words are made", 0, (Join, First), After(SYS_memfd_create, 1), Gone),
    point("home: has told one who sits where", 0, (Join, First), After(SYS_sendmsg, 6), Gone),
    point("home: has told both who sits where", 0, (Join, First), After(SYS_sendmsg, 7), Gone),
    point("home: has heard that one is ready", 0, (Join, First), After(SYS_recvmsg, 5), Gone),
    point("home: has told one to go on", 0, (Join, First), After(SYS_sendmsg, 8), Gone),
    point("home: has told both to go on", 0, (Join, First), After(SYS_sendmsg, 9), Gone),
    point(
        "first meeting: about to say its call",
        1,
        (FirstMeeting, Last),
        Before(SYS_sendmsg, 1),
        Gone,
    ),
    point("first meeting: has told one", 1, (FirstMeeting, Last), After(SYS_sendmsg, 1), Gone),
    point("first meeting: has told both", 2, (FirstMeeting, Last), After(SYS_sendmsg, 2), Gone),
    point("first meeting: waits", 0, (FirstMeeting, First), Waits, Gone),
    point("barrier: an eighth", 1, (Barrier, Last), Steps(12), Gone),
    point("barrier: three eighths", 2, (Barrier, Last), Steps(37), Gone),
    point("barrier: five eighths", 0, (Barrier, Last), Steps(62), Gone),
    point("barrier: seven eighths", 1, (Barrier, Last), Steps(87), Gone),
    point("barrier: waits", 2, (Barrier, First), Waits, Gone),
    point("all-reduce: a sixth", 0, (Reduce, Last), Steps(17), Gone),
    point("all-reduce: two sixths", 1, (Reduce, Last), Steps(33), Gone),
    point("all-reduce: three sixths", 2, (Reduce, Last), Steps(50), Gone),
    point("all-reduce: four sixths", 0, (Reduce, Last), Steps(67), Gone),
    point("all-reduce: five sixths", 1, (Reduce, Last), Steps(83), Gone),
    point("large all-reduce: its first chunk", 1, (LargeReduce, Last), Steps(10), Gone),
    point("large all-reduce: a quarter", 1, (LargeReduce, Last), Time(25), Gone),
    point("large all-reduce: half", 2, (LargeReduce, Last), Time(50), Gone),
    point("large all-reduce: three quarters", 0, (LargeReduce, Last), Time(75), Gone),
    point("first messages: has told one", 1, (FirstMessages, Last), After(SYS_sendmsg, 1), Gone),
    point("first messages: has told both", 2, (FirstMessages, First), After(SYS_sendmsg, 2), Gone),
    point("messages: a quarter", 2, (Messages, Last), Steps(25), Gone),
    point("messages: half", 1, (Messages, Last), Steps(50), Gone),
    point("messages: three quarters", 0, (Messages, Last), Steps(75), Gone),
    point("messages: waits", 1, (Messages, First), Waits, Gone),
    point("large messages: a quarter", 0, (LargeMessages, Last), Time(25), Gone),
    point("large messages: half", 1, (LargeMessages, Last), Time(50), Gone),
    point("split: about to ask", 1, (Split, First), Before(SYS_sendmsg, 1), Gone),
    point("split: has asked", 1, (Split, Last), After(SYS_sendmsg, 1), Gone),
    point("split: its side is made", 2, (Split, Last), Before(SYS_sendmsg, 2), Gone),
    point("split: the words are made", 0, (Split, First), After(SYS_memfd_create, 1), Gone),
    point("split: has told one", 0, (Split, Last), After(SYS_sendmsg, 1), Gone),
    point("part: has told one its call", 1, (PartMeeting, Last), After(SYS_sendmsg, 1), Gone),
    point("part: about to leave", 2, (LeavePart, Last), Before(SYS_sendmsg, 1), Gone),
    point("part: has told one that it leaves", 0, (LeavePart, Last), After(SYS_sendmsg, 1), Gone),
    point("leaving: a tenth", 2, (Leave, Last), Steps(10), Gone),
    point("leaving: about to tell", 1, (Leave, Last), Before(SYS_sendmsg, 1), Gone),
    point("leaving: has told one", 0, (Leave, First), After(SYS_sendmsg, 1), Gone),
    point("leaving: has told both", 2, (Leave, Last), After(SYS_sendmsg, 2), Left),
    point("left: about to end", 1, (End, Last), Steps(0), Left),
];

const NAME: &str = "aimed::whoever_is_killed_at_any_point_the_others_are_told_its_name";

/// The largest number of instructions that a round steps through.
const MOST_STEPS: u64 = 60_000;
/// The time for which a rank waits before it is killed. It is shorter than the delay of the other
/// ranks.
const A_WHILE: Duration = Duration::from_millis(25);
/// The limit for a delay, far above the usual time.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that ranks wait for one another, in milliseconds. It is longer than `LIMIT`, so that no
/// time limit reports a death.
const CONNECT: u32 = 90_000;

/// The number of steps and the duration of each phase, measured once.
#[derive(Default)]
struct Sizes {
    steps: HashMap<Phase, u64>,
    times: HashMap<Phase, Duration>,
}

impl Sizes {
    fn moment(&mut self, Point { rank, phase, order, when, .. }: &Point) -> Moment {
        let connect_timeout = CONNECT;
        let aim =
            |moment| Aim { rank: *rank, phase: *phase, order: *order, moment, connect_timeout };
        match *when {
            Before(call, nth) => Moment::Before(call, nth),
            After(call, nth) => Moment::After(call, nth),
            Waits => Moment::Time(A_WHILE),
            Steps(0) => Moment::Steps(0),
            Steps(hundredths) => {
                let count = || round(NAME, aim(Moment::Steps(MOST_STEPS))).trace.steps;
                let all = *self.steps.entry(*phase).or_insert_with(count);
                Moment::Steps(all * hundredths / 100)
            }
            Time(hundredths) => {
                let measure =
                    || round(NAME, aim(Moment::Never)).trace.length_of(*phase as usize).unwrap();
                let all = *self.times.entry(*phase).or_insert_with(measure);
                Moment::Time(all * hundredths as u32 / 100)
            }
        }
    }
}

/// The outcome of the rounds of a point.
#[derive(Default)]
struct Outcome {
    rounds: u64,
    /// The rounds in which the rank was killed in its phase, not later.
    hit: u64,
    /// The times from the death until the last of the other ranks got its error.
    delays: Vec<Duration>,
}

impl Point {
    fn aim(&self, sizes: &mut Sizes) -> Aim {
        let moment = sizes.moment(self);
        let connect_timeout = if self.known == Missing { MISSING_AFTER } else { CONNECT };
        Aim { rank: self.rank, phase: self.phase, order: self.order, moment, connect_timeout }
    }

    /// Kills the rank here, and asserts that all other ranks get an error. Returns false if the
    /// phase had ended before.
    fn try_once(&self, sizes: &mut Sizes, outcome: &mut Outcome) -> bool {
        let Round { trace, told } = round(NAME, self.aim(sizes));
        let name = self.name;
        let length = trace.length_of(self.phase as usize);
        if let (Time(_), Some(length)) = (self.when, length) {
            sizes.times.insert(self.phase, length);
        }
        let Some(killed) = trace.killed else { return false };
        outcome.rounds += 1;
        outcome.hit += u64::from(length.is_none());
        for one in &told {
            let delay = Duration::from_nanos(one.at.saturating_sub(killed));
            let rank = self.rank;
            match self.known {
                Gone | Left => {
                    assert!(
                        one.gone && one.text.contains(&format!("rank {rank}")),
                        "{name}: {one:?}"
                    );
                }
                Missing => assert!(one.missing, "{name}: {one:?}"),
                Unreachable => {
                    let names = ["process of its root info", "The ranks met in that process"];
                    let names = names.iter().any(|text| one.text.contains(text));
                    assert!(
                        (one.gone || names) && one.text.contains("has ended"),
                        "{name}: {one:?}"
                    );
                }
            }
            assert!(delay < LIMIT, "{name}: {delay:?}");
        }
        let last = told.iter().map(|one| one.at).max().unwrap();
        outcome.delays.push(Duration::from_nanos(last.saturating_sub(killed)));
        length.is_none()
    }
}

#[test]
fn whoever_is_killed_at_any_point_the_others_are_told_its_name() {
    if is_rank_of_a_round() {
        std::process::exit(0);
    }
    let is_full = std::env::var_os("HCCL_TEST_FULL").is_some();
    let rounds = crate::deaths::rounds(0).max(if is_full { POINTS.len() as u64 } else { 0 });
    let tried: Vec<usize> = match rounds {
        0 => (0..POINTS.len()).step_by(4).collect(),
        rounds => (0..POINTS.len()).cycle().take(rounds as usize).collect(),
    };
    let mut sizes = Sizes::default();
    let mut outcomes: Vec<Outcome> = POINTS.iter().map(|_| Outcome::default()).collect();
    for at in tried {
        let point = &POINTS[at];
        // Other work on the machine changes the times, so several tries are made.
        let hits = (0..10).any(|_| point.try_once(&mut sizes, &mut outcomes[at]));
        assert!(hits, "{}: the phase is always over before", point.name);
    }
    print!("{}", table(&outcomes));
}

/// Returns a line for each point, and a line for all points at which the death itself is reported.
fn table(outcomes: &[Outcome]) -> String {
    let wide = POINTS.iter().map(|point| point.name.chars().count()).max().unwrap();
    let mut text = format!(
        "\n{:wide$} {:>6} {:>5} {:>9} {:>9}\n",
        "point", "rounds", "hit", "median ms", "worst ms"
    );
    let mut all = Outcome::default();
    let mut line = |name: &str, rounds, hit, delays: &[Duration], note: &str| {
        let mut sorted = delays.to_vec();
        sorted.sort_unstable();
        let milliseconds = |at: usize| sorted[at].as_secs_f64() * 1e3;
        let (median, worst) = (milliseconds(sorted.len() / 2), milliseconds(sorted.len() - 1));
        writeln!(text, "{name:wide$} {rounds:>6} {hit:>5} {median:>9.1} {worst:>9.1}{note}")
            .unwrap();
    };
    for (point, outcome) in POINTS.iter().zip(outcomes).filter(|(_, outcome)| outcome.rounds > 0) {
        let note = match point.known {
            Gone => "",
            Left => "  left before",
            Missing => "  missing",
            Unreachable => "  unreachable",
        };
        line(point.name, outcome.rounds, outcome.hit, &outcome.delays, note);
        if matches!(point.known, Gone | Unreachable) {
            all.rounds += outcome.rounds;
            all.hit += outcome.hit;
            all.delays.extend(&outcome.delays);
        }
    }
    line("all whose end is told at once", all.rounds, all.hit, &all.delays, "");
    let timeout = Duration::from_millis(MISSING_AFTER.into());
    writeln!(text, "missing: told when the connect timeout of {timeout:?} ends").unwrap();
    text
}
