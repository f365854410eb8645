//! The timeline as a file for <https://ui.perfetto.dev>: Chrome's trace event format.
//!
//! Each rank is a process with two threads, `compute` and `stream`. A bucket on the stream has up
//! to three parts below it: the copy up, the wait for the last rank, and the sum with the copy
//! back.

use std::fmt::{self, Display, Write};

use super::overlap::{LastArrival, Phase, Timeline};
use super::timeline::{Message, Span};

/// Returns the text of the file.
pub fn chrome_trace(timeline: &Timeline) -> String {
    let mut events = Events(String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["));
    // Writing to a string cannot fail.
    let _ = events.all(timeline);
    events.0.push_str("\n]}\n");
    events.0
}

/// A row of the display. Number 0 is taken: it is the system's idle process, which Perfetto hides.
#[derive(Clone, Copy)]
struct Track {
    process: usize,
    thread: usize,
}

impl Track {
    fn compute(rank: usize) -> Self {
        Self { process: rank + 1, thread: 10 * (rank + 1) + 1 }
    }

    fn stream(rank: usize) -> Self {
        Self { process: rank + 1, thread: 10 * (rank + 1) + 2 }
    }
}

struct Events(String);

impl Events {
    fn all(&mut self, timeline: &Timeline) -> fmt::Result {
        for (rank, steps) in timeline.ranks().iter().enumerate() {
            let (compute, stream) = (Track::compute(rank), Track::stream(rank));
            self.metadata("process_name", compute, format_args!("\"name\":\"rank {rank}\""))?;
            self.metadata("process_sort_index", compute, format_args!("\"sort_index\":{rank}"))?;
            self.metadata("thread_name", compute, "\"name\":\"compute\"")?;
            self.metadata("thread_name", stream, "\"name\":\"stream\"")?;
            for (number, step) in steps.iter().enumerate() {
                let argument = format!("\"step\":{}", number + 1);
                for (activity, span) in &step.activities {
                    self.complete(compute, activity, *span, &argument)?;
                }
                for (message, last) in timeline.messages(rank, number) {
                    self.message(timeline, rank, number, message, last)?;
                }
            }
        }
        Ok(())
    }

    fn message(
        &mut self,
        timeline: &Timeline,
        rank: usize,
        step: usize,
        message: &Message,
        last: LastArrival,
    ) -> fmt::Result {
        let stream = Track::stream(rank);
        let mut times = [0.0; 4];
        for piece in timeline.pieces(rank, step, message, last) {
            let index = 2 * usize::from(piece.phase == Phase::Waiting) + usize::from(!piece.hidden);
            times[index] += piece.span.seconds() * 1e6;
        }
        let arguments = format!(
            "\"step\":{},\"bytes\":{},\"moving_hidden_us\":{:.3},\"moving_exposed_us\":{:.3},\
             \"waiting_hidden_us\":{:.3},\"waiting_exposed_us\":{:.3}",
            step + 1,
            message.bytes,
            times[0],
            times[1],
            times[2],
            times[3],
        );
        let name = format!("all-reduce bucket {}", message.layer);
        self.complete(stream, name, message.span, arguments)?;

        let Span { from, to } = message.span;
        let begin = last.time.clamp(message.arrived, to);
        self.complete(stream, "copy up", Span { from, to: message.arrived }, "")?;
        if message.arrived < begin {
            let name = format!("wait for rank {}", last.rank);
            self.complete(stream, name, Span { from: message.arrived, to: begin }, "")?;
        }
        self.complete(stream, "sum and copy back", Span { from: begin, to }, "")
    }

    fn begin(&mut self) {
        self.0.push_str(if self.0.ends_with('[') { "\n" } else { ",\n" });
    }

    fn metadata(&mut self, what: &str, track: Track, arguments: impl Display) -> fmt::Result {
        self.begin();
        let Track { process, thread } = track;
        write!(
            self.0,
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\
             \"args\":{{{arguments}}}}}"
        )
    }

    /// Writes an event that lasts for a span. No name here needs escaping.
    fn complete(
        &mut self,
        track: Track,
        name: impl Display,
        span: Span,
        arguments: impl Display,
    ) -> fmt::Result {
        self.begin();
        let Track { process, thread } = track;
        // Whole nanoseconds, so that an inner event does not end after its outer one by a rounding.
        let nanoseconds = |time: f64| (time * 1e9).round();
        let from = nanoseconds(span.from);
        let length = nanoseconds(span.to) - from;
        write!(
            self.0,
            "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{process},\"tid\":{thread},\
             \"ts\":{:.3},\"dur\":{:.3},\"args\":{{{arguments}}}}}",
            from / 1e3,
            length / 1e3,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::timeline::{Activity, Step};

    #[test]
    fn one_event_a_line() {
        let span = |from, to| Span { from, to };
        let step = |arrived| Step {
            activities: vec![(Activity::Backward(2), span(0.001, 0.002))],
            messages: vec![Message { layer: 3, bytes: 40, span: span(0.0015, 0.003), arrived }],
        };
        let (early, late) = ([step(0.0016)], [step(0.0025)]);
        let trace = chrome_trace(&Timeline::new(vec![&early, &late]));
        let expected = "\
{\"displayTimeUnit\":\"ms\",\"traceEvents\":[
{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":11,\"args\":{\"name\":\"rank 0\"}},
{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":1,\"tid\":11,\"args\":{\"sort_index\":0}},
{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":11,\"args\":{\"name\":\"compute\"}},
{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":12,\"args\":{\"name\":\"stream\"}},
{\"ph\":\"X\",\"name\":\"backward 2\",\"pid\":1,\"tid\":11,\"ts\":1000.000,\"dur\":1000.000,\"args\":{\"step\":1}},
{\"ph\":\"X\",\"name\":\"all-reduce bucket 3\",\"pid\":1,\"tid\":12,\"ts\":1500.000,\"dur\":1500.000,\"args\":{\"step\":1,\"bytes\":40,\"moving_hidden_us\":100.000,\"moving_exposed_us\":500.000,\"waiting_hidden_us\":400.000,\"waiting_exposed_us\":500.000}},
{\"ph\":\"X\",\"name\":\"copy up\",\"pid\":1,\"tid\":12,\"ts\":1500.000,\"dur\":100.000,\"args\":{}},
{\"ph\":\"X\",\"name\":\"wait for rank 1\",\"pid\":1,\"tid\":12,\"ts\":1600.000,\"dur\":900.000,\"args\":{}},
{\"ph\":\"X\",\"name\":\"sum and copy back\",\"pid\":1,\"tid\":12,\"ts\":2500.000,\"dur\":500.000,\"args\":{}},
";
        assert!(trace.starts_with(expected), "{trace}");
        assert!(trace.ends_with("\"args\":{}}\n]}\n"), "{trace}");
        // The last rank does not wait.
        assert_eq!(trace.matches("wait for rank").count(), 1);
    }
}
