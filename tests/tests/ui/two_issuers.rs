//~ E0499: cannot borrow `*comm` as mutable more than once at a time
use hccl::prelude::*;

pub fn both(comm: &mut Communicator, stream: &Stream) {
    std::thread::scope(|scope| {
        scope.spawn(|| comm.barrier(stream));
        scope.spawn(|| comm.barrier(stream)); // misuse
        // correct: scope.spawn(|| stream.synchronize());
    });
}
