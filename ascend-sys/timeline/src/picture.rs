//! Draws a timeline as a picture.

use crate::chart::{Chart, Flow, Row, RowKind, Says, Span, SpanKind};
use crate::draw::svg::{Svg, escape, shorten};
use std::collections::{BTreeSet, HashMap};

const WIDTH: usize = 960;
const MARGIN: usize = 16;
/// The left end of the time axis.
const LEFT: usize = 148;
const RIGHT: usize = WIDTH - 24;
/// The limits of a picture: the greatest numbers of cores and of threads of a device, of notifies,
/// of links, of devices and of failures. The trace has all of them.
const MOST_CORES: usize = 24;
const MOST_THREADS: usize = 16;
const MOST_FLOWS: usize = 2000;
const MOST_LINKS: usize = 56;
const MOST_DEVICES: usize = 16;
const MOST_FAILURES: usize = 6;
/// The approximate width of a letter of the labels in bars.
const LETTER: f64 = 5.6;

const INK: &str = "#1b2430";
const GREY: &str = "#5f6b7a";
const GRID: &str = "#e6e8eb";
const MARK: &str = "#d8481f";
const FAILED: &str = "#b02a2a";
/// The colours of notifies: `ACROSS` between ranks, and `WITHIN` between the threads of one rank.
const ACROSS: &str = "#d07a1c";
const WITHIN: &str = "#4f7fb5";

/// Returns the picture, as the text of an SVG file.
pub(super) fn draw(chart: &Chart) -> String {
    let mut lines = Vec::new();
    let (devices, links): (Vec<_>, Vec<_>) = chart
        .groups
        .iter()
        .partition(|group| group.rows.iter().all(|row| row.kind != RowKind::Link));
    for group in devices.iter().take(MOST_DEVICES) {
        lines.push(PictureLine::Group(&group.name));
        let of = |wanted: &dyn Fn(RowKind) -> bool| -> Vec<&Row> {
            group.rows.iter().filter(|row| wanted(row.kind)).collect()
        };
        let cores = of(&|kind| !matches!(kind, RowKind::Server | RowKind::Thread));
        // The row of the kernel itself is not a core, hence the 1.
        lines.extend(cores.iter().take(MOST_CORES + 1).map(|row| PictureLine::Row(row)));
        lines.extend(PictureLine::more(cores.len(), MOST_CORES + 1, "cores"));
        lines.extend(of(&|kind| kind == RowKind::Server).into_iter().map(PictureLine::Row));
        let threads = of(&|kind| kind == RowKind::Thread);
        lines.extend(threads.iter().take(MOST_THREADS).map(|row| PictureLine::Row(row)));
        lines.extend(PictureLine::more(threads.len(), MOST_THREADS, "threads"));
    }
    lines.extend(PictureLine::more(devices.len(), MOST_DEVICES, "devices"));
    for group in links {
        lines.push(PictureLine::Group(&group.name));
        lines.extend(group.rows.iter().take(MOST_LINKS).map(PictureLine::Row));
        lines.extend(PictureLine::more(group.rows.len(), MOST_LINKS, "links"));
    }

    let notes = notes(chart);
    let legend = 44 + 16 * notes.len();
    let rows = lines.iter().filter_map(|line| match line {
        PictureLine::Row(row) => Some(row.kind),
        _ => None,
    });
    let signs = signs(rows.collect());
    let top = legend + 12 + 20 * signs.len();
    let floor = top + lines.iter().map(PictureLine::height).sum::<usize>();
    let mut svg = Svg::new(WIDTH, floor + 48, 12);
    let heading = format!("font-size=\"16\" font-weight=\"bold\" fill=\"{INK}\"");
    svg.text(MARGIN, 28, &heading, &shorten(&chart.title, 100));
    for (at, (colour, note)) in notes.iter().enumerate() {
        svg.text(MARGIN, 48 + 16 * at, &format!("fill=\"{colour}\""), note);
    }
    draw_legend(&mut svg, legend, &signs);
    let axis = Axis { length: chart.length.max(1) };
    axis.draw(&mut svg, top, floor);
    let mut y = top;
    let mut threads = HashMap::new();
    for line in &lines {
        line.draw(&mut svg, &axis, y);
        if let PictureLine::Row(Row { thread: Some(thread), .. }) = line {
            threads.insert(*thread, y + 7);
        }
        y += line.height();
    }
    for flow in chart.flows.iter().take(MOST_FLOWS) {
        draw_flow(&mut svg, &axis, flow, &threads);
    }
    svg.finish()
}

