//! Writes the time of each task in a file for <https://ui.perfetto.dev>, in Chrome's trace event
//! format.
//!
//! Times are whole nanoseconds, written in microseconds with three decimals, so that no slice ends
//! after the next one of its thread begins. Each thread has a number of its own, as threads of
//! Linux do.

use super::look;
use crate::cost::Model;
use crate::schedule::{Execution, Schedule, step};
use crate::{Operator, Step, Task, TaskId};
use ascend_timeline::draw::trace::{microseconds, quote};
use std::collections::HashSet;

pub(super) fn write(operator: &Operator, model: &Model) -> String {
    let execution = Execution::of(operator);
    // Without a duration, a task could be neither seen nor clicked, so every task takes at least 1
    // ns.
    let schedule = execution.schedule(|task| (model.time(task) * 1e9).round().max(1.0));
    let path = schedule.critical_path();
    let mut trace = Trace {
        operator,
        schedule: &schedule,
        critical: path.iter().copied().collect(),
        events: ascend_timeline::draw::trace::Trace::new("ns"),
        first: threads(operator),
    };
    for (rank, tasks) in (0..).zip(&operator.ranks) {
        trace.process(rank, &format!("rank {rank}"));
        for thread in 0..tasks.threads.len() as u32 {
            let name = if thread == 0 { "main".into() } else { format!("thread {thread}") };
            trace.thread(rank, trace.number(rank, thread), thread, &name);
        }
    }
    let own = operator.ranks.len() as u32;
    trace.process(own, "critical path");
    trace.thread(own, trace.number(own, 0), 0, "critical path");
    let ran: Vec<TaskId> = execution.tasks().map(|(id, _)| id).collect();
    for id in &ran {
        let when = schedule.when(*id);
        let kind = if trace.critical.contains(id) { "critical" } else { "task" };
        trace.slice(*id, (id.rank, id.thread), (when.begin, when.end), kind);
    }
    for id in &execution.stuck {
        let begin = before(*id).map_or(0.0, |before| schedule.when(before).end);
        trace.slice(
            *id,
            (id.rank, id.thread),
            (begin, schedule.length().max(begin + 1.0)),
            "stuck",
        );
    }
    for id in &path {
        let when = schedule.when(*id);
        trace.slice(*id, (own, 0), (when.start, when.end), "critical");
    }
    let notifies = ran.iter().filter_map(|wait| Some((execution.order.record_of(*wait)?, *wait)));
    for (number, (record, wait)) in (1_u64..).zip(notifies) {
        trace.flow(number, record, wait);
    }
    let never = operator.tasks() - ran.len();
    let title = quote(&format!("{}: {}", operator.name, look::size(operator)));
    let time = quote("of a model; what takes no time in it is shown as a nanosecond");
    trace.events.finish(&[("title", title), ("time", time), ("never_run", never.to_string())])
}

/// Returns the number of the first thread of each rank, and then the first free number.
fn threads(operator: &Operator) -> Vec<u32> {
    let mut first = vec![1];
    for rank in &operator.ranks {
        first.push(first[first.len() - 1] + rank.threads.len() as u32);
    }
    first
}

fn before(id: TaskId) -> Option<TaskId> {
    Some(TaskId { position: id.position.checked_sub(1)?, ..id })
}

struct Trace<'a> {
    operator: &'a Operator,
    schedule: &'a Schedule<'a>,
    critical: HashSet<TaskId>,
    first: Vec<u32>,
    events: ascend_timeline::draw::trace::Trace,
}

impl Trace<'_> {
    fn number(&self, rank: u32, thread: u32) -> u32 {
        self.first.get(rank as usize).map_or(0, |first| first + thread)
    }

    fn event(&mut self, kind: char, name: &str, rank: u32, thread: u32, more: &str) {
        self.events.event(kind, name, process(rank), thread.into(), more);
    }

    fn process(&mut self, rank: u32, name: &str) {
        let thread = self.number(rank, 0);
        self.events.process(process(rank), thread.into(), name, rank.into());
    }

    fn thread(&mut self, rank: u32, number: u32, order: u32, name: &str) {
        self.events.thread(process(rank), number.into(), name, order.into());
    }

    fn slice(
        &mut self,
        id: TaskId,
        (rank, thread): (u32, u32),
        (from, to): (f64, f64),
        kind: &str,
    ) {
        let Some(Step { task, source }) = step(self.operator, id) else { return };
        let name = match task {
            Task::Record(_) => "record".into(),
            Task::Wait(_) => "wait".into(),
            task => look::label(task),
        };
        let bytes =
            task.pieces().map_or(String::new(), |(from, _)| format!(",\"bytes\":{}", from.bytes));
        let more = format!(
            ",\"cat\":\"{kind}\",\"ts\":{},\"dur\":{},\"args\":{{\"task\":{},\"id\":\"{}\",\"source\":{}{bytes}}}",
            microseconds(from as u64),
            microseconds((to - from) as u64),
            quote(&task.to_string()),
            look::key(id),
            quote(&source.to_string())
        );
        self.event('X', &name, rank, self.number(rank, thread), &more);
    }

    /// Writes the flow from a record to its wait. Each end of a flow belongs to the slice around
    /// it.
    fn flow(&mut self, number: u64, record: TaskId, wait: TaskId) {
        let (from, to) = (self.schedule.when(record).start, self.schedule.when(wait).end - 1.0);
        let end = |id: TaskId, at: f64| {
            (process(id.rank), self.number(id.rank, id.thread).into(), at as u64)
        };
        let (from, to) = (end(record, from), end(wait, to));
        self.events.notify(number, record.rank != wait.rank, from, to);
    }
}

/// Returns the process number of a rank. Process 0 is the system's idle process, which Perfetto
/// hides, so numbers begin at 1.
fn process(rank: u32) -> u64 {
    u64::from(rank) + 1
}
