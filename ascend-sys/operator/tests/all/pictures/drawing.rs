//! The drawing tools for explanatory pictures.

use std::fmt::{Display, Write};

pub const INK: &str = "#1b2430";
pub const GREY: &str = "#5f6b7a";
pub const BAND: &str = "#f5f7f9";
pub const WAITS: &str = "#e3e7ec";
pub const ACROSS: &str = "#d07a1c";
pub const WITHIN: &str = "#4f7fb5";
pub const WRONG: &str = "#c0282d";
/// The colours of ranks 0 to 3.
pub const RANKS: [&str; 4] = ["#8fbce8", "#f3c07a", "#93d3a4", "#eba3ad"];

/// A picture on a white background.
pub struct Drawing(String);

impl Drawing {
    pub fn new(width: u32, height: u32, title: &str) -> Drawing {
        Drawing(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             style=\"max-width:100%;height:auto\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{title}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        ))
    }

    pub fn push(&mut self, element: impl Display) {
        writeln!(self.0, "{element}").unwrap();
    }

    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    /// Writes a text. `style` holds further attributes.
    pub fn text(&mut self, x: f64, y: f64, style: &str, text: &str) {
        let fill = if style.contains("fill=") { String::new() } else { format!(" fill=\"{INK}\"") };
        self.push(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}{fill}>{text}</text>"));
    }

    /// Writes a small grey text, centred on a point.
    pub fn note(&mut self, x: f64, y: f64, text: &str) {
        self.text(x, y, &format!("font-size=\"11\" text-anchor=\"middle\" fill=\"{GREY}\""), text);
    }

    pub fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        fill: &str,
        edge: &str,
    ) {
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{fill}\" stroke=\"{edge}\"/>"
        ));
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
        self.push(format_args!(
            "<path d=\"M{x1:.1} {y1:.1} L{x2:.1} {y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        ));
    }

    pub fn record(&mut self, (x, y): (f64, f64), colour: &str) {
        let (x, y) = (x - 5.0, y - 6.0);
        self.push(format_args!("<path d=\"M{x:.1} {y:.1} l11 6 l-11 6 z\" fill=\"{colour}\"/>"));
    }

    pub fn wait(&mut self, (x, y): (f64, f64), colour: &str) {
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"2.2\"/>"
        ));
    }

    /// Draws a straight arrow.
    pub fn arrow(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, style: &str) {
        let length = (x2 - x1).hypot(y2 - y1);
        let (dx, dy) = ((x2 - x1) / length, (y2 - y1) / length);
        let (x, y) = (x2 - dx * 7.0, y2 - dy * 7.0);
        self.push(format_args!(
            "<path d=\"M{x1:.1} {y1:.1} L{x:.1} {y:.1}\" stroke=\"{colour}\" stroke-width=\"1.5\" {style}/>\
             <path d=\"M{x2:.1} {y2:.1} L{:.1} {:.1} L{:.1} {:.1} z\" fill=\"{colour}\"/>",
            x - dy * 3.5,
            y + dx * 3.5,
            x + dy * 3.5,
            y - dx * 3.5
        ));
    }
}
