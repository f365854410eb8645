//! Prints the text of a kernel's comments as comments of C++.

/// Returns the lines of a comment. Each has at most `width` characters after its slashes, unless a
/// single word is longer.
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
    // A backslash at the end would make the next line a comment too.
    format!("// {}", line.trim_end_matches(['\\', ' '])).trim_end().to_owned()
}
