//! Builds the text of a source: indents its lines, and breaks long ones.

use crate::comment;

/// The greatest number of characters of a line.
const WIDTH: usize = 120;

/// The text written so far.
#[derive(Debug, Default)]
pub(super) struct Text {
    lines: Vec<String>,
    depth: usize,
}

impl Text {
    /// Makes an empty text inside `depth` blocks.
    pub(super) fn indented(depth: usize) -> Self {
        Text { lines: Vec::new(), depth }
    }

    /// Adds a line, and breaks it if it is too long.
    pub(super) fn line(&mut self, text: &str) {
        if text.is_empty() {
            return self.blank();
        }
        let indent = "    ".repeat(self.depth);
        let mut rest = format!("{indent}{text}");
        let mut first = true;
        while rest.len() > WIDTH {
            let start = rest.len() - rest.trim_start().len();
            let Some(at) = break_point(&rest, start) else { break };
            self.lines.push(rest[..at].trim_end().to_owned());
            let more = if first || rest.starts_with(&format!("{indent}    ")) { 1 } else { 0 };
            first = false;
            rest = format!("{indent}{}{}", "    ".repeat(more), rest[at..].trim_start());
        }
        self.lines.push(rest);
    }

    /// Adds a line with a comment after it, or above it if there is no room.
    pub(super) fn noted(&mut self, text: &str, note: &str) {
        if 4 * self.depth + text.len() + 4 + note.len() <= WIDTH {
            return self.line(&format!("{text} // {note}"));
        }
        self.comment(note);
        self.line(text);
    }

    /// Adds an empty line, unless there is one already, a block has just begun, or the text is
    /// empty.
    pub(super) fn blank(&mut self) {
        match self.lines.last() {
            Some(last) if !last.is_empty() && !last.ends_with('{') => {
                self.lines.push(String::new())
            }
            _ => {}
        }
    }

    /// Adds a comment, wrapped into lines.
    pub(super) fn comment(&mut self, text: &str) {
        let width = WIDTH.saturating_sub(4 * self.depth + 3);
        let indent = "    ".repeat(self.depth);
        self.lines.extend(comment::lines(text, width).iter().map(|line| format!("{indent}{line}")));
    }

    pub(super) fn open(&mut self, head: &str) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
    }

    pub(super) fn close(&mut self, tail: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(&format!("}}{tail}"));
    }

    /// Adds a line between two blocks, such as `} else {`.
    pub(super) fn between(&mut self, text: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(text);
        self.depth += 1;
    }

    /// Changes the indentation by some blocks, without a brace.
    pub(super) fn indent(&mut self, by: isize) {
        self.depth = self.depth.saturating_add_signed(by);
    }

    /// Returns whether a line contains this text.
    pub(super) fn mentions(&self, part: &str) -> bool {
        self.lines.iter().any(|line| line.contains(part))
    }

    /// Returns the lines without their comments.
    pub(super) fn code(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.split_once("//").map_or(line.as_str(), |(code, _)| code))
    }

    /// Inserts lines at the beginning.
    pub(super) fn put_first(&mut self, depth: usize, lines: Vec<String>) {
        let mut first = Text::indented(depth);
        lines.iter().for_each(|line| first.line(line));
        first.lines.append(&mut self.lines);
        self.lines = first.lines;
    }

    pub(super) fn rename(&mut self, renamed: impl Fn(&str) -> String) {
        self.lines.iter_mut().for_each(|line| *line = renamed(line));
    }

    pub(super) fn append(&mut self, other: Text) {
        self.lines.extend(other.lines);
    }

    pub(super) fn finish(self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }
}

/// Returns where to break a line: as far outside of brackets as possible, then between parts that
/// are bound as loosely as possible, and then as late as possible. The break is after a comma or a
/// semicolon, or before an operator.
fn break_point(line: &str, start: usize) -> Option<usize> {
    const OPERATORS: [(&str, i32); 10] = [
        ("? ", 1),
        (": ", 1),
        ("|| ", 2),
        ("&& ", 3),
        ("== ", 4),
        ("!= ", 4),
        ("+ ", 5),
        ("- ", 5),
        ("* ", 6),
        ("/ ", 6),
    ];
    let bytes = line.as_bytes();
    let (mut depth, mut quoted) = (0i32, false);
    let mut best: Option<((i32, i32), usize)> = None;
    for at in start..bytes.len().min(WIDTH) {
        match bytes[at] {
            b'"' if at == 0 || bytes[at - 1] != b'\\' => quoted = !quoted,
            b'(' | b'[' | b'{' if !quoted => depth += 1,
            b')' | b']' | b'}' if !quoted => depth -= 1,
            b' ' if !quoted && at > start => {
                let after = &line[at + 1..];
                let bound = match bytes[at - 1] {
                    b',' | b';' => Some(0),
                    _ => (OPERATORS.iter())
                        .find(|(operator, _)| after.starts_with(operator))
                        .map(|(_, bound)| *bound),
                };
                if let Some(bound) = bound
                    && best.is_none_or(|(loosest, _)| (depth, bound) <= loosest)
                {
                    best = Some(((depth, bound), at));
                }
            }
            _ => {}
        }
    }
    best.map(|(_, at)| at)
}
