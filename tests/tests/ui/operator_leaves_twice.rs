//~ E0382: use of moved value: `access`
use hccl::operator::*;

pub fn twice(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let access = main.enter(op.channel(op.peer(1)));
    main.leave(access);
    main.leave(access); // misuse
    // correct: main.copy(op.input(), op.output());
}
