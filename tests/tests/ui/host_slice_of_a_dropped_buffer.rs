//~ E0505: cannot move out of `host` because it is borrowed
use hccl::memory::HostBuffer;
use hccl::prelude::*;

pub fn copied(host: HostBuffer<f32>, x: &mut DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<Work> {
    let part = host.slice(..x.len())?;
    drop(host); // misuse
    // correct: let work =
    x.copy_from_host(part, stream)
    // correct: ; drop(host); work
}
