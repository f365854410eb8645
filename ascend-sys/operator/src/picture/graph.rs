//! Draws the task graph as a picture.

use super::legend::{Legend, Sample};
use super::look::{self, ACROSS, CRITICAL, GREY, INK, WITHIN, WRONG, key, some};
use super::rows::{LEFT, Rows};
use crate::TaskId;
use crate::schedule::{Execution, Schedule, step};
use crate::{Operator, Signal, Step, Task};
use ascend_timeline::draw::svg::{Svg, escape, shorten};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The greatest number of columns with tasks in a picture.
const MOST_COLUMNS: usize = 96;
/// The width of a column of notifies. `LEAST_WIDTH` is the smallest width of a picture.
const NARROW: f64 = 22.0;
const LEAST_WIDTH: f64 = 700.0;
/// The size of the letters in the boxes. `HEIGHT` is the height of a box.
const LETTERS: f64 = 10.0;
const HEIGHT: f64 = 14.0;

/// Draws the graph with some tasks marked, and lines of text about them.
pub(super) fn draw(operator: &Operator, marked: &[TaskId], said: &[String]) -> String {
    let execution = Execution::of(operator);
    let schedule = execution.schedule(|_| 1.0);
    let wanted: Vec<TaskId> = marked.iter().chain(&execution.stuck).copied().collect();
    // In a picture of a mistake, the longest chain would only distract.
    let wrong = !said.is_empty() || !execution.stuck.is_empty();
    let path = if wrong { Vec::new() } else { schedule.critical_path() };
    let picture = GraphPicture {
        operator,
        execution: &execution,
        schedule: &schedule,
        marked: marked.iter().copied().collect(),
        critical: path.iter().copied().collect(),
        path,
        nobody: nobody_records(operator, &execution),
    };
    picture.draw(&wanted, said)
}

/// Returns the waits that never end. Each has the record that would end it but is never reached, or
/// `None` if there is no such record.
fn nobody_records(operator: &Operator, execution: &Execution) -> HashMap<TaskId, Option<TaskId>> {
    let mut waits: HashMap<Signal, TaskId> = HashMap::new();
    let mut ends: HashMap<TaskId, Option<TaskId>> = HashMap::new();
    for wait in &execution.stuck {
        ends.insert(*wait, None);
        if let Some(Step { task: Task::Wait(signal), .. }) = step(operator, *wait) {
            waits.entry(*signal).or_insert(*wait);
        }
    }
    for behind in &execution.stuck {
        for id in following(operator, *behind) {
            let Some(Step { task: Task::Record(signal), .. }) = step(operator, id) else {
                continue;
            };
            // Only the first record found would end this wait; a later wait would take a second
            // one.
            if let Some(wait) = waits.remove(signal) {
                ends.insert(wait, Some(id));
            }
        }
    }
    ends
}

/// Returns a task and the tasks after it in its thread.
fn following(operator: &Operator, first: TaskId) -> impl Iterator<Item = TaskId> {
    let ids = (first.position..).map(move |position| TaskId { position, ..first });
    ids.take_while(|id| step(operator, *id).is_some())
}

struct GraphPicture<'a> {
    operator: &'a Operator,
    execution: &'a Execution<'a>,
    schedule: &'a Schedule<'a>,
    marked: HashSet<TaskId>,
    /// The tasks of the critical path, in their order. `critical` has the same tasks as a set.
    path: Vec<TaskId>,
    critical: HashSet<TaskId>,
    nobody: HashMap<TaskId, Option<TaskId>>,
}

/// The place of a task in the picture: the middle of its sign, and half the width of the sign.
#[derive(Clone, Copy)]
struct TaskBox {
    x: f64,
    y: f64,
    half: f64,
}

