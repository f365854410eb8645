//~ E0599: no method named `fork` found for struct `hccl::operator::Thread
use hccl::operator::*;

pub fn nested(main: &mut MainThread<'_>) {
    main.fork(2, |threads| threads.get(1).fork(2, |_| {})); // misuse
    // correct: main.fork(2, |threads| drop(threads.get(1)));
}
