//! The result of recording an operator. It can be checked and drawn before the operator runs.

use std::fmt;

use ascend_operator::check::{self, Report};
use ascend_operator::plan::{self, Engine, Plan, Table};
use ascend_operator::{Cost, Model, picture};

/// The recorded tasks of all ranks.
///
/// `Display` writes one line for each task, with the source line that recorded the task.
///
/// ```
/// use hccl::operator::{Operator, algorithms};
///
/// let gather = Operator::all_gather("gather", algorithms::mesh::all_gather);
/// let recorded = gather.record::<f32>(4, 1000)?;
/// println!("{recorded}"); // a line for each task
/// let report = recorded.check();
/// assert!(report.is_good(), "{report}");
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded(ascend_operator::Operator);

impl Recorded {
    pub(super) fn new(tasks: ascend_operator::Operator) -> Self {
        Recorded(tasks)
    }

    /// Returns the recorded tasks as data.
    pub fn tasks(&self) -> &ascend_operator::Operator {
        &self.0
    }

    /// Returns a table of the threads, notifies and channels that each rank needs on an engine.
    /// Ranks that need the same resources share a column. The numbers are counted from the tasks,
    /// before any resource is acquired. An operator runs on the default engine unless
    /// [`Run::engine`](super::Run::engine) sets another engine.
    ///
    /// ```
    /// use hccl::operator::{Engine, Operator};
    ///
    /// let ping = Operator::send("ping", 0, 1, |op, main| match op.rank() {
    ///     0 => main.signal(op.channel(1), 0),
    ///     _ => main.await_signal(op.channel(0), 0),
    /// });
    /// let plan = ping.record::<f32>(2, 0)?.plan(Engine::CpuTs).to_string();
    /// assert!(plan.contains("channels"));
    /// # Ok::<(), hccl::Error>(())
    /// ```
    pub fn plan(&self, engine: Engine) -> Table {
        plan::table(&self.plans(engine))
    }

    /// Returns the plan of each rank. [`plan`](Self::plan) shows the same numbers as a table.
    pub fn plans(&self, engine: Engine) -> Vec<Plan> {
        self.0.ranks.iter().map(|tasks| Plan::of(tasks, engine)).collect()
    }

    /// Checks the tasks for deadlocks, races, notifies that are lost or left over, and results that
    /// do not match the goal. The findings are certain and complete, for any input and any speed of
    /// the threads. The module [`check`] lists the rules. No task runs, and nothing blocks.
    ///
    /// A floating-point sum whose order is not fixed is correct, but may differ from run to run.
    /// The report has a [note](Report::notes) about it.
    pub fn check(&self) -> Report {
        check::check(&self.0)
    }

    /// Checks operators that run one after the other on one communicator. They share the threads,
    /// notifies and communication buffer of the communicator.
    pub fn check_all(operators: &[Recorded]) -> Report {
        let tasks: Vec<_> = operators.iter().map(|recorded| recorded.0.clone()).collect();
        check::check_all(&tasks)
    }

    /// Returns the cost of the operator in a model of transfers and reductions. It contains the
    /// time, the tasks of the critical path, and the number of transfers that follow one another.
    /// It also contains the bytes that each rank sends and receives. Use the cost to compare
    /// algorithms.
    ///
    /// ```
    /// use hccl::operator::{Model, Operator};
    ///
    /// let swap = Operator::other("swap", 4, 4, |op, main| {
    ///     let channel = op.channel(1 - op.rank());
    ///     main.copy(op.input(), op.buffer().slice(..4));
    ///     let exposed = main.expose(channel);
    ///     let access = main.enter(channel);
    ///     main.read(access.buffer().slice(..4), op.output());
    ///     main.leave(access);
    ///     main.reclaim(exposed);
    /// });
    /// let recorded = swap.record::<f32>(2, 4)?;
    /// // Ten microseconds for a transfer, and one microsecond for each byte.
    /// let cost = recorded.cost(&Model::new(10e-6, 1e-6, 0.0));
    /// assert_eq!((cost.steps, cost.bytes_sent), (1, vec![16, 16]));
    /// assert_eq!((cost.time * 1e6).round(), 26.0);
    /// // std::fs::write("swap.svg", recorded.graph())?;
    /// assert!(recorded.graph().starts_with("<svg "));
    /// # Ok::<(), hccl::Error>(())
    /// ```
    pub fn cost(&self, model: &Model) -> Cost {
        Cost::of(&self.0, model)
    }

    /// Returns a picture of the task graph as the text of an SVG file. Threads are rows, arrows
    /// lead from records to waits, and the longest chain is marked. Tasks that hang are red. The
    /// tooltip of a task shows the task and the line that recorded it.
    pub fn graph(&self) -> String {
        picture::graph(&self.0)
    }

    /// Returns the picture of [`graph`](Self::graph) with the tasks of a finding in red, and the
    /// text of the finding. The finding comes from [`check`](Self::check).
    pub fn graph_of(&self, finding: &check::Finding) -> String {
        picture::finding(std::slice::from_ref(&self.0), finding)
    }

    /// Returns a picture of the time at which each task runs in a model, as the text of an SVG
    /// file. The tasks of the critical path are marked.
    pub fn timeline(&self, model: &Model) -> String {
        picture::timeline(&self.0, model)
    }

    /// Returns the times of all tasks in a model as a trace for <https://ui.perfetto.dev>. The
    /// trace is the text of a JSON file in Chrome's trace event format.
    pub fn trace(&self, model: &Model) -> String {
        picture::trace(&self.0, model)
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
