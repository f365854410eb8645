//! Ends streams, and aborts the tasks of a device.

use crate::step::Reason;
use crate::stream::{STREAMS, Stream};
use crate::{capture, executor, poll, report};
use ascend_sys::aclError;
use std::time::Duration;

/// Makes the handle of a stream invalid, and makes its queued tasks give up. Waits for the piece of
/// work that is running, as [`executor::run_out`] does, but not for a running host function.
pub(crate) fn destroy(stream: &'static Stream, code: aclError, reason: Reason) {
    // If two threads destroy it at once, only one of them does anything.
    if stream.take_handle() {
        capture::abandon(stream);
        stream.stop(code, reason);
        report::release(stream);
        stream.recycle();
    }
}

/// `aclrtDeviceTaskAbort`: makes all queued tasks of a device give up. Waits for tasks that cannot
/// give up yet, for at most `limit` in total; without a limit, for a short time, as
/// [`executor::run_out_all`] does. Tasks that need more time end later.
pub(crate) fn abort_all(device: u32, limit: Option<Duration>) {
    let streams = STREAMS.live().filter(|stream| stream.device_id() == device);
    let told = poll::void_together(streams, &Reason::DeviceAborted);
    told.iter().for_each(|(stream, _)| stream.release());
    executor::run_out_all(&told, limit);
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::machine;
    use crate::step::Step;
    use crate::task::TaskBody;
    use ascend_sys::ACL_ERROR_RT_STREAM_ABORT;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;

    /// A task that touches memory until its flag is set, and never gives up.
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
        // The housekeeper polls it, and releases the slot.
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

    /// Makes streams of a device, each with a task that cannot give up.
    fn stubborn(device: u32, count: usize, let_go: &'static AtomicBool) -> Vec<&'static Stream> {
        let create = |_| {
            let stream = Stream::create(1, machine::device_slot(device), 0).unwrap();
            stream.enqueue(Stubborn(let_go)).unwrap();
            stream
        };
        (0..count).map(create).collect()
    }

    /// Aborts the tasks of a device, and checks that this ends before `limit`, which is far longer
    /// than it takes.
    fn aborts_before(limit: Duration, device: u32, given: Duration, let_go: &AtomicBool) {
        thread::scope(|scope| {
            let (returned, ends) = channel::<()>();
            let watch = scope.spawn(move || {
                let in_time = ends.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected);
                let_go.store(true, Ordering::Release);
                in_time
            });
            abort_all(device, Some(given));
            drop(returned);
            assert!(watch.join().unwrap(), "the abort has waited for tasks that cannot give up");
        });
    }

    #[test]
    fn an_abort_of_a_device_waits_as_long_as_it_is_told_to() {
        static LET_GO: AtomicBool = AtomicBool::new(false);
        let streams = stubborn(15_001, 2, &LET_GO);
        thread::scope(|scope| {
            scope.spawn(|| {
                // This is longer than the abort would wait if no limit were given.
                thread::sleep(Duration::from_millis(500));
                LET_GO.store(true, Ordering::Release);
            });
            abort_all(15_001, Some(Duration::from_secs(600)));
            assert!(streams.iter().all(|stream| stream.queue.is_idle()));
        });
        for stream in streams {
            destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        }
    }

    #[test]
    fn all_streams_of_a_device_that_is_aborted_have_one_limit() {
        static LET_GO: AtomicBool = AtomicBool::new(false);
        let streams = stubborn(15_002, 200, &LET_GO);
        aborts_before(Duration::from_secs(15), 15_002, Duration::from_millis(100), &LET_GO);
        for stream in streams {
            destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        }
    }
}
