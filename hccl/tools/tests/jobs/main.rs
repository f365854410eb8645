//! Jobs that `hcclrun` starts, and jobs whose processes have the variables of other launchers.
//!
//! The ranks are processes of this program. A test chooses the function that they call.

mod elastic;
mod failing;
mod launchers;
mod parts;
mod running;
mod timeline;

use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The variable by which a test chooses the function of a process.
const PART: &str = "HCCL_TEST_PART";

/// Calls the function that the variable [`PART`] names, if it is set. This is the entry point in
/// the processes of a job.
#[test]
fn part() {
    if let Ok(name) = std::env::var(PART) {
        parts::call(&name);
    }
}

/// Makes a command that runs hcclrun, in which each rank calls a part.
fn hcclrun(options: &[&str], name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcclrun"));
    command.args(options).arg(std::env::current_exe().unwrap());
    of_part(&mut command, name);
    command
}

/// Makes a command for a process of a job that another launcher starts.
fn process(name: &str, variables: &[(&str, String)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    of_part(&mut command, name);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

fn of_part(command: &mut Command, name: &str) {
    command.args(["--exact", "part", "--nocapture", "--quiet"]).env(PART, name);
    // The tests may run in a job of their own.
    for variable in ["RANK", "WORLD_SIZE", "RANK_TABLE_FILE", "SLURM_STEP_ID", "NO_COLOR"] {
        command.env_remove(variable);
    }
    for (variable, _) in std::env::vars_os() {
        let is_of_mpi = |name: &str| name.starts_with("OMPI_") || name.starts_with("PMI");
        if variable.to_str().is_some_and(is_of_mpi) {
            command.env_remove(variable);
        }
    }
}

/// The status and the output of a job that has ended.
struct Job {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Job {
    fn of(command: &mut Command) -> Job {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Job { status: status.code(), out: text(stdout), err: text(stderr) }
    }

    #[track_caller]
    fn succeeds(self) -> Job {
        assert_eq!(self.status, Some(0), "out:\n{}\nerr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    fn says(self, pieces: &[&str]) -> Job {
        for piece in pieces {
            let found = self.out.contains(piece) || self.err.contains(piece);
            assert!(found, "\"{piece}\" is not in\nout:\n{}\nerr:\n{}", self.out, self.err);
        }
        self
    }
}

/// Waits until all processes have ended, and returns their ends.
fn all_end(mut children: Vec<Child>) -> Vec<Job> {
    let limit = Instant::now() + Duration::from_secs(180);
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        assert!(Instant::now() < limit, "a process does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let read = |mut child: Child| {
        let (mut out, mut err) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Job { status: child.wait().unwrap().code(), out, err }
    };
    children.into_iter().map(read).collect()
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}
