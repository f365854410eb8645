//~ E0502: cannot borrow `*x` as mutable because it is also borrowed as immutable
use hccl::prelude::*;

pub fn swap(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.batch().send(&*x, 1).recv(&mut *x, 1).submit(stream) // misuse
    // correct: comm.batch().send(&*x, 1).recv(&mut *y, 1).submit(stream)
}
