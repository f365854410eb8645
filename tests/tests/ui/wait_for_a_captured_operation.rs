//~ E0599: no method named `wait` found for struct
use hccl::prelude::*;

pub fn capture(x: &mut DeviceBuffer<f32>, stream: &Stream<Capturing>) -> hccl::Result<()> {
    x.fill_zero(stream)?.wait()?; // misuse
    // correct: x.fill_zero(stream)?;
    Ok(())
}
