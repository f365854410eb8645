//~ E0308: mismatched types
use hccl::prelude::*;

pub fn sum(comm: &mut Communicator, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.reduce(x, y, Sum, 0, stream) // misuse
    // correct: comm.reduce(x, Some(y), Sum, 0, stream)
}
