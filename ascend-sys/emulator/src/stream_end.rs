//! How a stream ends.

use crate::step::Reason;
use crate::stream::Stream;
use crate::{capture, report};
use ascend_sys::aclError;

/// Takes the handle of a stream away and drops what is queued. Waits for nothing but the piece of
/// work that runs; a host function that runs is left alone.
pub(crate) fn destroy(stream: &'static Stream, code: aclError, reason: Reason) {
    // Of two who destroy it at once, one is late.
    if stream.take_handle() {
        capture::abandon(stream);
        stream.stop(code, reason);
        report::release(stream);
        stream.recycle();
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::machine;
    use crate::step::Step;
    use crate::stream::STREAMS;
    use crate::task::TaskBody;
    use ascend_sys::ACL_ERROR_RT_STREAM_ABORT;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    /// Touches memory until it is let go, whatever it is told.
    struct Stubborn(&'static AtomicBool);

    impl TaskBody<Stream> for Stubborn {
        fn poll(&mut self, _: &'static Stream) -> Step {
            if self.0.load(Ordering::Acquire) { Step::Done(Ok(())) } else { Step::Park }
        }

        fn expire(&mut self, stream: &'static Stream, _: &Reason) -> Step {
            self.poll(stream)
        }

        fn describe(&self) -> String {
            "a task that cannot give up".into()
        }
    }

    #[test]
    fn a_stream_whose_task_cannot_give_up_ends_and_its_slot_is_kept_until_that_is_over() {
        static LET_GO: AtomicBool = AtomicBool::new(false);
        let create = || Stream::create(1, machine::device_slot(0), 0).unwrap();
        let stream = create();
        stream.enqueue(Stubborn(&LET_GO)).unwrap();
        destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        assert!(STREAMS.get(stream.handle()).is_none() && !stream.queue.is_idle());
        // Other streams get other slots.
        let others: Vec<&Stream> = (0..64).map(|_| create()).collect();
        assert!(others.iter().all(|other| other.index() != stream.index()));
        LET_GO.store(true, Ordering::Release);
        // The housekeeper polls it, and gives the slot back.
        let mut others = others;
        while !others.iter().any(|other| other.index() == stream.index()) {
            thread::sleep(Duration::from_millis(10));
            others.push(create());
            assert!(others.len() < 2000, "the slot was never given back");
        }
        for other in others {
            destroy(other, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        }
    }
}
