//~ E0505: cannot move out of `access` because it is borrowed
use hccl::operator::*;

pub fn late(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let access = main.enter(op.channel(op.peer(1)));
    let theirs = access.buffer().slice(..op.count());
    // correct: main.read(theirs, op.output());
    main.leave(access);
    main.read(theirs, op.output()); // misuse
}
