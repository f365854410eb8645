//~ E0521: borrowed data escapes outside of closure
use hccl::operator::*;

pub fn keep(main: &mut MainThread<'_>) {
    let mut kept = None;
    main.fork(2, |threads| kept = Some(threads.get(1))); // misuse
    // correct: kept = Some(main.index());
    let _ = kept;
}
