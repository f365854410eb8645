//! Traces for <https://ui.perfetto.dev>: Chrome's trace event format.
//!
//! A process of the trace is a group of rows, and a thread is a row. Times are whole nanoseconds,
//! written in microseconds with three decimals. So rounding cannot make a slice end after the slice
//! that contains it.

use std::fmt::Write as _;

/// The text of a trace under construction.
pub struct Trace(String);

impl Trace {
    /// Returns an empty trace that the viewer shows in `unit` (`"ms"` or `"ns"`).
    pub fn new(unit: &str) -> Trace {
        Trace(format!("{{\"displayTimeUnit\":{},\"traceEvents\":[", quote(unit)))
    }

    /// Adds an event of this kind (`ph` in the format). `more` holds further members of its object,
    /// each with a comma in front of it.
    pub fn event(&mut self, kind: char, name: &str, process: u64, thread: u64, more: &str) {
        self.0.push_str(if self.0.ends_with('[') { "\n" } else { ",\n" });
        // Writing to a string cannot fail.
        let _ = write!(
            self.0,
            "{{\"ph\":\"{kind}\",\"name\":{},\"pid\":{process},\"tid\":{thread}{more}}}",
            quote(name)
        );
    }

    /// Sets the name of a process and its position among the processes. `thread` is one of its
    /// threads. Do not use process 0: it is the system's idle process, which Perfetto hides.
    pub fn process(&mut self, process: u64, thread: u64, name: &str, order: u64) {
        self.row("process", process, thread, name, order);
    }

    /// Sets the name of a thread and its position in its process.
    pub fn thread(&mut self, process: u64, thread: u64, name: &str, order: u64) {
        self.row("thread", process, thread, name, order);
    }

    fn row(&mut self, row: &str, process: u64, thread: u64, name: &str, order: u64) {
        let named = format!(",\"args\":{{\"name\":{}}}", quote(name));
        self.event('M', &format!("{row}_name"), process, thread, &named);
        let sorted = format!(",\"args\":{{\"sort_index\":{order}}}");
        self.event('M', &format!("{row}_sort_index"), process, thread, &sorted);
    }

    /// Adds the arrow of a notify. Each end is a process, a thread and a time in nanoseconds, and
    /// belongs to the slice at that time.
    pub fn notify(
        &mut self,
        number: u64,
        across: bool,
        from: (u64, u64, u64),
        to: (u64, u64, u64),
    ) {
        let across = if across { "between ranks" } else { "between threads" };
        for (kind, (process, thread, at), bind) in [('s', from, ""), ('f', to, ",\"bp\":\"e\"")] {
            let at = microseconds(at);
            let more = format!(",\"cat\":\"{across}\",\"id\":{number},\"ts\":{at}{bind}");
            self.event(kind, "notify", process, thread, &more);
        }
    }

    /// Returns the text of the file. `other` holds further information on the trace: names, with
    /// their values as JSON.
    pub fn finish(mut self, other: &[(&str, String)]) -> String {
        let other: Vec<_> =
            other.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let _ = writeln!(self.0, "\n],\"otherData\":{{{}}}}}", other.join(","));
        self.0
    }
}

/// Returns a time of whole nanoseconds in microseconds, with three decimals.
pub fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// Returns a text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_says_its_rows_its_events_and_the_rest() {
        let mut trace = Trace::new("ms");
        trace.process(1, 2, "a \"rank\"", 3);
        trace.notify(7, true, (1, 2, 1500), (1, 3, 2001));
        let expected = [
            r#"{"displayTimeUnit":"ms","traceEvents":["#,
            r#"{"ph":"M","name":"process_name","pid":1,"tid":2,"args":{"name":"a \"rank\""}},"#,
            r#"{"ph":"M","name":"process_sort_index","pid":1,"tid":2,"args":{"sort_index":3}},"#,
            r#"{"ph":"s","name":"notify","pid":1,"tid":2,"cat":"between ranks","id":7,"ts":1.500},"#,
            r#"{"ph":"f","name":"notify","pid":1,"tid":3,"cat":"between ranks","id":7,"ts":2.001,"bp":"e"}"#,
            r#"],"otherData":{"left_out":0}}"#,
            "",
        ];
        assert_eq!(trace.finish(&[("left_out", "0".into())]), expected.join("\n"));
    }
}
