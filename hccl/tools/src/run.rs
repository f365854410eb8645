//! Runs a job: from the start of the first rank to the end of the last one.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::sync::PoisonError;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use hccl_job::{Report, StoreServer};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::options::Options;
use crate::output::Labels;
use crate::ranks::{Event, JobPlace, RankProcess};
use crate::timeline::{TimelinePart, Timelines};
use crate::verdict::{self, Failure};

/// The signals that hcclrun forwards to the ranks. The program gives the last two their meaning.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Runs the job and returns its status.
pub(crate) fn run(options: &Options) -> Result<u8, String> {
    if let Some(file) = &options.timeline {
        // A wrong file name must be an error before anything runs.
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(file);
        opened.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let secret = secret().map_err(|error| {
        format!(
            "cannot read random numbers for the job's secret: {error}; check that /dev/urandom \
             can be read"
        )
    })?;
    let store = match options.elastic {
        true => StoreServer::start_elastic(options.ranks, &secret),
        false => StoreServer::start(options.ranks, &secret),
    }
    .map_err(|error| error.to_string())?;
    let (events, heard) = mpsc::channel();
    pass_signals_on(events.clone())?;
    let mut job = Job {
        options,
        place: JobPlace { port: store.port(), secret: &secret },
        store: &store,
        labels: Labels::new(options),
        events,
        heard,
        running: Vec::new(),
        starts: 0,
        timelines: Timelines::default(),
        failures: Vec::new(),
        restarts_left: options.restarts,
        to_restart: Vec::new(),
        ending: None,
        signal: None,
    };
    job.start_all()?;
    job.supervise()?;
    let status = job.conclude();
    let written = options.timeline.as_ref().map_or(Ok(()), |file| job.timelines.write(file));
    match written {
        // The failure of a rank takes precedence over this problem.
        Err(problem) if status != 0 => eprintln!("hcclrun: {problem}"),
        written => written?,
    }
    Ok(status)
}

/// Returns a random secret of 128 bits.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn pass_signals_on(events: Sender<Event>) -> Result<(), String> {
    let refused = |error: io::Error| {
        format!("signals cannot be passed on: {error}; check the limit of threads (ulimit -u)")
    };
    let mut signals = Signals::new(PASSED_ON).map_err(refused)?;
    let pass_on = move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("hcclrun-signals".into()).spawn(pass_on).map_err(refused)?;
    Ok(())
}

struct Job<'a> {
    options: &'a Options,
    place: JobPlace<'a>,
    store: &'a StoreServer,
    labels: Labels,
    events: Sender<Event>,
    heard: Receiver<Event>,
    /// The newest process of each rank, with the number of its start.
    running: Vec<(u64, RankProcess)>,
    starts: u64,
    timelines: Timelines,
    /// The failures, in the order in which the processes ended.
    failures: Vec<Failure>,
    restarts_left: u32,
    to_restart: Vec<(Instant, u32)>,
    ending: Option<Ending>,
    /// The first signal that ended the job.
    signal: Option<i32>,
}

/// The end of the job: the signals that are still to be sent, and the time of the next one.
struct Ending {
    next: Instant,
    signals: &'static [i32],
}

