//! The part of SVG that two pictures need.

use std::fmt::{Display, Write};

/// The position of a text relative to its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The middle of the text is at the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// A picture on a white background. Coordinates are pixels from its upper left corner.
#[derive(Debug)]
pub struct Svg(String);

/// The colour of lines that only guide the eye.
pub const GRID: &str = "#e6e8eb";
/// The colour of axes and of small print.
pub const GREY: &str = "#5f6b7a";
/// The colour of text.
pub const INK: &str = "#1b2430";

impl Svg {
    /// Makes an empty picture.
    pub fn new(width: f64, height: f64) -> Self {
        let mut svg = Self(String::new());
        svg.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">"
        ));
        svg.rect((0.0, 0.0), (width, height), "#ffffff");
        svg
    }

    fn put(&mut self, element: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// Draws a filled rectangle from its upper left corner, its width and its height.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{fill}\"/>"
        ));
    }

    /// Draws a straight line. `dash` is a pattern such as `4 3`, or empty.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, dash: &str) {
        self.put(format_args!(
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{stroke}\" \
             stroke-dasharray=\"{}\"/>",
            from.0,
            from.1,
            to.0,
            to.1,
            if dash.is_empty() { "none" } else { dash },
        ));
    }

    /// Draws a line through the points.
    pub fn curve(&mut self, points: &[(f64, f64)], stroke: &str, width: f64) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{x:.2},{y:.2} ");
        }
        self.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\"/>",
            path.trim_end(),
        ));
    }

    /// Draws a filled circle.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.put(format_args!(
            "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{fill}\"/>"
        ));
    }

    /// Draws one line of text; `y` is its base line.
    pub fn text(&mut self, (x, y): (f64, f64), style: Text, content: impl Display) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if style.bold { " font-weight=\"bold\"" } else { "" };
        let turn = if style.upright {
            format!(" transform=\"rotate(-90 {x} {y})\"")
        } else {
            String::new()
        };
        let content = content.to_string();
        let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.put(format_args!(
            "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{}\" text-anchor=\"{anchor}\" \
             fill=\"{}\"{weight}{turn}>{content}</text>",
            style.size, style.fill,
        ));
    }

    /// Returns the text of the file.
    pub fn finish(mut self) -> String {
        self.put("</svg>");
        self.0
    }
}

/// The style of a text.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The height of the letters, in pixels.
    pub size: f64,
    /// The alignment of the text at its point.
    pub anchor: Anchor,
    /// The colour of the text.
    pub fill: &'static str,
    /// Whether the text is bold.
    pub bold: bool,
    /// Whether the text runs upwards.
    pub upright: bool,
}

impl Text {
    /// Returns the style of small print.
    pub const fn small(anchor: Anchor) -> Self {
        Self { size: 13.0, anchor, fill: GREY, bold: false, upright: false }
    }

    /// Returns the style of a heading.
    pub const fn title() -> Self {
        Self { size: 19.0, anchor: Anchor::Start, fill: INK, bold: true, upright: false }
    }
}

/// Returns the multiples of a round number from 0 to `max`, about `count` of them or fewer. Returns
/// only 0 if `max` is not positive or not finite.
pub fn round_ticks(max: f64, count: f64) -> Vec<f64> {
    if !(max > 0.0 && max.is_finite()) {
        return vec![0.0];
    }
    let raw = max / count;
    let magnitude = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * magnitude)
        .into_iter()
        .find(|&step| step >= raw * 0.999)
        .unwrap_or(raw);
    // The multiples are counted, so that rounding errors do not add up.
    (0..=(max / step + 1e-9) as usize).map(|index| index as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(round_ticks(10.0, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_ticks(7.3, 5.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(round_ticks(0.9, 4.0), [0.0, 0.5]);
        assert_eq!(round_ticks(0.0, 4.0), [0.0]);
        assert_eq!(round_ticks(f64::NAN, 4.0), [0.0]);
    }

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((0.0, 0.0), Text::title(), "a < b & c");
        let text = svg.finish();
        assert!(text.contains(">a &lt; b &amp; c</text>"));
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }
}
