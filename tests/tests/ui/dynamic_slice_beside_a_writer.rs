//~ E0502: cannot borrow `*x` as mutable because it is also borrowed as immutable
use hccl::DynBuffer;
use hccl::prelude::*;

pub fn doubled(comm: &mut Communicator, x: &mut DynBuffer, y: &mut DynBuffer, stream: &Stream) -> hccl::Result<Work> {
    comm.dynamic().all_gather(&*x, &mut *x, stream) // misuse
    // correct: comm.dynamic().all_gather(&*x, &mut *y, stream)
}
