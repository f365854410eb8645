//! What recording gives: everything that can be known of an operator before it runs.

use std::fmt;

use ascend_operator::check::{self, Report};
use ascend_operator::plan::{self, Plan, Table};
use ascend_operator::{Cost, Model, picture};

/// What all ranks do, recorded.
///
/// As text it is a line for each task, with the line of the source that recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded(ascend_operator::Operator);

impl Recorded {
    pub(super) fn new(tasks: ascend_operator::Operator) -> Self {
        Recorded(tasks)
    }

    /// The tasks, as data.
    pub fn tasks(&self) -> &ascend_operator::Operator {
        &self.0
    }

    /// What each rank takes of threads, notifies and channels, as a table with a column for ranks that take the same. Counted from the tasks, before
    /// anything is acquired.
    ///
    /// ```
    /// use hccl::operator::Operator;
    ///
    /// let ping = Operator::send("ping", 0, 1, |op, main| match op.rank() {
    ///     0 => main.signal(op.channel(1), 0),
    ///     _ => main.await_signal(op.channel(0), 0),
    /// });
    /// let plan = ping.record::<f32>(2, 0)?.plan().to_string();
    /// assert!(plan.contains("channels"));
    /// # Ok::<(), hccl::Error>(())
    /// ```
    pub fn plan(&self) -> Table {
        plan::table(&self.plans())
    }

    /// The same as numbers, a plan for each rank.
    pub fn plans(&self) -> Vec<Plan> {
        self.0.ranks.iter().map(Plan::of).collect()
    }

    /// Looks for everything that can go wrong: deadlocks, races, notifies that are lost or left over, results that are not what the operator is for.
    /// What is found is certain, and what is not found is not there, for any input and any speed of the threads; the rules are listed at [`check`].
    /// Nothing runs and nothing blocks.
    pub fn check(&self) -> Report {
        check::check(&self.0)
    }

    /// The same for operators that run one after the other on one communicator: they share its threads, notifies and communication buffer.
    pub fn check_all(operators: &[Recorded]) -> Report {
        let tasks: Vec<_> = operators.iter().map(|recorded| recorded.0.clone()).collect();
        check::check_all(&tasks)
    }

    /// What it would take in a model of transfers and reductions: the time, what decides it, the steps, the bytes of each rank.
    pub fn cost(&self, model: &Model) -> Cost {
        Cost::of(&self.0, model)
    }

    /// A picture (SVG) of all tasks: threads as rows, notifies as arrows, the longest chain marked. Of an operator that hangs, the waits that never end are
    /// red.
    pub fn graph(&self) -> String {
        picture::graph(&self.0)
    }

    /// A picture (SVG) of when each task runs in a model, with what decides the time marked.
    pub fn timeline(&self, model: &Model) -> String {
        picture::timeline(&self.0, model)
    }

    /// The same for <https://ui.perfetto.dev>: threads as rows, notifies as flows.
    pub fn trace(&self, model: &Model) -> String {
        picture::trace(&self.0, model)
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
