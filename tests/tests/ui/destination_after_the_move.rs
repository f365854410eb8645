//~ E0382: borrow of moved value: `sums`
use hccl::prelude::*;

pub fn total(comm: &mut Communicator, x: &DeviceBuffer<f32>, device: &Device, stream: &Stream) -> hccl::Result<usize> {
    let sums = device.alloc::<f32>(x.len())?;
    let _ = comm.all_reduce(x, sums, Sum, stream)?; // misuse
    // correct: let (sums, _) = comm.all_reduce(x, sums, Sum, stream)?;
    Ok(sums.len())
}
