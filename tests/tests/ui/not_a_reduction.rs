//~ E0277 there: `&str` is not a reduction
//~ E0277 there: no Ascend product reduces `f32` with `&str`
use hccl::prelude::*;

pub fn total(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce_in_place(x, "sum", stream) // misuse
    // correct: comm.all_reduce_in_place(x, Sum, stream)
}
