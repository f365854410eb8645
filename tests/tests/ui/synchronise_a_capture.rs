//~ E0599: no method named `synchronize` found for struct `Stream<Capturing>`
use hccl::prelude::*;

pub fn capture(device: &Device, x: &mut DeviceBuffer<f32>) -> hccl::Result<Graph> {
    let stream = device.begin_capture()?;
    x.fill_zero(&stream)?;
    stream.synchronize()?; // misuse
    stream.end()
}
