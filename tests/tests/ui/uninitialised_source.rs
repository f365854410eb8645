//~ E0277: Uninit
use hccl::prelude::*;

type Source = DeviceBuffer<f32, Uninit>; // misuse
// correct: type Source = DeviceBuffer<f32>;

pub fn total(comm: &mut Communicator, x: &Source, sums: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce(x, sums, Sum, stream)
}
