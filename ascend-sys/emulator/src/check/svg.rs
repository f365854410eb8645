//! Draws the picture of a finding: the two operations on their rows, the steps that order them, and
//! the bytes that they share.

use super::finding::{Finding, FindingSide};
use ascend_timeline::draw::svg::{Svg, shorten};
use std::ops::Range;

const WIDTH: usize = 860;
/// The left end of rows and of the bar of bytes. `RIGHT` is the right end.
const LEFT: usize = 200;
const RIGHT: usize = WIDTH - 30;
const ROW: usize = 84;
const TOP: usize = 62;
/// The approximate number of characters in a line of text.
const COLUMNS: usize = 112;
const COLOURS: [&str; 2] = ["#2f6fb3", "#b3742f"];

/// Draws the picture. Returns the text of an SVG file.
pub(crate) fn draw(finding: &Finding) -> String {
    let rows = finding.sides.len();
    let memory = if finding.size > 0 { 96 } else { 0 };
    let bar = TOP + rows * ROW + 34;
    let places: Vec<String> = finding.places().iter().flat_map(|place| wrap(place)).collect();
    let foot = TOP + rows * ROW + memory + places.len() * 17 + 10;
    let help = wrap(&format!("What to do: {}.", finding.help()));
    let height = foot + help.len() * 17 + 14;
    let mut svg = Picture(Svg::new(WIDTH, height, 12));
    for (line, text) in wrap(&finding.headline()).iter().enumerate() {
        svg.0.text(14, 20 + line * 16, "font-weight=\"bold\"", text);
    }
    for (at, side) in finding.sides.iter().enumerate() {
        svg.row(at, side);
    }
    if let [first, _] = &finding.sides[..]
        && let Some(reason) = finding.reason()
    {
        svg.knowledge(finding, first, &reason);
    }
    if memory > 0 {
        svg.memory(finding, bar);
    }
    for (line, text) in places.iter().enumerate() {
        svg.0.text(LEFT, TOP + rows * ROW + line * 17, "fill=\"#b02a2a\"", text);
    }
    for (line, text) in help.iter().enumerate() {
        svg.0.text(14, foot + 14 + line * 17, "fill=\"#333333\"", text);
    }
    svg.0.finish()
}

struct Picture(Svg);

impl Picture {
    /// Draws a row with its operation. The two operations overlap in time, because neither is known
    /// to come first.
    fn row(&mut self, at: usize, side: &FindingSide) {
        let (y, colour) = (TOP + at * ROW + 34, COLOURS[at % 2]);
        let (from, to) = if at == 0 { (300, 610) } else { (430, 740) };
        self.0.text(14, y + 4, "fill=\"#333333\"", &side.place());
        self.0.push(format_args!(
            "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{RIGHT}\" y2=\"{y}\" stroke=\"#999999\"/>"
        ));
        self.0.push(format_args!(
            "<rect x=\"{from}\" y=\"{}\" width=\"{}\" height=\"36\" rx=\"4\" fill=\"{colour}\" fill-opacity=\"0.18\" stroke=\"{colour}\"/>",
            y - 18,
            to - from
        ));
        let number = at + 1;
        self.0.text(
            from + 8,
            y - 3,
            &format!("fill=\"{colour}\" font-weight=\"bold\""),
            &format!("{number} {}: {}", side.verb, shorten(&side.operation.what, 40)),
        );
        let step = if side.is_host() { String::new() } else { format!("task {}, ", side.time) };
        self.0.text(
            from + 8,
            y + 12,
            "fill=\"#333333\" font-size=\"10\"",
            &shorten(&format!("{step}{}", side.operation.issued), 56),
        );
    }

    /// Draws the last task of the first row after which the second operation is ordered, and the
    /// reason.
    fn knowledge(&mut self, finding: &Finding, first: &FindingSide, reason: &str) {
        let (y, next) = (TOP + 34, TOP + ROW + 34);
        if finding.knew > 0 && !first.is_host() {
            let x = 250;
            self.0.push(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"#4a8f4a\"/>"));
            self.0.text(
                x - 22,
                y - 10,
                "fill=\"#4a8f4a\" font-size=\"10\"",
                &format!("task {}", finding.knew),
            );
            self.0.push(format_args!(
                "<path d=\"M{x} {y} C{x} {next} 360 {y} 424 {next}\" fill=\"none\" stroke=\"#4a8f4a\" stroke-dasharray=\"4 3\"/>"
            ));
        }
        self.0.text(LEFT, next + 40, "fill=\"#b02a2a\"", &shorten(reason, COLUMNS));
    }

    /// Draws the allocation as a bar, and the bytes of it that each side touches.
    fn memory(&mut self, finding: &Finding, y: usize) {
        self.0.text(LEFT, y - 10 + 22, "fill=\"#333333\"", &shorten(&finding.memory, 96));
        let top = y + 20;
        self.0.push(format_args!(
            "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"28\" fill=\"#f2f2f2\" stroke=\"#999999\"/>",
            RIGHT - LEFT
        ));
        for (at, side) in finding.sides.iter().enumerate() {
            if let Some(bytes) = &side.bytes {
                self.bytes(finding.size, bytes, top + 3 + at * 12, 10, COLOURS[at % 2], 0.5);
            }
        }
        if let Some(bytes) = &finding.bytes {
            self.bytes(finding.size, bytes, top, 28, "#b02a2a", 0.35);
        }
    }

    fn bytes(
        &mut self,
        size: usize,
        bytes: &Range<usize>,
        y: usize,
        height: usize,
        colour: &str,
        opacity: f32,
    ) {
        let x =
            |byte: usize| (byte as u128 * (RIGHT - LEFT) as u128 / size as u128) as usize + LEFT;
        let (from, to) = (x(bytes.start), x(bytes.end));
        let width = (to - from).max(2);
        self.0.push(format_args!(
            "<rect x=\"{from}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>"
        ));
    }
}

/// Divides a text at spaces into lines of at most [`COLUMNS`] characters, if its words allow that.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full =
            lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() >= COLUMNS);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
