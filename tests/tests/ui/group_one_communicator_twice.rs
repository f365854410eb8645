//~ E0499: cannot borrow `*comm` as mutable more than once at a time
use hccl::prelude::*;

pub fn twice(comm: &mut Communicator, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<()> {
    hccl::group(|group| {
        group.on(&mut *comm, stream).all_reduce_in_place(x, Sum); // misuse
        group.on(&mut *comm, stream).all_reduce_in_place(y, Max); // misuse
        // correct: group.on(comm, stream).all_reduce_in_place(x, Sum).all_reduce_in_place(y, Max);
        Ok(())
    })?
    .wait()
}
