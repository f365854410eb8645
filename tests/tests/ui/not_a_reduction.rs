//~ E0277: `&str` is not a reduction
use hccl::prelude::*;

pub fn total(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce_in_place(x, "sum", stream) // misuse
    // correct: comm.all_reduce_in_place(x, Sum, stream)
}
