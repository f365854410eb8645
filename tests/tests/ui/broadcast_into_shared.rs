//~ E0277: elements to `&hccl::DeviceBuffer<f32>`
use hccl::prelude::*;

type Buffer<'a> = &'a DeviceBuffer<f32>; // misuse
// correct: type Buffer<'a> = &'a mut DeviceBuffer<f32>;

pub fn share(comm: &mut Communicator, x: Buffer<'_>, stream: &Stream) -> hccl::Result<Work> {
    comm.broadcast(x, 0, stream)
}
