//! Draws the time of each task in a model as a picture.

use super::legend::{Legend, Sample};
use super::look::{self, ACROSS, CRITICAL, GREY, GRID, INK, WITHIN, WRONG, key, some};
use super::rows::{LEFT, Rows};
use crate::cost::{Cost, Model};
use crate::schedule::{Execution, Schedule, When, step};
use crate::{Operator, Signal, Step, Task, TaskId};
use ascend_timeline::draw::svg::{Svg, escape, shorten};
use std::collections::HashSet;

const WIDTH: f64 = 960.0;
const RIGHT: f64 = WIDTH - 28.0;
const HEIGHT: f64 = 14.0;
const WAITS: &str = "#e3e7ec";
/// The number of tasks of a picture that are drawn however thin they are, and the greatest number
/// of its notifies.
const MOST_THIN: usize = 6000;

pub(super) fn draw(operator: &Operator, model: &Model) -> String {
    let execution = Execution::of(operator);
    let schedule = execution.schedule(|task| model.time(task));
    let path = schedule.critical_path();
    // The numbers of a model may be invalid, for example infinite.
    let length = Some(schedule.length()).filter(|length| length.is_normal()).unwrap_or(1e-9);
    let picture = TimelinePicture {
        operator,
        execution: &execution,
        schedule: &schedule,
        critical: path.iter().copied().collect(),
        path,
        length: if execution.stuck.is_empty() { length } else { length * 1.3 },
    };
    picture.draw(model)
}

struct TimelinePicture<'a> {
    operator: &'a Operator,
    execution: &'a Execution<'a>,
    schedule: &'a Schedule<'a>,
    path: Vec<TaskId>,
    critical: HashSet<TaskId>,
    length: f64,
}

