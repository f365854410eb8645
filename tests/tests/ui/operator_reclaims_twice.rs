//~ E0382: use of moved value: `exposed`
use hccl::operator::*;

pub fn twice(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let exposed = main.expose(op.channel(op.peer(1)));
    main.reclaim(exposed);
    main.reclaim(exposed); // misuse
    // correct: main.copy(op.input(), op.output());
}
