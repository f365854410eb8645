//~ E0277: no Ascend product reduces `u32` with
use hccl::prelude::*;

type Number = u32; // misuse
// correct: type Number = i64;

pub fn parts(comm: &mut Communicator, x: &DeviceBuffer<Number>, y: &mut DeviceBuffer<Number>, stream: &Stream) -> hccl::Result<Work> {
    comm.reduce_scatter(x, y, Max, stream)
}
