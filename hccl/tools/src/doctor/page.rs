//! The printed page: sections of rows, aligned, with colours on a terminal.

use std::fmt::Write;

use serde_json::{Value, json};

/// The judgement of a row on its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Good,
    Bad,
    /// A fact that is neither good nor bad, but worth knowing.
    Note,
    Plain,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Mark::Good => "good",
            Mark::Bad => "bad",
            Mark::Note => "note",
            Mark::Plain => "plain",
        }
    }

    fn sign(self) -> char {
        match self {
            Mark::Good => '+',
            Mark::Bad => '!',
            Mark::Note => '*',
            Mark::Plain => ' ',
        }
    }

    /// Returns a colour that is legible on dark and on light terminals.
    fn colour(self) -> Option<u8> {
        match self {
            Mark::Good => Some(32),
            Mark::Bad => Some(31),
            Mark::Note => Some(33),
            Mark::Plain => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) mark: Mark,
    pub(crate) topic: String,
    pub(crate) text: String,
}

/// Rows under a title.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// The greatest number of characters of a line, unless a word is longer.
const WIDTH: usize = 100;
/// The greatest number of characters of a topic whose text begins on the same line.
const WIDEST_TOPIC: usize = 26;

impl Section {
    pub(crate) fn new(title: &'static str) -> Section {
        Section { title, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, mark: Mark, topic: impl Into<String>, text: impl Into<String>) {
        self.rows.push(Row { mark, topic: topic.into(), text: text.into() });
    }

    /// Returns the section as JSON, for a program.
    pub(crate) fn to_json(&self) -> Value {
        let row = |Row { mark, topic, text }: &Row| json!({ "mark": mark.name(), "topic": topic, "text": text });
        json!({ "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    /// Returns the section as text that ends with a line break.
    pub(crate) fn print(&self, has_colours: bool) -> String {
        let widths = self.rows.iter().map(|row| row.topic.chars().count());
        let width = widths.filter(|width| *width <= WIDEST_TOPIC).max().unwrap_or(0);
        let mut page = match has_colours {
            true => format!("\x1b[1m{}\x1b[0m\n", self.title),
            false => format!("{}\n", self.title),
        };
        for Row { mark, topic, text } in &self.rows {
            let sign = match mark.colour().filter(|_| has_colours) {
                Some(colour) => format!("\x1b[{colour}m{}\x1b[0m", mark.sign()),
                None => mark.sign().to_string(),
            };
            let _ = write!(page, "  {sign} {topic:<width$}  ");
            if topic.chars().count() > width {
                let _ = write!(page, "\n{:indent$}", "", indent = width + 6);
            }
            let lines = wrap(text, WIDTH.saturating_sub(width + 6));
            for (at, line) in lines.iter().enumerate() {
                let indent = if at == 0 { 0 } else { width + 6 };
                let _ = writeln!(page, "{:indent$}{line}", "");
            }
        }
        // This removes the spaces that follow a topic without a text.
        page.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// Breaks a text into lines of at most `width` characters, between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut now = String::new();
        for word in line.split_whitespace() {
            if !now.is_empty() && now.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut now));
            }
            if !now.is_empty() {
                now.push(' ');
            }
            now.push_str(word);
        }
        lines.push(now);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_aligned_and_wrapped() {
        let mut section = Section::new("Title");
        section.row(Mark::Good, "one", "a text");
        section.row(Mark::Bad, "three", "two\nlines");
        section.row(Mark::Plain, "a topic that is wider than all others", "word ".repeat(30));
        let page = section.print(false);
        assert!(
            page.starts_with("Title\n  + one    a text\n  ! three  two\n           lines\n"),
            "{page}"
        );
        assert!(page.lines().all(|line| line.len() <= WIDTH), "{page}");
        assert!(page.contains("others\n           word word"), "{page}");
        assert!(!page.contains('\x1b'));
        assert!(section.print(true).contains("\x1b[31m!\x1b[0m three"));
    }
}
