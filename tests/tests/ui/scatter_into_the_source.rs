//~ E0502: cannot borrow `*x` as mutable because it is also borrowed as immutable
use hccl::prelude::*;

pub fn parts(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.scatter(Some(&*x), &mut *x, 0, stream) // misuse
    // correct: comm.scatter(Some(&*x), &mut *y, 0, stream)
}
