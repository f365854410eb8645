//! The processes of the ranks.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hccl_job::variables;

use crate::options::Options;
use crate::output::{Labels, Output, SharedWords, print_lines};
use crate::timeline::VARIABLE;

/// The time limit for printing the last lines of a rank after its end.
const PRINTS: Duration = Duration::from_secs(1);

/// One rank, as a process that runs or has ended.
pub(crate) struct RankProcess {
    pub(crate) rank: u32,
    child: Child,
    pub(crate) process: u32,
    printers: Vec<JoinHandle<()>>,
    pub(crate) last_words: SharedWords,
    pub(crate) ended: Option<Ended>,
}

/// An event of the job that hcclrun handles.
pub(crate) enum Event {
    /// A process of a rank has ended. `number` is the number of its start.
    Ended {
        rank: u32,
        number: u64,
    },
    Signal(i32),
}

/// The end of a process.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) at: Instant,
    /// Whether hcclrun had sent the process a signal before its end.
    pub(crate) was_asked: bool,
}

/// The port and the secret of the store at which the ranks of the job meet.
pub(crate) struct JobPlace<'a> {
    pub(crate) port: u16,
    pub(crate) secret: &'a str,
}

impl RankProcess {
    /// Starts a rank. `number` distinguishes this start from other starts of the same rank. The
    /// emulator writes its record to `timeline`, if a file is given.
    pub(crate) fn start(
        options: &Options,
        (rank, number): (u32, u64),
        place: &JobPlace<'_>,
        timeline: Option<PathBuf>,
        labels: &Labels,
        events: &Sender<Event>,
    ) -> io::Result<RankProcess> {
        let [program, arguments @ ..] = &options.program[..] else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no program: name the program of the ranks",
            ));
        };
        let ranks = options.ranks.to_string();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(variables::RANK, rank.to_string())
            .env(variables::LOCAL_RANK, rank.to_string())
            .env(variables::WORLD_SIZE, &ranks)
            .env(variables::LOCAL_WORLD_SIZE, &ranks)
            .env(variables::MASTER_ADDR, "127.0.0.1")
            .env(variables::MASTER_PORT, place.port.to_string())
            .env(variables::SECRET, place.secret)
            .env(variables::SERVED, "1")
            // No rank reads the input of hcclrun, because several ranks cannot share it.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Each rank has a process group of its own. So a signal also reaches the processes that
            // the rank has started, and a signal of the terminal reaches the rank only once:
            // through hcclrun.
            .process_group(0);
        // If the user has chosen devices or their number, hcclrun leaves the number as it is.
        let said = ["ASCEND_EMULATOR_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"];
        if said.into_iter().all(|name| std::env::var_os(name).is_none()) {
            command.env("ASCEND_EMULATOR_DEVICES", &ranks);
        }
        if let Some(file) = timeline {
            command.env(VARIABLE, file);
        }
        let own = std::process::id();
        // SAFETY: between fork and exec only functions are called that are safe there (prctl,
        // getppid), and no memory is allocated.
        unsafe {
            command.pre_exec(move || {
                // When hcclrun is killed, the kernel kills its ranks, too.
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // hcclrun may have been killed before the call above.
                if libc::getppid() as u32 != own {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        let process = child.id();
        let last_words = SharedWords::default();
        let mut printers = Vec::new();
        let unwanted = SharedWords::default();
        if let Some(pipe) = child.stdout.take() {
            let label = labels.of(rank, Output::Standard);
            printers.push(print_lines(pipe, label, Output::Standard, unwanted)?);
        }
        if let Some(pipe) = child.stderr.take() {
            let label = labels.of(rank, Output::Error);
            printers.push(print_lines(pipe, label, Output::Error, last_words.clone())?);
        }
        let events = events.clone();
        thread::Builder::new().name("hcclrun-waits".into()).spawn(move || {
            wait_unreaped(process);
            // This fails only when hcclrun does not supervise the job any more.
            let _ = events.send(Event::Ended { rank, number });
        })?;
        Ok(RankProcess { rank, child, process, printers, last_words, ended: None })
    }

    /// Sends a signal to the rank and to the processes that it has started. Does nothing if the
    /// rank has ended.
    pub(crate) fn signal(&self, signal: i32) {
        if self.ended.is_some() {
            return;
        }
        let Ok(group) = i32::try_from(self.process) else { return };
        // SAFETY: the process is not reaped yet, so its number is that of no other process.
        unsafe { libc::kill(-group, signal) };
    }

    /// Reaps a process that has ended, and returns its end.
    pub(crate) fn reap(&mut self, was_asked: bool) -> io::Result<Ended> {
        // This kills the processes that the rank has left running.
        self.signal(libc::SIGKILL);
        let status = self.child.wait()?;
        let ended = Ended { status, at: Instant::now(), was_asked };
        self.ended = Some(ended);
        Ok(ended)
    }

    /// Waits until all output of the rank is printed, for at most [`PRINTS`]. The limit is for
    /// programs that the rank has started and that have left its process group: they can keep the
    /// output open.
    pub(crate) fn finish_printing(&mut self) {
        let began = Instant::now();
        let is_printing = |printers: &[JoinHandle<()>]| printers.iter().any(|it| !it.is_finished());
        while is_printing(&self.printers) && began.elapsed() < PRINTS {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Waits until a process has ended, but does not reap it.
fn wait_unreaped(process: u32) {
    loop {
        // SAFETY: all bits zero is a siginfo_t.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is writable for the call.
        let result = unsafe {
            libc::waitid(libc::P_PID, process, &raw mut found, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}
