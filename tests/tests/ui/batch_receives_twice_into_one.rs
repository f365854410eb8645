//~ E0499: cannot borrow `*x` as mutable more than once at a time
use hccl::prelude::*;

pub fn gather(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    // correct: let (x, y) = x.split_at_mut(4)?;
    comm.batch().recv(&mut *x, 1).recv(&mut *x, 2).submit(stream) // misuse
    // correct: comm.batch().recv(x, 1).recv(y, 2).submit(stream)
}
