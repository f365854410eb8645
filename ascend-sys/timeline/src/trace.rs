//! Writes a timeline as a file for <https://ui.perfetto.dev>, in Chrome's trace event format.
//!
//! Each device is a process of the trace, and the links together are one process. Each row is a
//! thread. Times are whole nanoseconds, written in microseconds with three decimals. So rounding
//! cannot move the end of an inner span past the end of the outer span.

use crate::chart::{Chart, Flow, Row, Says, Span};
use crate::draw::trace::{Trace, microseconds, quote};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Returns the text of the file.
pub(super) fn write(chart: &Chart) -> String {
    let mut events = Events(Trace::new("ms"));
    let mut thread = 0;
    let mut places = HashMap::new();
    // Process numbers begin at 1. Process 0 is the system's idle process, which Perfetto hides.
    for (process, group) in (1..).zip(&chart.groups) {
        events.0.process(process, thread + 1, &group.name, process);
        for (order, row) in (0..).zip(&group.rows) {
            thread += 1;
            events.0.thread(process, thread, &row.name, order);
            events.row(process, thread, row);
            places.extend(row.thread.map(|handle| (handle, (process, thread))));
        }
    }
    for (number, flow) in (1..).zip(&chart.flows) {
        events.flow(number, flow, &places);
    }
    events.0.finish(&[
        ("title", quote(&chart.title)),
        ("time", quote("real time of the emulator")),
        ("left_out", chart.left_out.to_string()),
    ])
}

struct Events(Trace);

impl Events {
    fn row(&mut self, process: u64, thread: u64, row: &Row) {
        row.spans.iter().for_each(|span| self.span(process, thread, span));
        for (at, name) in &row.marks {
            let more = format!(",\"s\":\"t\",\"ts\":{}", microseconds(*at));
            self.0.event('i', name, process, thread, &more);
        }
    }

    /// Adds an arrow. Each of its ends belongs to the slice that encloses it.
    fn flow(&mut self, number: u64, flow: &Flow, places: &HashMap<u64, (u64, u64)>) {
        let (Some(from), Some(to)) = (places.get(&flow.from.0), places.get(&flow.to.0)) else {
            return;
        };
        let from = (from.0, from.1, flow.from.1);
        self.0.notify(number, flow.across, from, (to.0, to.1, flow.to.1));
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
        self.0.event('X', &span.name, process, thread, &more);
        span.parts.iter().for_each(|part| self.span(process, thread, part));
    }
}
