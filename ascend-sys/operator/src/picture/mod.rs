//! Operators as pictures: the waits between threads, and the time of each task.
//!
//! * [`graph`] draws every task of every thread, the notifies between them as arrows, and the
//!   longest chain. Waits that never end are red.
//! * [`finding`] is the same with the tasks of a finding marked.
//! * [`timeline`] draws when each task happens in a [`Model`] of the times of transfers and
//!   reductions.
//! * [`trace`] writes the same times for <https://ui.perfetto.dev>, with nothing left out.
//!
//! A picture has room for some ranks, threads and tasks. It shows a part of a larger operator, and
//! says so. The marked tasks are in that part. Pictures are SVG files on a white ground, so that
//! they can be read on dark pages too. The same operator always gives the same bytes.

mod graph;
mod joined;
mod legend;
mod look;
mod rows;
mod timeline;
mod trace;

use crate::Operator;
use crate::TaskId;
use crate::check::Finding;
use crate::cost::Model;

/// Draws the task graph, as the text of an SVG file.
///
/// Threads are rows. Each column is a step of a model in which every task takes one unit of time. A
/// transfer is a box with two colours: those of the rank that the data comes from and of the rank
/// that it goes to. A record is a triangle, and a wait is a ring. An arrow leads from a record to
/// the wait that takes it. The longest chain is marked. If an operator hangs, the waits that never
/// end are red. A dashed arrow leads to such a wait from the record that is never reached. If there
/// is no record, the wait has a question mark.
///
/// Every task is a `<g class="task" data-task="rank/thread/position">` whose title is the task and
/// the line that recorded it.
pub fn graph(operator: &Operator) -> String {
    graph::draw(operator, &[], &[])
}

/// Draws the task graph as [`graph`] does, and marks some tasks in red, such as those of a finding.
pub fn graph_with(operator: &Operator, marked: &[TaskId]) -> String {
    graph::draw(operator, marked, &[])
}

/// Draws a finding: the [graph] with its tasks marked in red, and its text. Operators that were
/// checked together are drawn one after the other.
pub fn finding(operators: &[Operator], finding: &Finding) -> String {
    let (all, places) = joined::joined(operators, finding);
    let said =
        [format!("{}: {}", finding.rule, finding.message), format!("help: {}", finding.help)];
    graph::draw(&all, &places, &said)
}

/// Draws the time of each task in a model, as the text of an SVG file. Threads are rows, and time
/// runs from left to right.
pub fn timeline(operator: &Operator, model: &Model) -> String {
    timeline::draw(operator, model)
}

/// Returns the time of each task in a model, as the text of a file for <https://ui.perfetto.dev>
/// (Chrome's trace event format).
///
/// Ranks are processes. Every task is a slice of its thread, and every notify is a flow from its
/// record to its wait. Slices of the critical path have the category `critical`. A task that takes
/// no time in the model takes a nanosecond in the trace, so that it can be seen and clicked.
pub fn trace(operator: &Operator, model: &Model) -> String {
    trace::write(operator, model)
}
