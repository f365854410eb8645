//~ E0502: cannot borrow `*x` as mutable because it is also borrowed as immutable
use hccl::prelude::*;

pub fn total(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce(&*x, &mut *x, Sum, stream) // misuse
    // correct: comm.all_reduce_in_place(x, Sum, stream)
}
