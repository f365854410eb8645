//~ E0597: `parts` does not live long enough
use hccl::prelude::*;

pub fn lost(comm: &mut Communicator, x: &DeviceBuffer<f32>, all: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<()> {
    // correct: let parts = Partition::even(all.len(), comm.world_size());
    hccl::group(|group| {
        let parts = Partition::even(8, 2); // misuse
        group.on(comm, stream).all_gather_v(x, all, &parts);
        Ok(())
    })?
    .wait()
}