impl TimelinePicture<'_> {
    fn draw(&self, model: &Model) -> String {
        let wanted = &self.execution.stuck;
        let mut notes = self.notes(model);
        let rows = Rows::of(self.operator, wanted, 0.0);
        notes.extend(rows.note.iter().map(|note| (GREY, note.clone())));
        let legend = self.legend(44.0 + 16.0 * notes.len() as f64);
        let rows = Rows::of(self.operator, wanted, legend.floor + 10.0);
        let visible: Vec<(TaskId, &Step, f64)> = (self.execution.tasks())
            .filter_map(|(id, step)| Some((id, step, rows.middle(id.rank, id.thread)?)))
            .collect();

        let mut svg = Svg::new(WIDTH as usize, rows.floor as usize + 44, 12);
        let heading = format!("font-size=\"16\" font-weight=\"bold\" fill=\"{INK}\"");
        let title = format!("{}: {}", self.operator.name, look::size(self.operator));
        svg.text(14, 27, &heading, &shorten(&title, 96));
        for (at, (colour, note)) in notes.iter().enumerate() {
            svg.text(14, 47 + 16 * at, &format!("fill=\"{colour}\""), note);
        }
        legend.draw(&mut svg);
        rows.draw(&mut svg, WIDTH - 12.0);
        self.axis(&mut svg, legend.floor + 10.0, rows.floor);
        for (id, step, y) in visible.iter().take(MOST_THIN) {
            self.task(&mut svg, *id, step, *y);
        }
        for (id, step, y) in visible.iter().skip(MOST_THIN) {
            if self.x(self.schedule.when(*id).end) - self.x(self.schedule.when(*id).begin) > 0.5 {
                self.task(&mut svg, *id, step, *y);
            }
        }
        self.stuck(&mut svg, &rows);
        self.notifies(&mut svg, &visible, &rows);
        svg.finish()
    }

    fn notes(&self, model: &Model) -> Vec<(&'static str, String)> {
        let cost = Cost::of(self.operator, model);
        let most = cost.bytes_sent.iter().copied().max().unwrap_or_default();
        let each = if cost.bytes_sent.iter().all(|sent| *sent == most) {
            "each rank gives"
        } else {
            "a rank gives at most"
        };
        let mut notes = vec![
            (
                GREY,
                format!(
                    "{}, {} in which data moves; {each} {} to others.",
                    seconds(cost.time),
                    some(cost.steps as usize, "step"),
                    look::amount(most)
                ),
            ),
            (
                GREY,
                format!(
                    "In a model: a transfer takes {} and {} for each KiB, a reduction {}, a copy within a rank {}; a wait takes {}.",
                    seconds(model.alpha),
                    seconds(model.beta * 1024.0),
                    seconds(model.gamma * 1024.0),
                    seconds(model.copy * 1024.0),
                    seconds(model.notify)
                ),
            ),
        ];
        if !cost.stuck.is_empty() {
            notes.push((
                WRONG,
                format!("It hangs: nothing ends {}.", some(cost.stuck.len(), "wait")),
            ));
        }
        notes
    }

    fn x(&self, time: f64) -> f64 {
        LEFT + (time / self.length).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn task(&self, svg: &mut Svg, id: TaskId, step: &Step, y: f64) {
        let When { begin, start, end, .. } = self.schedule.when(id);
        let (critical, colour) =
            if self.critical.contains(&id) { (" critical", CRITICAL) } else { ("", GREY) };
        svg.push(format_args!(
            "<g class=\"task{critical}\" data-task=\"{}\"><title>{}\n{} to {}</title>",
            key(id),
            escape(&look::title(id, step)),
            seconds(begin),
            seconds(end)
        ));
        let (from, to) = (self.x(start), self.x(end));
        if let (Task::Wait(signal), true) = (&step.task, end > begin) {
            self.waits(svg, (self.x(begin), to), y, signal, WAITS);
        } else if let (Some(colours), true) = (look::colours(&step.task), end > start) {
            let width = (if critical.is_empty() { "0.6" } else { "1.8" }, (to - from).max(1.0));
            let edge = format!("stroke=\"{colour}\" stroke-width=\"{}\"", width.0);
            look::transfer_box(svg, (from, y - HEIGHT / 2.0), (width.1, HEIGHT), colours, &edge);
            let label = look::label(&step.task);
            if look::width(&label, 10.0) + 4.0 <= to - from {
                text(svg, (from + to) / 2.0, y, INK, &label);
            }
        } else {
            let ink = match &step.task {
                Task::Record(signal) | Task::Wait(signal) => look::ink(signal),
                _ => GREY,
            };
            let ink = if critical.is_empty() { ink } else { CRITICAL };
            svg.push(format_args!(
                "<path d=\"M{from:.1} {:.1} v8\" stroke=\"{ink}\" stroke-width=\"1.4\"/>",
                y - 4.0
            ));
        }
        svg.push("</g>");
    }

    fn waits(&self, svg: &mut Svg, (from, to): (f64, f64), y: f64, signal: &Signal, fill: &str) {
        svg.push(format_args!(
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\" fill=\"{fill}\"/>",
            y - HEIGHT / 2.0,
            (to - from).max(0.8)
        ));
        let label = match signal {
            Signal::Thread { .. } => "waits for a thread".to_owned(),
            Signal::Channel { peer, .. } => format!("waits for rank {peer}"),
        };
        if look::width(&label, 10.0) + 4.0 <= to - from {
            let ink = if fill == WAITS { GREY } else { "#ffffff" };
            text(svg, (from + to) / 2.0, y, ink, &label);
        }
    }

    /// Draws each stuck wait, from the time when it is reached to the end of the picture.
    fn stuck(&self, svg: &mut Svg, rows: &Rows) {
        for id in &self.execution.stuck {
            let (Some(y), Some(Step { task: Task::Wait(signal), .. })) =
                (rows.middle(id.rank, id.thread), step(self.operator, *id))
            else {
                continue;
            };
            let before = id.position.checked_sub(1).map(|position| TaskId { position, ..*id });
            let begin = before.map_or(0.0, |before| self.schedule.when(before).end);
            svg.push(format_args!(
                "<g class=\"task stuck\" data-task=\"{}\"><title>for ever: {signal}</title>",
                key(*id)
            ));
            let from = self.x(begin).min(RIGHT - 6.0);
            self.waits(svg, (from, RIGHT), y, signal, WRONG);
            svg.push("</g>");
        }
    }

    /// Draws an arrow from the end of each record to the end of its wait.
    fn notifies(&self, svg: &mut Svg, visible: &[(TaskId, &Step, f64)], rows: &Rows) {
        let critical: HashSet<(TaskId, TaskId)> =
            self.path.windows(2).map(|two| (two[0], two[1])).collect();
        let waits = visible.iter().filter_map(|(wait, step, y)| match &step.task {
            Task::Wait(signal) => Some((*wait, signal, *y)),
            _ => None,
        });
        for (wait, signal, to) in waits.take(MOST_THIN) {
            let Some(record) = self.execution.order.record_of(wait) else { continue };
            let Some(from) = rows.middle(record.rank, record.thread) else { continue };
            let (colour, width, opacity) = match critical.contains(&(record, wait)) {
                true => (CRITICAL, 2.0, 1.0),
                // A notify that no thread had to wait for is faint.
                false if self.schedule.when(wait).start > self.schedule.when(wait).begin => {
                    (look::ink(signal), 1.2, 0.9)
                }
                false => (look::ink(signal), 0.8, 0.35),
            };
            let ends =
                [(record, from), (wait, to)].map(|(id, y)| (self.x(self.schedule.when(id).end), y));
            svg.push(format_args!(
                "<g class=\"notify\" data-from=\"{}\" data-to=\"{}\" opacity=\"{opacity}\">",
                key(record),
                key(wait)
            ));
            straight(svg, ends[0], ends[1], colour, width);
            svg.push("</g>");
        }
    }

    fn legend(&self, top: f64) -> Legend {
        let steps = || self.execution.tasks().map(|(_, step)| &step.task);
        let within = steps().any(|task| matches!(task, Task::Record(Signal::Thread { .. })));
        let across = steps().any(|task| matches!(task, Task::Record(Signal::Channel { .. })));
        let reduces = steps().any(|task| matches!(task, Task::Reduce { .. }));
        let entries = [
            (true, Sample::Box, "data of rank 0 goes to rank 1"),
            (reduces, Sample::Sum, "and is combined with what is there"),
            (true, Sample::Bar(WAITS), "waits for a notify"),
            (across, Sample::Arrow(ACROSS, "1.4"), "from rank to rank"),
            (within, Sample::Arrow(WITHIN, "1.4"), "between threads of a rank"),
            (true, Sample::Arrow(CRITICAL, "2.2"), "what decides the time"),
            (!self.execution.stuck.is_empty(), Sample::Bar(WRONG), "waits for ever"),
        ];
        let entries = entries.into_iter().filter(|entry| entry.0);
        Legend::of(entries.map(|(_, sample, text)| (sample, text)), top, WIDTH - 12.0)
    }

    fn axis(&self, svg: &mut Svg, top: f64, floor: f64) {
        let (unit, name) = unit(self.length);
        let step = tick(self.length / unit);
        let small = format!("fill=\"{GREY}\" font-size=\"11\" text-anchor=\"middle\"");
        for number in
            (0..).map(|n| f64::from(n) * step).take_while(|at| at * unit <= self.length * 1.000_001)
        {
            let x = self.x(number * unit);
            svg.push(format_args!("<path d=\"M{x:.1} {top:.1} V{floor:.1}\" stroke=\"{GRID}\"/>"));
            let label = ((number * 1000.0).round() / 1000.0).to_string();
            svg.text(format!("{x:.1}"), format!("{:.1}", floor + 14.0), &small, &label);
        }
        svg.text((LEFT + RIGHT) / 2.0, format!("{:.1}", floor + 32.0), &small, name);
    }
}

