//! The timeline as a file for <https://ui.perfetto.dev>: Chrome's trace event format.
//!
//! Each rank is a process with two threads, `compute` and `communication`.

use std::fmt::{self, Display, Write};

use super::timeline::{Span, Step};

const COMPUTE: u32 = 0;
const COMMUNICATION: u32 = 1;

/// The text of the file, from the steps of every rank.
pub fn chrome_trace(ranks: &[&[Step]]) -> String {
    let mut events = Events(String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["));
    // Writing to a string cannot fail.
    let _ = events.all(ranks);
    events.0.push_str("\n]}\n");
    events.0
}

struct Events(String);

impl Events {
    fn all(&mut self, ranks: &[&[Step]]) -> fmt::Result {
        for (rank, steps) in ranks.iter().enumerate() {
            self.name("process_name", rank, COMPUTE, format_args!("rank {rank}"))?;
            self.name("thread_name", rank, COMPUTE, "compute")?;
            self.name("thread_name", rank, COMMUNICATION, "communication")?;
            for (number, step) in steps.iter().enumerate() {
                for (activity, span) in &step.activities {
                    self.complete(
                        rank,
                        COMPUTE,
                        activity,
                        *span,
                        format_args!("\"step\":{number}"),
                    )?;
                }
                for message in &step.messages {
                    let hidden: f64 = step.hidden(message).iter().map(Span::seconds).sum();
                    let arguments = format_args!(
                        "\"step\":{number},\"bytes\":{},\"hidden_us\":{:.3},\"exposed_us\":{:.3}",
                        message.bytes,
                        hidden * 1e6,
                        (message.span.seconds() - hidden) * 1e6,
                    );
                    let name = format_args!("all-reduce bucket {}", message.layer);
                    self.complete(rank, COMMUNICATION, name, message.span, arguments)?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.0.push_str(if self.0.ends_with('[') { "\n" } else { ",\n" });
    }

    fn name(&mut self, what: &str, rank: usize, thread: u32, name: impl Display) -> fmt::Result {
        self.begin();
        write!(
            self.0,
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{rank},\"tid\":{thread},\
             \"args\":{{\"name\":\"{name}\"}}}}"
        )
    }

    /// None of our names needs escaping.
    fn complete(
        &mut self,
        rank: usize,
        thread: u32,
        name: impl Display,
        span: Span,
        arguments: impl Display,
    ) -> fmt::Result {
        self.begin();
        let (from, length) = (span.from * 1e6, span.seconds() * 1e6);
        write!(
            self.0,
            "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{rank},\"tid\":{thread},\
             \"ts\":{from:.3},\"dur\":{length:.3},\"args\":{{{arguments}}}}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::timeline::{Activity, Message};

    #[test]
    fn one_event_a_line() {
        let span = |from, to| Span { from, to };
        let step = Step {
            activities: vec![(Activity::Backward(2), span(0.001, 0.002))],
            messages: vec![Message { layer: 3, bytes: 40, span: span(0.0015, 0.003) }],
        };
        let trace = chrome_trace(&[&[step]]);
        let expected = "\
{\"displayTimeUnit\":\"ms\",\"traceEvents\":[
{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"rank 0\"}},
{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"compute\"}},
{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":1,\"args\":{\"name\":\"communication\"}},
{\"ph\":\"X\",\"name\":\"backward 2\",\"pid\":0,\"tid\":0,\"ts\":1000.000,\"dur\":1000.000,\"args\":{\"step\":0}},
{\"ph\":\"X\",\"name\":\"all-reduce bucket 3\",\"pid\":0,\"tid\":1,\"ts\":1500.000,\"dur\":1500.000,\"args\":{\"step\":0,\"bytes\":40,\"hidden_us\":500.000,\"exposed_us\":1000.000}}
]}
";
        assert_eq!(trace, expected);
    }
}
