//! A task by which later work of a stream waits for a point in another stream.

use crate::message::Failure;
use crate::step::{Helpers, Step};
use crate::stream::{Mark, Stream};
use crate::task::{Passed, TaskBody};

/// The wait of a stream for a point in another stream; see the [module](self).
pub(crate) struct After(pub(crate) Mark);

impl TaskBody<Stream> for After {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if self.0.is_complete() { Step::Done(Ok(())) } else { Step::Park }
    }

    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        self.0.point()
    }

    fn helpers(&self) -> Helpers {
        Helpers::Point
    }

    fn passed(&self, _: &Result<(), Failure>) -> Option<Passed<Stream>> {
        self.0.point().map(|(stream, ticket)| Passed::Ticket(stream, ticket))
    }

    fn describe(&self) -> String {
        match self.0.stream() {
            Some(stream) => format!("wait for task {} of {}", self.0.ticket(), stream.describe()),
            None => "wait for another stream".into(),
        }
    }
}
