//~ E0308: expected `RemoteBuffer<'_>`, found `LocalBuffer<'_>`
use hccl::operator::*;

pub fn own(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    main.read(op.buffer(), op.output()); // misuse
    // correct: main.copy(op.buffer(), op.output());
}
