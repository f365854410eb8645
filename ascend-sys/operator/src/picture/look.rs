//! The appearance of tasks and ranks in all pictures.

use crate::TaskId;
use crate::schedule::transfer;
use crate::{Operator, ReduceOp, Signal, Step, Task};
use ascend_timeline::draw::svg::{Svg, escape};
use std::fmt::Display;

pub(super) const INK: &str = "#1b2430";
pub(super) const GREY: &str = "#5f6b7a";
pub(super) const GRID: &str = "#e6e8eb";
pub(super) const BAND: &str = "#f5f7f9";
/// The colours of notifies: `WITHIN` between threads of a rank, and `ACROSS` between ranks.
pub(super) const WITHIN: &str = "#4f7fb5";
pub(super) const ACROSS: &str = "#d07a1c";
pub(super) const WRONG: &str = "#c0282d";
/// The colour of the tasks on the critical path.
pub(super) const CRITICAL: &str = "#1b2430";

/// The colours of the ranks, used in turn.
const COLOURS: [&str; 8] =
    ["#8fbce8", "#f3c07a", "#93d3a4", "#eba3ad", "#c3aee6", "#d2bd9b", "#84d2d0", "#dcd67a"];

pub(super) const fn colour(rank: u32) -> &'static str {
    COLOURS[rank as usize % COLOURS.len()]
}

/// Returns an estimate of the largest width of a text, in pixels, at a font size.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.57
}

/// Returns the name of a task in the source of the picture, such as "3/0/12".
pub(super) fn key(id: TaskId) -> String {
    format!("{}/{}/{}", id.rank, id.thread, id.position)
}

/// Returns the text that appears when the pointer is on a task.
pub(super) fn title(id: TaskId, step: &Step) -> String {
    let TaskId { rank, thread, position } = id;
    format!("rank {rank}, thread {thread}, task {position}: {}\n{}", step.task, step.source)
}

/// Returns the text in the box of a copy or reduction, such as "0→1 +".
pub(super) fn label(task: &Task) -> String {
    let sign = match task {
        Task::Reduce { op, .. } => sign(*op),
        _ => "",
    };
    match (transfer(task), task) {
        (Some((from, to, _)), _) => format!("{from}→{to}{sign}"),
        (None, Task::Copy { .. }) => "copy".into(),
        (None, Task::Reduce { op, .. }) => op.name().into(),
        (None, _) => String::new(),
    }
}

const fn sign(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => " +",
        ReduceOp::Prod => " ×",
        ReduceOp::Max => " max",
        ReduceOp::Min => " min",
    }
}

/// Returns the colour of a notify.
pub(super) const fn ink(signal: &Signal) -> &'static str {
    match signal {
        Signal::Thread { .. } => WITHIN,
        Signal::Channel { .. } => ACROSS,
    }
}

/// Returns the size of an operator in words, such as "4 ranks, 16 threads, 240 tasks".
pub(super) fn size(operator: &Operator) -> String {
    let threads = operator.ranks.iter().map(|rank| rank.threads.len()).sum();
    let counts = [(operator.ranks.len(), "rank"), (threads, "thread"), (operator.tasks(), "task")];
    counts.map(|(count, what)| some(count, what)).join(", ")
}

/// Returns a number with its noun, such as "1 rank" or "2 ranks".
pub(super) fn some(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Breaks a text into lines of at most `letters` letters. A longer word stays whole.
pub(super) fn wrap(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// Returns a number of bytes in words, such as "12.5 KiB".
pub(super) fn amount(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", (bytes as f64 / 102.4).round() / 10.0),
        1_048_576..1_073_741_824 => format!("{} MiB", (bytes as f64 / 104_857.6).round() / 10.0),
        _ => format!("{} GiB", (bytes as f64 / 107_374_182.4).round() / 10.0),
    }
}

/// Draws a box in two colours: the colour of the rank that the data comes from, and that of the
/// rank that it goes to.
pub(super) fn transfer_box(
    svg: &mut Svg,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    (from, to): (&str, &str),
    edge: &str,
) {
    let left = (width / 2.0).min(17.0);
    let rest = width - left;
    if from == to {
        svg.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{from}\" {edge}/>"
        ));
        return;
    }
    // The right part is drawn over the left one, and the edge around both.
    svg.push(format_args!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{from}\"/>\
         <path d=\"M{:.1} {y:.1} h{:.1} q2 0 2 2 v{:.1} q0 2 -2 2 h{:.1} z\" fill=\"{to}\"/>\
         <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"none\" {edge}/>",
        x + left,
        (rest - 2.0).max(0.0),
        height - 4.0,
        -(rest - 2.0).max(0.0)
    ));
}

