//~ E0499: cannot borrow `*comm` as mutable more than once at a time
use hccl::prelude::*;

pub fn both(comm: &mut Communicator, x: &DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    // correct: let _ = comm.barrier(stream)?;
    let batch = comm.batch().send(x, 1);
    let _ = comm.barrier(stream)?; // misuse
    batch.submit(stream)
}