/// Draws an arrow from a record to the wait that took it.
fn draw_flow(svg: &mut Svg, axis: &Axis, flow: &Flow, threads: &HashMap<u64, usize>) {
    let (Some(from), Some(to)) = (threads.get(&flow.from.0), threads.get(&flow.to.0)) else {
        return;
    };
    let colour = if flow.across { ACROSS } else { WITHIN };
    let tip = if to > from { "l-2.4 -5 h4.8 z" } else { "l-2.4 5 h4.8 z" };
    let (begin, end) = (axis.x(flow.from.1), axis.x(flow.to.1));
    svg.push(format_args!(
        "<path d=\"M{begin:.1} {from} L{end:.1} {to}\" stroke=\"{colour}\" stroke-opacity=\"0.7\"/>\
         <path d=\"M{end:.1} {to} {tip}\" fill=\"{colour}\"/>"
    ));
}

/// Returns the notes above the rows, each with its colour.
fn notes(chart: &Chart) -> Vec<(&'static str, String)> {
    let honest = [
        "Real time of the emulator: cores of a launch are interpreted one after the other until they wait, and data moves by copies in memory.",
        "The order and who waits for whom are those of the kernel; how long something takes says nothing about an NPU.",
    ];
    let mut notes: Vec<_> = honest.into_iter().map(|note| (GREY, note.to_owned())).collect();
    if chart.left_out > 0 {
        let note = format!("{} entries are left out: the recording was full.", chart.left_out);
        notes.push((FAILED, note));
    }
    for group in &chart.groups {
        let spans = group.rows.iter().flat_map(|row| &row.spans);
        let failures = spans.flat_map(|span| &span.says).filter_map(|(key, value)| match value {
            Says::Text(text) if *key == "failure" => Some(text),
            _ => None,
        });
        let told = |text: &String| (FAILED, shorten(&format!("{}: {text}", group.name), 140));
        notes.extend(failures.map(told));
    }
    // The two fixed notes are always there. The first few failures are enough.
    notes.truncate(2 + MOST_FAILURES);
    notes
}

/// A line of the picture.
enum PictureLine<'a> {
    Group(&'a str),
    Row(&'a Row),
    More(String),
}

impl<'a> PictureLine<'a> {
    fn more(count: usize, most: usize, what: &str) -> Option<PictureLine<'a>> {
        let more = count.saturating_sub(most);
        (more > 0).then(|| PictureLine::More(format!("and {more} more {what}, shown in the trace")))
    }

    fn height(&self) -> usize {
        match self {
            PictureLine::Group(_) => 26,
            PictureLine::More(_) => 18,
            PictureLine::Row(row) => match row.kind {
                RowKind::Kernel => 15,
                RowKind::Cube | RowKind::Vector | RowKind::Link | RowKind::Thread => 17,
                RowKind::Server => 19,
            },
        }
    }

    fn draw(&self, svg: &mut Svg, axis: &Axis, y: usize) {
        let small = format!("fill=\"{GREY}\" font-size=\"11\"");
        match self {
            PictureLine::Group(name) => {
                let style = format!("font-weight=\"bold\" fill=\"{INK}\"");
                svg.text(MARGIN, y + 19, &style, &shorten(name, 60));
            }
            PictureLine::More(text) => svg.text(LEFT, y + 13, &small, text),
            PictureLine::Row(row) => {
                let height = self.height() - 3;
                let end = format!("{small} text-anchor=\"end\"");
                svg.text(LEFT - 8, y + height - 3, &end, &shorten(&row.name, 22));
                draw_row(svg, axis, row, y, height);
            }
        }
    }
}

fn draw_row(svg: &mut Svg, axis: &Axis, row: &Row, y: usize, height: usize) {
    for layer in 0..3 {
        // A span that is too thin to be seen next to the span before it is left out.
        let mut seen = f64::MIN;
        for span in row.spans.iter().flat_map(|span| at_depth(span, layer)) {
            let (from, to) = (axis.x(span.from), axis.x(span.to));
            if to - seen < 0.4 {
                continue;
            }
            seen = to;
            bar(svg, span, (from, to), y, height);
        }
    }
    // The wider part of a turn carries the turn's name.
    for turn in row.spans.iter().filter(|span| span.look == SpanKind::Turn) {
        if let Some(part) = turn.parts.iter().max_by_key(|part| part.to - part.from) {
            label(svg, &turn.name, part.look, (axis.x(part.from), axis.x(part.to)), y + height);
        }
    }
    let mut seen = f64::MIN;
    for (at, what) in &row.marks {
        let x = axis.x(*at);
        if x - seen < 1.0 {
            continue;
        }
        seen = x;
        svg.push(format_args!(
            "<path d=\"M{x:.1} {} l3.5 -5 h-7 z\" fill=\"{MARK}\"><title>{}</title></path>",
            y + 5,
            escape(what)
        ));
    }
}