/// Returns the colours of a copy or reduction: those of the source rank and of the destination
/// rank.
pub(super) fn colours(task: &Task) -> Option<(&'static str, &'static str)> {
    let (from, to) = task.pieces()?;
    Some((colour(from.rank), colour(to.rank)))
}

/// Draws the halo of a marked task.
pub(super) fn halo(svg: &mut Svg, (x, y): (f64, f64), (width, height): (f64, f64)) {
    svg.push(format_args!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\" fill=\"#fbd5d2\" stroke=\"{WRONG}\" stroke-width=\"1.6\"/>"
    ));
}

/// Draws a record: a triangle around a point.
pub(super) fn record(svg: &mut Svg, (x, y): (f64, f64), fill: &str, edge: &str) {
    svg.push(format_args!(
        "<path d=\"M{:.1} {:.1} l9 5 l-9 5 z\" fill=\"{fill}\" {edge}/>",
        x - 4.5,
        y - 5.0
    ));
}

/// Draws a wait: a ring around a point.
pub(super) fn wait(svg: &mut Svg, (x, y): (f64, f64), colour: &str, thick: bool) {
    let thick = if thick { "3.2" } else { "2" };
    svg.push(format_args!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"{thick}\"/>"
    ));
}

/// Draws an arrow from one point to another, with a title.
///
/// The arrow leaves to the right and arrives from the left. An arrow that leads down turns late and
/// one that leads up turns early, so that the two arrows between ranks that notify each other do
/// not coincide. An arrow that leads back to the left is straight.
pub(super) fn arrow(
    svg: &mut Svg,
    (x1, y1): (f64, f64),
    (x2, y2): (f64, f64),
    colour: &str,
    style: impl Display,
    title: &str,
) {
    let forth = x2 > x1;
    let tip = if forth { x2 - 4.5 } else { x2 + 4.5 };
    let room = (tip - x1).abs().min(40.0);
    let (early, late) = if y2 > y1 { (0.95, 0.25) } else { (0.25, 0.95) };
    let (leave, come) = match forth {
        true => (x1 + room * early, tip - room * late),
        false => (x1, tip),
    };
    let head = if forth { "l-5 -2.6 v5.2 z" } else { "l5 -2.6 v5.2 z" };
    svg.push(format_args!(
        "<path d=\"M{x1:.1} {y1:.1} C{leave:.1} {y1:.1} {come:.1} {y2:.1} {tip:.1} {y2:.1}\" fill=\"none\" stroke=\"{colour}\" {style}>{}</path>\
         <path d=\"M{x2:.1} {y2:.1} {head}\" fill=\"{colour}\"/>",
        if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) }
    ));
}

/// Draws a question mark that points to a wait.
pub(super) fn question(svg: &mut Svg, (x, y): (f64, f64), title: &str) {
    let style =
        format!("font-size=\"13\" font-weight=\"bold\" text-anchor=\"end\" fill=\"{WRONG}\"");
    svg.text(format!("{:.1}", x - 9.0), format!("{:.1}", y + 4.5), &style, "?");
    svg.push(format_args!(
        "<path d=\"M{:.1} {y:.1} H{:.1} m4 0 l-5 -2.6 v5.2 z\" stroke=\"{WRONG}\" fill=\"{WRONG}\"><title>{}</title></path>",
        x - 7.0,
        x - 4.0,
        escape(title)
    ));
}
