//~ E0277: DeviceBuffer<i32>
use hccl::prelude::*;

type Sums = DeviceBuffer<i32>; // misuse
// correct: type Sums = DeviceBuffer<f32>;

pub fn total(comm: &mut Communicator, x: &DeviceBuffer<f32>, sums: &mut Sums, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce(x, sums, Sum, stream)
}