impl Job<'_> {
    fn start_all(&mut self) -> Result<(), String> {
        for rank in 0..self.options.ranks {
            if let Err(problem) = self.start(rank) {
                self.signal_all(SIGKILL);
                for (_, process) in &mut self.running {
                    // It is killed, so this does not wait for long.
                    let _ = process.reap(true);
                }
                return Err(problem);
            }
        }
        Ok(())
    }

    fn start(&mut self, rank: u32) -> Result<(), String> {
        self.starts += 1;
        let number = self.starts;
        let refused = |error| {
            format!(
                "cannot make a memory file for the timeline of rank {rank}: {error}; raise the \
                 limit of open files (ulimit -n), or leave out --timeline"
            )
        };
        let part = self.options.timeline.as_ref().map(|_| TimelinePart::new());
        let part = part.transpose().map_err(refused)?;
        let process = RankProcess::start(
            self.options,
            (rank, number),
            &self.place,
            part.as_ref().map(TimelinePart::path),
            &self.labels,
            &self.events,
        )
        .map_err(|error| {
            let program = self.options.program.first().map(|name| name.to_string_lossy());
            format!(
                "rank {rank} cannot be started: {}: {error}; check that the program exists and \
                 may be run",
                program.unwrap_or_default()
            )
        })?;
        if let Some(part) = part {
            self.timelines.add(rank, process.process, part);
        }
        self.running.retain(|(_, process)| process.rank != rank);
        self.running.push((number, process));
        Ok(())
    }

    fn signal_all(&self, signal: i32) {
        self.running.iter().for_each(|(_, process)| process.signal(signal));
    }

    fn is_over(&self) -> bool {
        self.all_have_ended() && (self.to_restart.is_empty() || self.ending.is_some())
    }

    fn all_have_ended(&self) -> bool {
        self.running.iter().all(|(_, process)| process.ended.is_some())
    }

    /// Returns the time at which the first rank succeeded.
    fn first_success(&self) -> Option<Instant> {
        let ends = self.running.iter().filter_map(|(_, process)| process.ended);
        ends.filter(|end| end.status.success()).map(|end| end.at).min()
    }

    fn supervise(&mut self) -> Result<(), String> {
        while !self.is_over() {
            let restart = self.to_restart.iter().map(|(at, _)| *at).min();
            let ending = self.ending.as_ref().filter(|it| !it.signals.is_empty());
            let next = [restart, ending.map(|ending| ending.next)].into_iter().flatten().min();
            let event = match next {
                None => self.heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.heard.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Ended { rank, number }) => self.note_end(rank, number)?,
                Ok(Event::Signal(signal)) => self.pass_on(signal),
                Err(RecvTimeoutError::Timeout) => self.advance()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("a thread of hcclrun has ended; run the job again".into());
                }
            }
        }
        Ok(())
    }

    /// Does the work that is due now: sends the next signal, and starts ranks again.
    fn advance(&mut self) -> Result<(), String> {
        let now = Instant::now();
        if let Some(ending) = &mut self.ending
            && ending.next <= now
            && let [signal, rest @ ..] = ending.signals
        {
            (ending.signals, ending.next) = (rest, now + self.options.grace());
            let signal = *signal;
            self.signal_all(signal);
        }
        let (due, later) = self.to_restart.drain(..).partition(|(at, _)| *at <= now);
        self.to_restart = later;
        let due: Vec<(Instant, u32)> = due;
        for (_, rank) in due {
            if self.ending.is_some() {
                continue;
            }
            if self.is_done() {
                eprintln!("hcclrun: rank {rank} is not started again: the other ranks are done");
                continue;
            }
            eprintln!("hcclrun: rank {rank} is started again");
            self.start(rank)?;
        }
        Ok(())
    }

    /// Returns whether no rank is running, and one has succeeded: a new process would find no rank
    /// to join.
    fn is_done(&self) -> bool {
        self.all_have_ended() && self.first_success().is_some()
    }

    fn pass_on(&mut self, signal: i32) {
        self.signal_all(signal);
        if ![SIGUSR1, SIGUSR2].contains(&signal) {
            // After a second signal the user does not want to wait.
            let wait = match self.signal {
                None => self.options.grace(),
                Some(_) => Duration::ZERO,
            };
            self.signal.get_or_insert(signal);
            self.ending = Some(Ending { next: Instant::now() + wait, signals: &[SIGKILL] });
        }
    }

    fn note_end(&mut self, rank: u32, number: u64) -> Result<(), String> {
        // A process was asked to end if hcclrun has already sent it a signal.
        let was_asked =
            self.ending.as_ref().is_some_and(|ending| ending.signals != [SIGTERM, SIGKILL]);
        let Some((_, process)) = self.running.iter_mut().find(|(it, _)| *it == number) else {
            return Ok(());
        };
        let ended = process.reap(was_asked).map_err(|error| format!("rank {rank}: {error}"))?;
        process.finish_printing();
        let process = &*process;
        let how = verdict::describe(ended.status);
        let has_failed = !ended.status.success();
        let why = format!("its process {} has ended: {how}", process.process);
        self.store.note_gone(rank, &why, has_failed);
        if !has_failed {
            return Ok(());
        }
        self.failures.push(Failure {
            rank,
            process: process.process,
            status: ended.status,
            was_asked: ended.was_asked,
            at: ended.at,
            last_words: {
                let words = process.last_words.lock().unwrap_or_else(PoisonError::into_inner);
                words.text().to_owned()
            },
        });
        if self.ending.is_some() {
            return Ok(());
        }
        if self.options.elastic {
            let left = self.running.iter().filter(|(_, it)| it.ended.is_none()).count();
            eprintln!("hcclrun: rank {rank} {how}; {left} of {} are left", self.options.ranks);
            if self.restarts_left > 0 {
                self.restarts_left -= 1;
                self.to_restart.push((ended.at + self.options.restart_delay(), rank));
            }
        } else {
            let next = ended.at + self.options.grace();
            self.ending = Some(Ending { next, signals: &[SIGTERM, SIGKILL] });
        }
        Ok(())
    }

    /// Prints how the job has ended, and returns its status.
    fn conclude(&mut self) -> u8 {
        let reports = self.store.reports();
        let is_success = match self.options.elastic {
            true => self.some_went_on_to_the_end(&reports),
            false => self.failures.is_empty(),
        };
        if let Some(signal) = self.signal.filter(|_| !self.failures.is_empty()) {
            eprintln!("hcclrun: ended by {}", verdict::name_of(signal));
            return u8::try_from(128 + signal).unwrap_or(1);
        }
        if is_success {
            return 0;
        }
        let Some(first) = verdict::first(&self.failures, &reports) else { return 1 };
        self.tell(first, &reports);
        first.exit_status()
    }

    /// Returns whether an elastic job has succeeded: at least one rank has succeeded, and no rank
    /// failed after that. Ranks that failed because of another rank do not count, such as those
    /// that came too late to take part. Earlier failures were printed when they happened.
    fn some_went_on_to_the_end(&self, reports: &[Report]) -> bool {
        let Some(first) = self.first_success() else { return false };
        let follows = |rank: u32| reports.iter().any(|it| it.rank == rank && it.follows);
        self.failures.iter().all(|failure| failure.at < first || follows(failure.rank))
    }

    fn tell(&self, first: &Failure, reports: &[Report]) {
        let Failure { rank, process, status, .. } = first;
        let how = verdict::describe(*status);
        eprintln!("hcclrun: rank {rank} failed first (process {process}): {how}");
        for line in verdict::why(first, reports).unwrap_or_default().lines() {
            eprintln!("hcclrun:     {line}");
        }
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        let mut add = |text: String, rank: u32| {
            let rank = rank.to_string();
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, ranks)) => ranks.push(rank),
                None => groups.push((text, vec![rank])),
            }
        };
        let mut processes: Vec<&RankProcess> = self.running.iter().map(|(_, it)| it).collect();
        processes.sort_by_key(|process| process.rank);
        for process in processes.into_iter().filter(|process| process.rank != *rank) {
            let Some(ended) = process.ended else { continue };
            let follows = reports.iter().any(|it| it.rank == process.rank && it.follows);
            let why = match (ended.status.success(), follows, ended.was_asked) {
                (true, ..) => "",
                (_, true, _) => ", since another rank was gone",
                (_, _, true) => ", ended by hcclrun",
                _ => "",
            };
            add(format!("{}{why}", verdict::describe(ended.status)), process.rank);
        }
        for (text, ranks) in groups {
            let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
            eprintln!("hcclrun: {noun} {}: {text}", ranks.join(", "));
        }
    }
}