impl GraphPicture<'_> {
    fn draw(&self, wanted: &[TaskId], said: &[String]) -> String {
        let columns = self.columns();
        // The first layout begins at 0, to get its width and height.
        let rows = Rows::of(self.operator, wanted, 0.0);
        let shown = Shown::of(self, &rows, &columns, wanted);
        let right = (LEFT + shown.width + 16.0).max(LEAST_WIDTH);
        let letters = (right / 6.8) as usize;
        let said = said.iter().flat_map(|text| look::wrap(text, letters));
        let mut notes: Vec<_> = said.map(|line| (WRONG, line)).collect();
        if notes.is_empty() && !self.marked.is_empty() {
            notes.push((WRONG, format!("{} marked.", some(self.marked.len(), "task"))));
        }
        notes.extend(self.notes());
        notes.extend(rows.note.iter().chain(&shown.note).map(|note| (GREY, note.clone())));
        let legend = self.legend(44.0 + 16.0 * notes.len() as f64, right);
        let top = legend.floor + 10.0;
        let rows = Rows::of(self.operator, wanted, top);
        let places = shown.places(&rows);

        let mut svg = Svg::new(right as usize + 12, rows.floor as usize + 8, 12);
        let heading = format!("font-size=\"16\" font-weight=\"bold\" fill=\"{INK}\"");
        let most = (right / 9.5) as usize;
        svg.text(14, 27, &heading, &shorten(&self.title(), most));
        for (at, (colour, note)) in notes.iter().enumerate() {
            svg.text(14, 47 + 16 * at, &format!("fill=\"{colour}\""), note);
        }
        legend.draw(&mut svg);
        rows.draw(&mut svg, right);
        self.threads(&mut svg, &rows, &places);
        self.arrows(&mut svg, &places, &rows);
        self.chain(&mut svg, &places);
        for (id, place) in &places {
            self.task(&mut svg, *id, *place);
        }
        self.missing(&mut svg, &places);
        svg.finish()
    }

    fn title(&self) -> String {
        format!("{}: {}", self.operator.name, look::size(self.operator))
    }

    fn notes(&self) -> Vec<(&'static str, String)> {
        let mut notes = Vec::new();
        if !self.path.is_empty() {
            let steps = some(self.schedule.steps() as usize, "step");
            let tasks = some(self.path.len(), "task");
            notes.push((
                GREY,
                format!(
                    "Its longest chain has {tasks}; data moves in {steps} one after the other."
                ),
            ));
        }
        if !self.execution.stuck.is_empty() {
            let waits = some(self.execution.stuck.len(), "wait");
            notes.push((WRONG, format!("It hangs: nothing ends {waits}.")));
        }
        notes
    }

    /// Returns the column of each task: its unit of time, if every task takes one unit. Tasks that
    /// never run come after the task before them in their thread.
    fn columns(&self) -> HashMap<TaskId, usize> {
        let ran = self.execution.tasks();
        let mut columns: HashMap<TaskId, usize> =
            ran.map(|(id, _)| (id, self.schedule.when(id).start as usize)).collect();
        for stuck in &self.execution.stuck {
            let before =
                stuck.position.checked_sub(1).map(|position| TaskId { position, ..*stuck });
            let first = before.and_then(|id| columns.get(&id)).map_or(0, |column| column + 1);
            columns.extend(following(self.operator, *stuck).zip(first..));
        }
        columns
    }

    fn threads(&self, svg: &mut Svg, rows: &Rows, places: &BTreeMap<TaskId, TaskBox>) {
        let mut ends: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
        for (id, place) in places {
            let end = ends.entry((id.rank, id.thread)).or_insert((place.x, place.x));
            *end = (end.0.min(place.x), end.1.max(place.x));
        }
        for (rank, thread, y) in rows.threads() {
            if let Some((from, to)) = ends.get(&(rank, thread)) {
                line(svg, (*from, *to), y, "#c4cbd3", 1.0);
            }
        }
    }

    fn arrows(&self, svg: &mut Svg, places: &BTreeMap<TaskId, TaskBox>, rows: &Rows) {
        let critical: HashSet<(TaskId, TaskId)> =
            self.path.windows(2).map(|two| (two[0], two[1])).collect();
        // The arrows of the critical path are drawn above the other arrows.
        for above in [false, true] {
            for (wait, step) in self.execution.tasks() {
                let Task::Wait(signal) = &step.task else { continue };
                let Some(record) = self.execution.order.record_of(wait) else { continue };
                let strong = critical.contains(&(record, wait));
                if strong != above {
                    continue;
                }
                match (places.get(&record), places.get(&wait)) {
                    (Some(from), Some(to)) => {
                        self.notify(svg, (record, *from), (wait, *to), signal, strong)
                    }
                    (None, None) => {}
                    (from, to) => {
                        stub(svg, from.or(to), (record, wait), from.is_some(), signal, rows)
                    }
                }
            }
        }
    }

    fn notify(
        &self,
        svg: &mut Svg,
        (record, from): (TaskId, TaskBox),
        (wait, to): (TaskId, TaskBox),
        signal: &Signal,
        strong: bool,
    ) {
        let (colour, style) = match strong {
            true => (CRITICAL, "stroke-width=\"2\""),
            false => (look::ink(signal), "stroke-width=\"1.1\" stroke-opacity=\"0.75\""),
        };
        svg.push(format_args!(
            "<g class=\"notify\" data-from=\"{}\" data-to=\"{}\">",
            key(record),
            key(wait)
        ));
        let ends = ((from.x + from.half, from.y), (to.x - to.half, to.y));
        look::arrow(svg, ends.0, ends.1, colour, style, &signal.to_string());
        svg.push("</g>");
    }

    /// Draws the parts of the longest chain that are within threads. `arrows` draws its arrows.
    fn chain(&self, svg: &mut Svg, places: &BTreeMap<TaskId, TaskBox>) {
        for two in self.path.windows(2) {
            if (two[0].rank, two[0].thread) != (two[1].rank, two[1].thread) {
                continue;
            }
            if let (Some(from), Some(to)) = (places.get(&two[0]), places.get(&two[1])) {
                line(svg, (from.x, to.x), from.y, CRITICAL, 2.0);
            }
        }
    }

    fn task(&self, svg: &mut Svg, id: TaskId, TaskBox { x, y, half }: TaskBox) {
        let Some(step) = step(self.operator, id) else { return };
        let ran = self.schedule.when(id).ran;
        let stuck = self.nobody.contains_key(&id);
        let critical = self.critical.contains(&id);
        let state = match (ran, stuck) {
            (true, _) if critical => " critical",
            (true, _) => "",
            (false, true) => " stuck",
            (false, false) => " never",
        };
        let marked = if self.marked.contains(&id) { " marked" } else { "" };
        let fade = if state == " never" { " opacity=\"0.4\"" } else { "" };
        svg.push(format_args!(
            "<g class=\"task{state}{marked}\" data-task=\"{}\"{fade}><title>{}</title>",
            key(id),
            escape(&look::title(id, step))
        ));
        if self.marked.contains(&id) {
            let corner = (x - half - 3.5, y - HEIGHT / 2.0 - 2.0);
            look::halo(svg, corner, (half * 2.0 + 7.0, HEIGHT + 4.0));
        }
        let edge = match critical {
            true => format!("stroke=\"{CRITICAL}\" stroke-width=\"1.8\""),
            false => format!("stroke=\"{GREY}\" stroke-width=\"0.6\""),
        };
        match &step.task {
            Task::Record(signal) => {
                let edge = if critical { edge.as_str() } else { "" };
                look::record(svg, (x, y), look::ink(signal), edge);
            }
            Task::Wait(signal) => {
                let colour = if stuck { WRONG } else { look::ink(signal) };
                look::wait(svg, (x, y), if critical { CRITICAL } else { colour }, stuck);
            }
            task => {
                let Some(colours) = look::colours(task) else { return };
                let corner = (x - half, y - HEIGHT / 2.0);
                look::transfer_box(svg, corner, (half * 2.0, HEIGHT), colours, &edge);
                let style =
                    format!("font-size=\"{LETTERS}\" text-anchor=\"middle\" fill=\"{INK}\"");
                let (x, y) = (format!("{x:.1}"), format!("{:.1}", y + 3.6));
                svg.text(x, y, &style, &look::label(task));
            }
        }
        svg.push("</g>");
    }

    /// Draws, for each wait that never ends, an arrow from the record that would end it, or a
    /// question mark.
    fn missing(&self, svg: &mut Svg, places: &BTreeMap<TaskId, TaskBox>) {
        for (wait, record) in
            self.execution.stuck.iter().filter_map(|id| Some((id, self.nobody.get(id)?)))
        {
            let Some(to) = places.get(wait) else { continue };
            let end = (to.x - to.half - 1.0, to.y);
            // The arrow leads from the right of the record to the left of the wait. It is straight
            // if the wait is not to the right of the record.
            match record.map(|record| (record, places.get(&record))) {
                Some((record, Some(from))) => {
                    svg.push(format_args!(
                        "<g class=\"missing\" data-from=\"{}\" data-to=\"{}\">",
                        key(record),
                        key(*wait)
                    ));
                    let style = "stroke-width=\"1.6\" stroke-dasharray=\"5 3\"";
                    look::arrow(
                        svg,
                        (from.x + from.half, from.y),
                        end,
                        WRONG,
                        style,
                        "never recorded",
                    );
                }
                // There is a record, but the picture does not show it.
                Some((record, None)) => {
                    svg.push(format_args!(
                        "<g class=\"missing\" data-from=\"{}\" data-to=\"{}\">",
                        key(record),
                        key(*wait)
                    ));
                    look::question(svg, end, &format!("it is for rank {}", record.rank));
                }
                None => {
                    svg.push(format_args!("<g class=\"missing\" data-to=\"{}\">", key(*wait)));
                    look::question(svg, end, "nobody records it");
                }
            }
            svg.push("</g>");
        }
    }

    fn legend(&self, top: f64, right: f64) -> Legend {
        let used = |wanted: &dyn Fn(&Task) -> bool| {
            let steps = self.operator.ranks.iter().flat_map(|rank| rank.threads.iter().flatten());
            steps.into_iter().any(|step| wanted(&step.task))
        };
        let within = used(&|task| matches!(task, Task::Record(Signal::Thread { .. })));
        let across = used(&|task| matches!(task, Task::Record(Signal::Channel { .. })));
        let reduces = used(&|task| matches!(task, Task::Reduce { .. }));
        let entries = [
            (true, Sample::Box, "data of rank 0 goes to rank 1"),
            (reduces, Sample::Sum, "and is added there, or combined in another way"),
            (true, Sample::Record, "record of a notify"),
            (true, Sample::Wait, "wait for it"),
            (across, Sample::Arrow(ACROSS, "1.4"), "from rank to rank"),
            (within, Sample::Arrow(WITHIN, "1.4"), "between threads of a rank"),
            (!self.path.is_empty(), Sample::Arrow(CRITICAL, "2.2"), "the longest chain"),
            (!self.marked.is_empty(), Sample::Marked, "marked"),
            (!self.nobody.is_empty(), Sample::Stuck, "a wait that never ends"),
            (!self.nobody.is_empty(), Sample::Dashed, "what would end it is never reached"),
            (self.nobody.values().any(Option::is_none), Sample::Question, "nobody records it"),
        ];
        Legend::of(
            entries.into_iter().filter(|entry| entry.0).map(|(_, sample, text)| (sample, text)),
            top,
            right,
        )
    }
}

