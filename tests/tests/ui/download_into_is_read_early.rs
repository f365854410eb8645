//~ E0502: cannot borrow `data` as immutable because it is also borrowed as mutable
use hccl::prelude::*;

pub fn first(x: &DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<f32> {
    let mut data = vec![0.0; x.len()];
    let download = x.download_into(&mut data, stream);
    let first = data[0]; // misuse
    download.wait()?;
    // correct: let first = data[0];
    Ok(first)
}
