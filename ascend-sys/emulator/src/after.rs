//! Later work of a stream waits for a point in another one.

use crate::check;
use crate::step::{Helpers, Step};
use crate::stream::{Mark, Stream};
use crate::task::TaskBody;

/// See the [module](self).
pub(crate) struct After(pub(crate) Mark);

impl TaskBody<Stream> for After {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        if !self.0.is_complete() {
            return Step::Park;
        }
        check::event_passed(stream, Some(self.0));
        Step::Done(Ok(()))
    }

    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        self.0.point()
    }

    fn helpers(&self) -> Helpers {
        Helpers::Stream
    }

    fn describe(&self) -> String {
        match self.0.stream() {
            Some(stream) => format!("wait for task {} of {}", self.0.ticket(), stream.describe()),
            None => "wait for another stream".into(),
        }
    }
}
