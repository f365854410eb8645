//! Finds races: two tasks touch the same bytes in no order, and at least one of them writes.

use super::finding::Notes;
use super::ground::{Bytes, Ground, PATIENCE};
use crate::lanes::Lanes;
use crate::order::Search;
use crate::shadow::{Found, Mode, Oracle, Shadow};
use crate::task::Task;

/// Decides the order of tasks by their numbers.
pub(super) struct Tasks<'a, 'b> {
    pub(super) search: &'a mut Search<'b>,
    pub(super) lanes: &'a Lanes,
    /// The task that accesses memory now.
    pub(super) now: u32,
}

impl Oracle<u32> for Tasks<'_, '_> {
    fn is_before(&mut self, earlier: &u32) -> bool {
        // A read and a write by the same task need no order.
        *earlier == self.now || self.search.reaches(*earlier, self.now)
    }

    fn is_known_at_once(&mut self, earlier: &u32) -> bool {
        // So only the last access of each thread is kept. These are few enough, and they need no
        // search.
        self.lanes.number(*earlier) == self.lanes.number(self.now)
    }
}

pub(super) fn look(ground: &Ground<'_>, notes: &mut Notes, skipped: &mut Vec<&'static str>) {
    let mut shadows: Vec<Option<Shadow<u32>>> = Vec::new();
    shadows.resize_with(ground.memories(), || None);
    let mut search = ground.order.search();
    let mut found = false;
    for task in ground.sequence() {
        let Some((from, to)) = ground.moved(task) else { continue };
        for (bytes, mode) in [(from, Mode::Read), (to, mode_of(ground, task))] {
            let Some(shadow) = shadows.get_mut(bytes.memory) else { continue };
            let shadow =
                shadow.get_or_insert_with(|| Shadow::new(0..ground.size(bytes.memory), true));
            let mut others = Vec::new();
            let tasks = Tasks { search: &mut search, lanes: ground.order.lanes(), now: task };
            shadow.access(bytes.range.clone(), mode, &task, tasks, |what| {
                if let Found::Unordered { other, mode, .. } = what
                    && !others.contains(&(other, mode))
                {
                    others.push((other, mode));
                }
            });
            for (other, other_mode) in others {
                found = true;
                tell(ground, (other, other_mode), (task, mode), &bytes, notes);
            }
        }
        if found && search.steps() > PATIENCE {
            skipped.push("further races");
            break;
        }
    }
}

/// Returns the mode in which a task accesses the bytes that it writes.
fn mode_of(ground: &Ground<'_>, task: u32) -> Mode {
    match ground.task(task) {
        // Reductions of elements of another size count as another kind.
        Task::Reduce { op, .. } => {
            let operator = &ground.operators[ground.operator(task) as usize];
            Mode::Reduce((operator.element as u32).wrapping_mul(4).wrapping_add(*op as u32))
        }
        _ => Mode::Write,
    }
}

fn tell(
    ground: &Ground<'_>,
    (first, first_mode): (u32, Mode),
    (second, mode): (u32, Mode),
    bytes: &Bytes,
    notes: &mut Notes,
) {
    // The task of the earlier operator comes first, even if the later operator ran first here.
    let mut both = [first, second];
    both.sort_by_key(|task| ground.operator(*task));
    let places = both.map(|task| ground.place(task)).to_vec();
    notes.add("race", "", places, || {
        // The message has all bytes that the two tasks share, not only those that were found first.
        let sides = ground.moved(first);
        let side = sides.map(|(from, to)| if first_mode == Mode::Read { from } else { to });
        let range = side.map_or(bytes.range.clone(), |side| {
            side.range.start.max(bytes.range.start)..side.range.end.min(bytes.range.end)
        });
        let how = match (first_mode, mode) {
            (Mode::Read, Mode::Write) | (Mode::Write, Mode::Read) => "read and written",
            (Mode::Read, _) | (_, Mode::Read) => "read and reduced into",
            (Mode::Reduce(_), Mode::Reduce(_)) => "reduced into in two ways",
            (Mode::Reduce(_), _) | (_, Mode::Reduce(_)) => "written and reduced into",
            _ => "written twice",
        };
        let words = ground.words(&Bytes { range, ..*bytes });
        let message = format!("{words} are {how}, and nothing orders the two");
        (message, help(ground, both))
    });
}

/// Returns the help: a notify that could order the two tasks.
fn help(ground: &Ground<'_>, [first, second]: [u32; 2]) -> String {
    let lanes = ground.order.lanes();
    let (a, b) = (lanes.lane(first), lanes.lane(second));
    let operators = [first, second].map(|task| ground.operator(task));
    if operators[0] != operators[1] && a.rank != b.rank {
        return format!(
            "let rank {} record a notify of its channel with rank {} when it is done, and let that rank wait for it before operator {} ends there",
            a.rank, b.rank, operators[0]
        );
    }
    let what = if a.rank == b.rank {
        format!(
            "let thread {} record a notify of thread {} when it is done, and let that thread wait for it first",
            a.thread, b.thread
        )
    } else {
        format!(
            "let rank {} record a notify of its channel with rank {} when it is done, and let that rank wait for it first",
            a.rank, b.rank
        )
    };
    format!("{what}, or the other way round, or use different bytes")
}
