//! The part of SVG that the pictures of operators, races and timelines need.

use std::fmt::Display;
use std::fmt::Write as _;

/// A picture on white, in pixels from its upper left corner.
pub struct Svg(String);

impl Svg {
    /// An empty picture. Its letters have the height `letters` unless told otherwise.
    pub fn new(width: usize, height: usize, letters: usize) -> Svg {
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             style=\"max-width:100%;height:auto\" font-family=\"sans-serif\" font-size=\"{letters}\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        ))
    }

    /// One line of text; `y` is its base line, `style` more attributes.
    pub fn text(&mut self, x: impl Display, y: impl Display, style: &str, text: &str) {
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\" {style}>{}</text>", escape(text)));
    }

    /// An element.
    pub fn push(&mut self, element: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// The text of the file.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// A text in the form for an element or an attribute. Characters that XML cannot hold become
/// question marks.
pub fn escape(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "?");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The first letters of a text, at most `most`.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
