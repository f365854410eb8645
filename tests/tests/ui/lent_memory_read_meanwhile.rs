//~ E0502: cannot borrow `*data` as mutable because it is also borrowed as immutable
use hccl::prelude::*;

pub fn read(runtime: &Runtime, data: &mut [f32], x: &DeviceBuffer<f32>, stream: &Stream) -> hccl::Result<f32> {
    runtime.lend_mut(data, |lent| {
        x.copy_to(lent, stream)?;
        Ok(data[0]) // misuse
        // correct: Ok(0.0)
    })
}