fn text(svg: &mut Svg, x: f64, y: f64, ink: &str, text: &str) {
    let style = format!("font-size=\"10\" text-anchor=\"middle\" fill=\"{ink}\"");
    svg.text(format!("{x:.1}"), format!("{:.1}", y + 3.6), &style, text);
}

/// Draws a straight arrow. Most notifies take no time, so most arrows go straight up or down.
fn straight(svg: &mut Svg, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
    let tip = if y2 > y1 { "l-2.6 -5 h5.2 z" } else { "l-2.6 5 h5.2 z" };
    svg.push(format_args!(
        "<path d=\"M{x1:.1} {y1:.1} L{x2:.1} {y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\
         <path d=\"M{x2:.1} {y2:.1} {tip}\" fill=\"{colour}\"/>"
    ));
}

/// Returns the unit for a duration in seconds: its length in seconds, and its name.
const fn unit(seconds: f64) -> (f64, &'static str) {
    match seconds {
        0.0..1e-6 => (1e-9, "nanoseconds"),
        1e-6..1e-3 => (1e-6, "microseconds"),
        1e-3..1.0 => (1e-3, "milliseconds"),
        _ => (1.0, "seconds"),
    }
}

/// Returns a duration in words, such as "12.5 us".
fn seconds(seconds: f64) -> String {
    let (unit, _) = unit(seconds);
    let name = match unit {
        1e-9 => "ns",
        1e-6 => "us",
        1e-3 => "ms",
        _ => "s",
    };
    let number = seconds / unit;
    let places = if number < 10.0 { 100.0 } else { 10.0 };
    format!("{} {name}", (number * places).round() / places)
}

/// Returns the distance between two ticks. It is a round number, so that there are at most twelve
/// ticks.
fn tick(length: f64) -> f64 {
    let mut step = 1e-3;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if length / (step * factor) <= 11.0 {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}
