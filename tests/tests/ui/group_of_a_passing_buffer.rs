//~ E0597: `sum` does not live long enough
use hccl::prelude::*;

pub fn lost(comm: &mut Communicator, x: &DeviceBuffer<f32>, device: &Device, stream: &Stream) -> hccl::Result<()> {
    // correct: let mut sum = device.zeros::<f32>(x.len(), stream)?;
    hccl::group(|group| {
        let mut sum = device.zeros::<f32>(x.len(), stream)?; // misuse
        group.on(comm, stream).all_reduce(x, &mut sum, Sum);
        Ok(())
    })?
    .wait()
}
