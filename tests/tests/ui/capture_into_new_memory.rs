//~ E0308: expected `&Stream`, found `&Stream<Capturing>`
use hccl::prelude::*;

pub fn sum(
    comm: &mut Communicator,
    x: &DeviceBuffer<f32>,
    y: DeviceBuffer<f32, Uninit>, // misuse
    // correct: y: &mut DeviceBuffer<f32>,
    capture: &Stream<Capturing>,
) -> hccl::Result<()> {
    comm.all_reduce(x, y, Sum, capture)?;
    Ok(())
}