/// Returns the parts of a span at a depth. Depth 0 is the span itself.
fn at_depth(span: &Span, depth: usize) -> Vec<&Span> {
    match depth {
        0 => vec![span],
        _ => span.parts.iter().flat_map(|part| at_depth(part, depth - 1)).collect(),
    }
}

fn bar(svg: &mut Svg, span: &Span, (from, to): (f64, f64), y: usize, height: usize) {
    let Some((fill, _)) = colours(span.look) else { return };
    let width = (to - from).max(0.6);
    let says: Vec<String> = span
        .says
        .iter()
        .map(|(key, value)| match value {
            Says::Text(text) => format!("{key}: {text}"),
            Says::Number(number) => format!("{key}: {number}"),
            Says::Time(time) => format!("{key}: {:.1}", *time as f64 / 1e3),
        })
        .collect();
    let lasts = (span.to - span.from) as f64 / 1e3;
    let title = format!("{}, {lasts:.1} us\n{}", span.name, says.join("\n"));
    // The edge separates neighbours of the same colour.
    let edge = if width > 3.0 { " stroke=\"#ffffff\" stroke-width=\"0.5\"" } else { "" };
    svg.push(format_args!(
        "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{fill}\"{edge}><title>{}</title></rect>",
        escape(title.trim_end())
    ));
    let text = match span.look {
        SpanKind::Carries => span.says.iter().find_map(|(key, value)| match value {
            Says::Number(bytes) if *key == "bytes" => Some(amount(*bytes)),
            _ => None,
        }),
        SpanKind::Waits => span.name.strip_prefix("waits: ").map(str::to_owned),
        SpanKind::Multiplies | SpanKind::Copies => Some(span.name.clone()),
        // A `Moves` span with information is a one-sided write. A turn in which ranks meet draws
        // its own name.
        SpanKind::Moves if !span.says.is_empty() => Some(span.name.clone()),
        SpanKind::Kernel | SpanKind::Failed => {
            Some(shorten(&span.name, ((width - 6.0) / LETTER).max(0.0) as usize))
        }
        _ => None,
    };
    if let Some(text) = text {
        label(svg, &text, span.look, (from, to), y + height);
    }
}

/// Writes a text into a bar that ends at `bottom`, if the text fits.
fn label(svg: &mut Svg, text: &str, look: SpanKind, (from, to): (f64, f64), bottom: usize) {
    let fits = text.chars().count() as f64 * LETTER + 6.0 <= to - from;
    if let (Some((_, ink)), true, false) = (colours(look), fits, text.is_empty()) {
        let style = format!("font-size=\"10\" fill=\"{ink}\"");
        svg.text(format_args!("{:.1}", from + 3.0), bottom - 4, &style, text);
    }
}

/// Returns the colour of the bar and the colour of its text. `None` if the span has no bar.
fn colours(look: SpanKind) -> Option<(&'static str, &'static str)> {
    match look {
        SpanKind::Kernel => Some(("#d9dee5", INK)),
        SpanKind::Failed => Some((FAILED, "#ffffff")),
        SpanKind::Block | SpanKind::Turn => None,
        SpanKind::Runs => Some(("#7fb0e0", INK)),
        SpanKind::Multiplies => Some(("#2f6db3", "#ffffff")),
        SpanKind::Waits => Some(("#eceff3", GREY)),
        SpanKind::Meets => Some(("#bfe2cd", INK)),
        SpanKind::Moves => Some(("#2e9460", "#ffffff")),
        SpanKind::Carries => Some(("#a78bca", "#ffffff")),
        SpanKind::Copies => Some(("#7fb0e0", INK)),
        SpanKind::Records => Some((ACROSS, "#ffffff")),
    }
}

