//! Properties of awaiting: what a waker may do, and what happens when nothing comes.

use super::*;

fn poll_with(work: &mut Work, waker: &Waker) -> Poll<Result<()>> {
    std::pin::Pin::new(work).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_waker_that_panics_does_not_stop_the_others() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose, by dropping what a waker panicked with");
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any(Bomb);
        }
    }
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[1_u8; 4], &stream).unwrap();
        let gate = Gate::on(&stream);
        let mut bad = x.upload(&[2; 4], &stream).unwrap();
        let download = x.to_vec(&stream);
        assert!(poll_with(&mut bad, &Waker::from(Arc::new(Panics))).is_pending());
        let opener = gate.open_later();
        assert_eq!(block_on(download).unwrap(), [2; 4]);
        opener.join().unwrap();
        // Also what is registered later.
        let gate = Gate::on(&stream);
        let download = x.to_vec(&stream);
        let opener = gate.open_later();
        assert_eq!(block_on(download).unwrap(), [2; 4]);
        opener.join().unwrap();
        bad.wait().unwrap();
    });
}

#[test]
fn a_waker_that_is_replaced_may_own_a_work() {
    struct Task {
        _work: Mutex<Work>,
    }
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    on_both(1, |runtime| {
        let (done, is_done) = std::sync::mpsc::channel();
        let device = runtime.device(0).unwrap();
        let thread = std::thread::spawn(move || {
            let stream = device.stream().unwrap();
            let mut x = device.zeros::<u8>(4, &stream).unwrap();
            let _gate = Gate::on(&stream);
            let mut outer = x.fill_zero(&stream).unwrap();
            let mut inner = x.fill_zero(&stream).unwrap();
            assert!(poll_with(&mut inner, Waker::noop()).is_pending());
            // The reactor holds the only handle of the task, which owns a registered work.
            let task = Waker::from(Arc::new(Task { _work: Mutex::new(inner) }));
            assert!(poll_with(&mut outer, &task).is_pending());
            drop(task);
            assert!(poll_with(&mut outer, Waker::noop()).is_pending());
            done.send(()).unwrap();
        });
        is_done.recv_timeout(LONG).expect("replacing a waker does not end");
        thread.join().unwrap();
    });
}
