//! Text of a kernel as comments of C++.

/// The lines of a comment, each of at most `width` characters behind its slashes if its words allow
/// it.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(|c: char| c.is_whitespace() || c.is_control()) {
            if !line.is_empty() && line.len() + 1 + word.len() > width {
                lines.push(commented(&line));
                line.clear();
            }
            if !line.is_empty() && !word.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(commented(&line));
    }
    lines
}

fn commented(line: &str) -> String {
    // A backslash at the end would make the next line a comment, too.
    format!("// {}", line.trim_end_matches(['\\', ' '])).trim_end().to_owned()
}
