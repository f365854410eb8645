//! The part of SVG that the pictures of operators, races and timelines need.

use std::fmt::Display;
use std::fmt::Write as _;

/// A picture on a white background. Coordinates are pixels from its upper left corner.
pub struct Svg(String);

impl Svg {
    /// Returns an empty picture. Text has a height of `letters` pixels unless its style gives
    /// another one.
    pub fn new(width: usize, height: usize, letters: usize) -> Svg {
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             style=\"max-width:100%;height:auto\" font-family=\"sans-serif\" font-size=\"{letters}\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        ))
    }

    /// Adds one line of text. `x` is its left end and `y` its base line, unless `style`, which
    /// holds further attributes, says otherwise.
    pub fn text(&mut self, x: impl Display, y: impl Display, style: &str, text: &str) {
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\" {style}>{}</text>", escape(text)));
    }

    /// Adds an element.
    pub fn push(&mut self, element: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// Returns the text of the file.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Returns a text in the form for an element or an attribute. A control character other than a line
/// break becomes a question mark, since XML cannot hold it.
pub fn escape(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "?");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the first letters of a text, at most `most`. A shortened text ends with an ellipsis.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
