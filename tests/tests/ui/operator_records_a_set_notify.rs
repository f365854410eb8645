//~ E0308: expected `Notify<'_>`, found `Notify<'_, Set>`
use hccl::operator::*;

pub fn twice(main: &mut MainThread<'_>) {
    main.fork(2, |threads| {
        let [a, b] = threads.array();
        let set = a.record(b.notify());
        let again = a.record(set); // misuse
        // correct: let again = a.record(b.wait(set));
        drop(b.wait(again));
    });
}