fn line(svg: &mut Svg, (from, to): (f64, f64), y: f64, colour: &str, width: f64) {
    svg.push(format_args!(
        "<path d=\"M{from:.1} {y:.1} H{to:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
    ));
}

/// Draws the part of a notify whose other end is not drawn.
fn stub(
    svg: &mut Svg,
    place: Option<&TaskBox>,
    (record, wait): (TaskId, TaskId),
    leaves: bool,
    signal: &Signal,
    rows: &Rows,
) {
    let Some(TaskBox { x, y, half }) = place.copied() else { return };
    let other = if leaves { wait } else { record };
    // In a picture without all columns, the row of the other end may be drawn although the other
    // end is not.
    let (dx, dy) = match rows.middle(other.rank, other.thread) {
        Some(_) => (9.0, 0.0),
        None => (5.0, if other > (if leaves { record } else { wait }) { 7.0 } else { -7.0 }),
    };
    let (x, dx) = if leaves { (x + half, dx) } else { (x - half, -dx) };
    let title = format!(
        "{signal}: {} rank {}, thread {}",
        if leaves { "to" } else { "from" },
        other.rank,
        other.thread
    );
    svg.push(format_args!(
        "<path class=\"stub\" d=\"M{x:.1} {y:.1} l{dx:.1} {dy:.1}\" stroke=\"{}\" stroke-dasharray=\"2 1.5\"><title>{}</title></path>",
        look::ink(signal),
        escape(&title)
    ));
}

