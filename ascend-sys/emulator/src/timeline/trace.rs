//! A timeline as a file for <https://ui.perfetto.dev>: Chrome's trace event format.
//!
//! Each device is a process, and so are the links; each row is a thread. Times are whole nanoseconds, written in microseconds, so that what
//! lies within a span does not end after it by a rounding.

use super::rows::{Chart, Flow, Row, Says, Span};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The text of the file.
pub(super) fn write(chart: &Chart) -> String {
    let mut events = Events(String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["));
    let mut thread = 0;
    let mut places = HashMap::new();
    // Process 0 is taken: it is the system's idle process, which Perfetto hides.
    for (process, group) in (1..).zip(&chart.groups) {
        events.name("process_name", process, thread + 1, &group.name);
        events.sort("process_sort_index", process, thread + 1, process);
        for (order, row) in (0..).zip(&group.rows) {
            thread += 1;
            events.name("thread_name", process, thread, &row.name);
            events.sort("thread_sort_index", process, thread, order);
            events.row(process, thread, row);
            places.extend(row.thread.map(|handle| (handle, (process, thread))));
        }
    }
    for (number, flow) in (1..).zip(&chart.flows) {
        events.flow(number, flow, &places);
    }
    let _ = write!(
        events.0,
        "\n],\"otherData\":{{\"title\":{},\"time\":\"real time of the emulator\",\"left_out\":{}}}}}\n",
        quote(&chart.title),
        chart.left_out
    );
    events.0
}

struct Events(String);

impl Events {
    fn event(&mut self, kind: char, name: &str, process: u64, thread: u64, more: &str) {
        self.0.push_str(if self.0.ends_with('[') { "\n" } else { ",\n" });
        // Writing to a string does not fail.
        let _ = write!(
            self.0,
            "{{\"ph\":\"{kind}\",\"name\":{},\"pid\":{process},\"tid\":{thread}{more}}}",
            quote(name)
        );
    }

    fn name(&mut self, what: &str, process: u64, thread: u64, name: &str) {
        let more = format!(",\"args\":{{\"name\":{}}}", quote(name));
        self.event('M', what, process, thread, &more);
    }

    fn sort(&mut self, what: &str, process: u64, thread: u64, index: u64) {
        let more = format!(",\"args\":{{\"sort_index\":{index}}}");
        self.event('M', what, process, thread, &more);
    }

    fn row(&mut self, process: u64, thread: u64, row: &Row) {
        row.spans.iter().for_each(|span| self.span(process, thread, span));
        for (at, name) in &row.marks {
            let more = format!(",\"s\":\"t\",\"ts\":{}", microseconds(*at));
            self.event('i', name, process, thread, &more);
        }
    }

    /// A flow belongs to the slices around its ends.
    fn flow(&mut self, number: u64, flow: &Flow, places: &HashMap<u64, (u64, u64)>) {
        let (Some(from), Some(to)) = (places.get(&flow.from.0), places.get(&flow.to.0)) else {
            return;
        };
        let across = if flow.across { "between ranks" } else { "between threads" };
        for (kind, (process, thread), at, bind) in
            [('s', from, flow.from.1, ""), ('f', to, flow.to.1, ",\"bp\":\"e\"")]
        {
            let at = microseconds(at);
            let more = format!(",\"cat\":\"{across}\",\"id\":{number},\"ts\":{at}{bind}");
            self.event(kind, "notify", *process, *thread, &more);
        }
    }

    fn span(&mut self, process: u64, thread: u64, span: &Span) {
        let mut more = format!(
            ",\"ts\":{},\"dur\":{},\"args\":{{",
            microseconds(span.from),
            microseconds(span.to - span.from)
        );
        for (at, (key, value)) in span.says.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let value = match value {
                Says::Text(text) => quote(text),
                Says::Number(number) => number.to_string(),
                Says::Time(time) => microseconds(*time),
            };
            let _ = write!(more, "{comma}\"{key}\":{value}");
        }
        more.push('}');
        self.event('X', &span.name, process, thread, &more);
        span.parts.iter().for_each(|part| self.span(process, thread, part));
    }
}

fn microseconds(time: u64) -> String {
    format!("{}.{:03}", time / 1000, time % 1000)
}

/// A text as JSON has it.
fn quote(text: &str) -> String {
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