/// Returns the lines of the legend that these kinds of rows need.
fn signs(kinds: BTreeSet<RowKind>) -> Vec<&'static [(SpanKind, &'static str)]> {
    let of_threads = kinds.contains(&RowKind::Thread);
    let mut signs: Vec<&[_]> = Vec::new();
    if !of_threads || kinds.iter().any(|kind| *kind != RowKind::Thread) {
        signs.push(&[
            (SpanKind::Runs, "runs"),
            (SpanKind::Multiplies, "multiplies matrices"),
            (SpanKind::Waits, "waits, and for what"),
            (SpanKind::Block, "the core prepares or commits"),
        ]);
        signs.push(&[
            (SpanKind::Meets, "the server waits for the other ranks"),
            (SpanKind::Moves, "data moves"),
            (SpanKind::Carries, "what a link carries"),
        ]);
    }
    if of_threads {
        signs.push(&[
            (SpanKind::Copies, "copies within the device"),
            (SpanKind::Moves, "moves data between devices"),
            (SpanKind::Waits, "waits for a notify"),
            (SpanKind::Records, "records one"),
        ]);
    }
    signs
}

fn draw_legend(svg: &mut Svg, top: usize, signs: &[&[(SpanKind, &str)]]) {
    let style = format!("fill=\"{GREY}\" font-size=\"11\"");
    for (row, entries) in signs.iter().enumerate() {
        let y = top + 20 * row;
        let mut x = MARGIN;
        for (look, name) in *entries {
            match colours(*look) {
                Some((fill, _)) => {
                    let edge = if *look == SpanKind::Waits { GREY } else { fill };
                    svg.push(format_args!(
                        "<rect x=\"{x}\" y=\"{y}\" width=\"14\" height=\"12\" fill=\"{fill}\" stroke=\"{edge}\" stroke-width=\"0.5\"/>"
                    ));
                }
                // A sign without colours is the triangle that marks a message on the row of a core.
                None => svg.push(format_args!(
                    "<path d=\"M{} {} l3.5 -5 h-7 z\" fill=\"{MARK}\"/>",
                    x + 7,
                    y + 9
                )),
            }
            svg.text(x + 20, y + 10, &style, name);
            x += 44 + name.len() * 6;
        }
    }
}

/// The time axis, from left to right.
struct Axis {
    length: u64,
}

impl Axis {
    fn x(&self, time: u64) -> f64 {
        LEFT as f64 + time as f64 / self.length as f64 * (RIGHT - LEFT) as f64
    }

    fn draw(&self, svg: &mut Svg, top: usize, floor: usize) {
        let (unit, name) = match self.length {
            0..20_000 => (1, "nanoseconds"),
            20_000..20_000_000 => (1_000, "microseconds"),
            20_000_000..20_000_000_000 => (1_000_000, "milliseconds"),
            _ => (1_000_000_000, "seconds"),
        };
        let step = tick(self.length);
        let small = format!("fill=\"{GREY}\" font-size=\"11\" text-anchor=\"middle\"");
        for at in (0..=self.length / step).map(|n| n * step) {
            let x = self.x(at);
            svg.push(format_args!(
                "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{floor}\" stroke=\"{GRID}\"/>"
            ));
            let label = (at as f64 / unit as f64).to_string();
            svg.text(format_args!("{x:.1}"), floor + 16, &small, &label);
        }
        svg.text((LEFT + RIGHT) / 2, floor + 36, &small, name);
    }
}

/// Returns the distance between two ticks of the axis, in nanoseconds. It is 1, 2 or 5 times a
/// power of ten, so that there are at most twelve ticks.
fn tick(length: u64) -> u64 {
    let mut step = 1;
    loop {
        for factor in [1, 2, 5] {
            if length / (step * factor) <= 11 {
                return step * factor;
            }
        }
        step *= 10;
    }
}

/// Returns a number of bytes as text, such as "12.5 KiB".
fn amount(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", (bytes as f64 / 102.4).round() / 10.0),
        _ => format!("{} MiB", (bytes as f64 / 104_857.6).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for length in [0, 1, 9, 100, 999, 12_345, 7_000_000, 1 << 40, u64::MAX / 16] {
            let step = tick(length);
            assert!(length / step <= 11, "{length}");
            let mut digit = step;
            while digit.is_multiple_of(10) {
                digit /= 10;
            }
            assert!([1, 2, 5].contains(&digit), "{step}");
        }
        assert_eq!(tick(100), 10);
    }

    #[test]
    fn bytes_are_told_in_units() {
        assert_eq!([512, 1536, 3 << 20].map(amount), ["512 B", "1.5 KiB", "3 MiB"]);
    }
}
