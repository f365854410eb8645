//~ E0277: no Ascend product reduces `u8` with
use hccl::prelude::*;

type Pixel = u8; // misuse
// correct: type Pixel = i8;

pub fn total(comm: &mut Communicator, x: &mut DeviceBuffer<Pixel>, stream: &Stream) -> hccl::Result<Work> {
    comm.all_reduce_in_place(x, Sum, stream)
}