/// The part of the graph that is drawn.
struct Shown {
    /// The middle of each task's sign, and half of its width.
    tasks: BTreeMap<TaskId, (f64, f64)>,
    width: f64,
    /// The note about columns that are not drawn.
    note: Option<String>,
}

impl Shown {
    fn of(
        picture: &GraphPicture,
        rows: &Rows,
        columns: &HashMap<TaskId, usize>,
        wanted: &[TaskId],
    ) -> Shown {
        let visible = || {
            let rank = |rank: u32| picture.operator.ranks.get(rank as usize);
            rows.threads().flat_map(move |(rank_id, thread, _)| {
                let steps = rank(rank_id).and_then(|rank| rank.threads.get(thread as usize));
                let first = TaskId { rank: rank_id, thread, position: 0 };
                (0..)
                    .zip(steps.into_iter().flatten())
                    .map(move |(position, step)| (TaskId { position, ..first }, step))
            })
        };
        // The width of each column that has a visible task.
        let mut widths: BTreeMap<usize, f64> = BTreeMap::new();
        for (id, step) in visible() {
            let Some(column) = columns.get(&id) else { continue };
            let asks = picture.nobody.get(&id).is_some_and(|record| {
                record.is_none_or(|record| rows.middle(record.rank, record.thread).is_none())
            });
            let width = if asks { NARROW + 40.0 } else { half(&step.task) * 2.0 + 9.0 };
            let widest = widths.entry(*column).or_insert(NARROW);
            *widest = widest.max(width);
        }
        let all = widths.len();
        let first = wanted.iter().filter_map(|id| columns.get(id)).min();
        // The picture shows some columns before the first marked task, unless there is room for all
        // columns.
        let before = first.map_or(0, |first| widths.range(..first).count());
        let skip = before.saturating_sub(MOST_COLUMNS / 2).min(all.saturating_sub(MOST_COLUMNS));
        let mut starts = BTreeMap::new();
        let mut x = LEFT + 4.0;
        for (column, width) in widths.into_iter().skip(skip).take(MOST_COLUMNS) {
            starts.insert(column, x + width / 2.0);
            x += width;
        }
        let note = (all > MOST_COLUMNS).then(|| {
            format!(
                "Steps {} to {} of {all} are drawn; the trace has all.",
                skip + 1,
                skip + MOST_COLUMNS
            )
        });
        let place = |(id, step): (TaskId, &Step)| {
            Some((id, (*starts.get(columns.get(&id)?)?, half(&step.task))))
        };
        Shown { tasks: visible().filter_map(place).collect(), width: x - LEFT, note }
    }

    fn places(&self, rows: &Rows) -> BTreeMap<TaskId, TaskBox> {
        let place = |(id, (x, half)): (&TaskId, &(f64, f64))| {
            let y = rows.middle(id.rank, id.thread)?;
            Some((*id, TaskBox { x: *x, y, half: *half }))
        };
        self.tasks.iter().filter_map(place).collect()
    }
}

/// Returns half the width of a task's sign.
fn half(task: &Task) -> f64 {
    match task {
        Task::Copy { .. } | Task::Reduce { .. } => {
            look::width(&look::label(task), LETTERS) / 2.0 + 4.0
        }
        Task::Record(_) | Task::Wait(_) => 5.0,
    }
}
