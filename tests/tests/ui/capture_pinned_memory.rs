//~ E0308: expected `&Stream`, found `&Stream<Capturing>`
use hccl::prelude::*;

type State = Capturing; // misuse
// correct: type State = hccl::device::Open;

pub fn copy(
    x: &mut DeviceBuffer<f32>,
    host: &HostBuffer<f32>,
    stream: &Stream<State>,
) -> hccl::Result<()> {
    x.copy_from_host(host, stream)?;
    Ok(())
}
