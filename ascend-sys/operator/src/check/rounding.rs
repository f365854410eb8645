//! Finds sums and products of floating-point numbers without a fixed order. They may differ from
//! run to run.

use super::finding::{Notes, Severity};
use super::ground::{Bytes, Ground, PATIENCE};
use super::race::Tasks;
use crate::shadow::{Found, Mode, Shadow};
use crate::task::{Operator, ReduceOp, Task};

/// Reports sums and products of floating-point numbers whose order is not fixed. The operators have
/// no races. So two tasks that write the same bytes in no order are two reductions of one kind.
pub(super) fn look(ground: &Ground<'_>, notes: &mut Notes, skipped: &mut Vec<&'static str>) {
    if !ground.operators.iter().any(may_round) {
        return;
    }
    let mut shadows: Vec<Option<Shadow<u32>>> = Vec::new();
    shadows.resize_with(ground.memories(), || None);
    let mut search = ground.order.search();
    let mut found = false;
    for task in ground.sequence() {
        let Some((_, to)) = ground.moved(task) else { continue };
        let Some(shadow) = shadows.get_mut(to.memory) else { continue };
        let shadow = shadow.get_or_insert_with(|| Shadow::new(0..ground.size(to.memory), true));
        let mut others = Vec::new();
        // Each reduction is recorded like a plain write, so that only the last one is kept: a task
        // that comes after all reductions recorded so far also comes after those before them.
        let tasks = Tasks { search: &mut search, lanes: ground.order.lanes(), now: task };
        shadow.access(to.range.clone(), Mode::Write, &task, tasks, |what| {
            if let Found::Unordered { bytes, other, .. } = what {
                others.push((bytes, other));
            }
        });
        for (range, other) in others.into_iter().filter(|(_, other)| rounds(ground, *other)) {
            found = true;
            tell(ground, [other, task], &Bytes { range, ..to.clone() }, notes);
        }
        if found && search.steps() > PATIENCE {
            skipped.push("further not-reproducible");
            break;
        }
    }
}

/// Returns whether an operator has a reduction that is rounded.
pub(super) fn may_round(operator: &Operator) -> bool {
    let mut steps = operator.ranks.iter().flat_map(|rank| &rank.threads).flatten();
    operator.floats && steps.any(|step| sums(&step.task))
}

/// Returns whether another order may give another result for this task.
fn rounds(ground: &Ground<'_>, task: u32) -> bool {
    ground.operators[ground.operator(task) as usize].floats && sums(ground.task(task))
}

fn sums(task: &Task) -> bool {
    matches!(task, Task::Reduce { op: ReduceOp::Sum | ReduceOp::Prod, .. })
}

fn tell(ground: &Ground<'_>, both: [u32; 2], bytes: &Bytes, notes: &mut Notes) {
    let places = both.map(|task| ground.place(task)).to_vec();
    if notes.again("not-reproducible", "", &places) {
        return;
    }
    let op = match ground.task(both[0]) {
        Task::Reduce { op, .. } => op.name(),
        _ => "reduction",
    };
    let words = ground.words(bytes);
    let message = format!(
        "two tasks reduce into {words}, and nothing orders the two: a {op} of floating-point numbers is rounded, so it may differ from run to run"
    );
    let help = "change nothing if that is acceptable; otherwise let one task wait for the other, or let one thread do all reductions";
    notes.push(Severity::Note, "not-reproducible", places, None, (message, help.to_owned()));
}
