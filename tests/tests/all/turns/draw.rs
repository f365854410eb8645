//! Draws moves. The elements of each rank's input are above, and the elements that have come into
//! its output are below. Both show their places.
//!
//! A color stands for the rank from which an element comes, and a paler color for a later turn. The
//! name of an element for one rank has the number of that rank: `b2` goes from the second rank to
//! rank 2.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use crate::turns::moves::{Move, RANKS};

/// The names of the turns; empty if there is one turn.
pub type Legend = &'static [&'static str];

const WIDTH: f64 = 800.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 20.0;
/// The height of a row with one element in a place, and of a row with four that are summed.
const ROW: f64 = 22.0;
const SUM: f64 = 46.0;
const COLORS: [&str; RANKS] = ["#7fb0e0", "#f0b060", "#7cc49a", "#c39bd8"];
const OPACITIES: [f64; 3] = [1.0, 0.62, 0.32];
const DARK: &str = "#1b2430";
const GREY: &str = "#5f6b7a";

/// Adjacent elements that the same turns move, from the same ranks and under the same names.
struct Cell {
    range: Range<usize>,
    /// One strip for each turn that writes the elements, and for each rank from which they come.
    strips: Vec<Strip>,
}

/// A turn, the rank that the element comes from, and the name of the element.
type Strip = (usize, usize, String);

/// Rows of cells with one scale.
struct Panel {
    title: &'static str,
    rows: Vec<Vec<Cell>>,
}

