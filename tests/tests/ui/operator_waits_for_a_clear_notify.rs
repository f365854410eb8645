//~ E0308: mismatched types
use hccl::operator::*;

pub fn early(main: &mut MainThread<'_>) {
    main.fork(2, |threads| {
        let [a, b] = threads.array();
        let notify = b.notify();
        b.wait(notify); // misuse
        // correct: b.wait(a.record(notify));
        a.index();
    });
}
