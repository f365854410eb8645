//! The result of recording: everything that can be known of an operator before it runs.

use std::fmt;

use ascend_operator::check::{self, Report};
use ascend_operator::plan::{self, Engine, Plan, Table};
use ascend_operator::{Cost, Model, picture};

/// The recorded tasks of all ranks.
///
/// As text it is a line for each task, with the line of the source that recorded it.
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

    /// Returns the tasks, as data.
    pub fn tasks(&self) -> &ascend_operator::Operator {
        &self.0
    }

    /// Returns the threads, notifies and channels that each rank takes on an engine, as a table
    /// with a column for ranks that take the same. Counted from the tasks, before anything is
    /// acquired. An operator runs on the default engine unless it is [told
    /// otherwise](super::Run::engine).
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

    /// Looks for everything that can go wrong: deadlocks, races, notifies that are lost or left
    /// over, results that are not what the operator is for. Its findings are certain, and they are
    /// complete, for any input and any speed of the threads; the rules are listed at [`check`].
    /// Nothing runs and nothing blocks.
    ///
    /// A sum of floating point whose order is open is right, but may differ from run to run: that
    /// is a [note](Report::notes).
    pub fn check(&self) -> Report {
        check::check(&self.0)
    }

    /// Checks operators that run one after the other on one communicator: they share its threads,
    /// notifies and communication buffer.
    pub fn check_all(operators: &[Recorded]) -> Report {
        let tasks: Vec<_> = operators.iter().map(|recorded| recorded.0.clone()).collect();
        check::check_all(&tasks)
    }

    /// Returns the cost in a model of transfers and reductions: time, the tasks that decide it,
    /// transfers one after the other, and bytes that each rank gives and gets. Use it to compare
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
    /// // Ten microseconds for a transfer, and one for each byte.
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

    /// Returns the task graph as a picture, the text of an SVG file: threads are rows, arrows lead
    /// from records to waits, the longest chain is marked. Tasks that hang are red. A task says
    /// what it is, and where it was recorded, when the pointer rests on it.
    pub fn graph(&self) -> String {
        picture::graph(&self.0)
    }

    /// Returns the same with the tasks of a finding of [`check`](Self::check) in red, and the text
    /// of the finding.
    pub fn graph_of(&self, finding: &check::Finding) -> String {
        picture::finding(std::slice::from_ref(&self.0), finding)
    }

    /// Returns a picture of when each task runs in a model, with the tasks that decide the time
    /// marked: the text of an SVG file.
    pub fn timeline(&self, model: &Model) -> String {
        picture::timeline(&self.0, model)
    }

    /// Returns the same with every task, for <https://ui.perfetto.dev>: the text of a JSON file in
    /// Chrome's trace event format.
    pub fn trace(&self, model: &Model) -> String {
        picture::trace(&self.0, model)
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