/// Draws the picture. The lines of code are its title.
pub fn draw(code: &[&str], legend: Legend, moves: &[Move]) -> String {
    let names = names(moves);
    let panels = [
        Panel { title: "x on each rank, in elements", rows: inputs(moves, &names) },
        Panel { title: "y on each rank", rows: outputs(moves, &names) },
    ];
    let cells = || panels.iter().flat_map(|panel| panel.rows.iter().flatten());
    let elements = cells().map(|cell| cell.range.end).max().unwrap();
    let scale = (WIDTH - LEFT - RIGHT) / elements as f64;

    let mut body = String::new();
    let mut y = 24.0;
    for line in code {
        text(&mut body, 12.0, y, r#"font-family="monospace" font-size="13""#, DARK, line);
        y += 18.0;
    }
    y += 2.0;
    let mut x = 12.0;
    let mut swatch = |body: &mut String, fill: &str, opacity: f64, name: &str| {
        rect(body, x, y, 14.0, 12.0, fill, opacity, "");
        text(body, x + 19.0, y + 10.0, r#"font-size="11""#, GREY, name);
        x += 27.0 + 5.4 * name.len() as f64;
    };
    for (rank, color) in COLORS.iter().enumerate() {
        let letter = char::from(b'a' + rank as u8);
        swatch(&mut body, color, 1.0, &format!("{letter}: from rank {rank}"));
    }
    for (turn, name) in legend.iter().enumerate() {
        swatch(&mut body, "#808890", OPACITIES[turn], name);
    }
    y += 38.0;
    for panel in &panels {
        y = panel.draw(&mut body, y, scale) + 26.0;
    }
    let height = y - 22.0;
    let title = escaped(code[0]);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" style=\"max-width:100%;height:auto\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         {body}</svg>\n"
    )
}

/// Returns the turn and the name of each element of an input. The name is the letter of its rank,
/// and its destination unless it goes to all ranks.
fn names(moves: &[Move]) -> BTreeMap<(usize, usize), (usize, String)> {
    let mut fates: BTreeMap<_, (usize, Vec<usize>)> = BTreeMap::new();
    for moved in moves {
        let (_, to) = fates.entry(moved.from).or_insert((moved.turn, Vec::new()));
        to.push(moved.to.0);
    }
    let name = |((rank, at), (turn, to)): ((usize, usize), (usize, Vec<usize>))| {
        let letter = char::from(b'a' + rank as u8);
        let name = match to[..] {
            [one] => format!("{letter}{one}"),
            _ => letter.to_string(),
        };
        ((rank, at), (turn, name))
    };
    fates.into_iter().map(name).collect()
}

/// Joins neighbouring elements into cells.
fn cells(elements: BTreeMap<usize, Vec<Strip>>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (at, strips) in elements {
        match cells.last_mut() {
            Some(cell) if cell.range.end == at && cell.strips == strips => {
                cell.range.end += 1;
            }
            _ => cells.push(Cell { range: at..at + 1, strips }),
        }
    }
    cells
}

fn inputs(moves: &[Move], names: &BTreeMap<(usize, usize), (usize, String)>) -> Vec<Vec<Cell>> {
    assert!(!moves.is_empty());
    let of = |rank: usize| {
        let mine = names.iter().filter(|((owner, _), _)| *owner == rank);
        cells(
            mine.map(|((_, at), (turn, name))| (*at, vec![(*turn, rank, name.clone())])).collect(),
        )
    };
    (0..RANKS).map(of).collect()
}

fn outputs(moves: &[Move], names: &BTreeMap<(usize, usize), (usize, String)>) -> Vec<Vec<Cell>> {
    let of = |rank: usize| {
        let mut elements: BTreeMap<usize, Vec<Strip>> = BTreeMap::new();
        for moved in moves.iter().filter(|moved| moved.to.0 == rank) {
            let name = names[&moved.from].1.clone();
            elements.entry(moved.to.1).or_default().push((moved.turn, moved.from.0, name));
        }
        for strips in elements.values_mut() {
            strips.sort();
        }
        cells(elements)
    };
    (0..RANKS).map(of).collect()
}

impl Panel {
    /// Draws the panel, and returns the height at which it ends.
    fn draw(&self, body: &mut String, mut y: f64, scale: f64) -> f64 {
        let x = |at: usize| LEFT + at as f64 * scale;
        let cells = || self.rows.iter().flatten();
        let stacked = cells().any(|cell| cell.strips.len() > 1);
        let overwritten =
            |cell: &Cell| cell.strips.first().map(|s| s.0) != cell.strips.last().map(|s| s.0);
        let how = match (stacked, cells().any(overwritten)) {
            (false, _) => "",
            (true, false) => ": what lies in one column of a row is summed",
            (true, true) => ": the lower turn has overwritten the upper one",
        };
        let title = format!("{}{how}", self.title);
        text(body, 12.0, y, r#"font-weight="bold""#, DARK, &title);
        let ticks = |row: &[Cell]| {
            let ends = row.iter().flat_map(|cell| [cell.range.start, cell.range.end]);
            let mut ends: Vec<usize> = ends.collect();
            ends.dedup();
            ends
        };
        let label = |body: &mut String, y: f64, row: &[Cell]| {
            for at in ticks(row) {
                let style = r#"font-size="10" text-anchor="middle""#;
                text(body, x(at), y, style, GREY, &at.to_string());
            }
        };
        // One line of numbers is enough if all rows are divided alike.
        let alike = self.rows.windows(2).all(|pair| ticks(&pair[0]) == ticks(&pair[1]));
        y += 18.0;
        if alike {
            label(body, y, &self.rows[0]);
            y += 5.0;
        }
        for (rank, row) in self.rows.iter().enumerate() {
            if !alike {
                y += if rank == 0 { 0.0 } else { 10.0 };
                label(body, y, row);
                y += 3.0;
            }
            let height = if stacked { SUM } else { ROW };
            text(body, 12.0, y + height / 2.0 + 4.0, "", DARK, &format!("rank {rank}"));
            for cell in row {
                let width = cell.range.len() as f64 * scale;
                let strip = height / cell.strips.len() as f64;
                for (n, (turn, from, name)) in cell.strips.iter().enumerate() {
                    let top = y + n as f64 * strip;
                    let left = x(cell.range.start);
                    let opacity = OPACITIES[*turn];
                    rect(body, left, top, width, strip, COLORS[*from], opacity, "");
                    let style = r#"font-size="10" text-anchor="middle""#;
                    text(body, left + width / 2.0, top + strip / 2.0 + 3.5, style, DARK, name);
                }
                let outline = r##" stroke="#ffffff" stroke-width="1.5""##;
                let left = x(cell.range.start);
                rect(body, left, y, width, height, "none", 1.0, outline);
            }
            y += height + 3.0;
        }
        y
    }
}

#[expect(clippy::too_many_arguments, reason = "it is what a rectangle has")]
fn rect(
    body: &mut String,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    fill: &str,
    opacity: f64,
    more: &str,
) {
    let opacity =
        if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
    writeln!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"{opacity}{more}/>"
    )
    .unwrap();
}

fn text(body: &mut String, x: f64, y: f64, style: &str, fill: &str, text: &str) {
    let text = escaped(text);
    let space = if style.is_empty() { "" } else { " " };
    writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\"{space}{style} fill=\"{fill}\">{text}</text>")
        .unwrap();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
