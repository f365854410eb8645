//~ E0502: cannot borrow `*sum` as immutable because it is also borrowed as mutable
use hccl::prelude::*;

pub fn both(comm: &mut Communicator, x: &DeviceBuffer<f32>, sum: &mut DeviceBuffer<f32>, all: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<()> {
    hccl::group(|group| {
        let on = group.on(comm, stream).all_reduce(x, &mut *sum, Sum);
        on.all_gather(&*sum, all); // misuse
        // correct: on.all_gather(x, all);
        Ok(())
    })?
    .wait()
}
