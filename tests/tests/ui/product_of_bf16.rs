//~ E0277: `Prod` takes these without i16 and bf16
use hccl::prelude::*;

pub fn product(comm: &mut Communicator, x: &mut DeviceBuffer<bf16>, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce_in_place(x, Prod, stream) // misuse
    // correct: comm.all_reduce_in_place(x, Sum, stream)
}
