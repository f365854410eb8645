//~ E0277: the trait bound `Arc<[f32]>: HostMemoryMut` is not satisfied
use std::sync::Arc;

use hccl::memory::Registered;
use hccl::prelude::*;

pub fn filled(x: &DeviceBuffer<f32>, shared: &mut Registered<Arc<[f32]>>, own: &mut Registered<Vec<f32>>, stream: &Stream) -> hccl::Result<Work> {
    let _ = (shared.len(), own.len());
    x.copy_to(shared, stream) // misuse
    // correct: x.copy_to(own, stream)
}
