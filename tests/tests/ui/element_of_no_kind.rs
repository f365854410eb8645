//~ E0277: `bool` is not an element type of HCCL
use hccl::prelude::*;

type Flag = bool; // misuse
// correct: type Flag = u8;

pub fn flags(device: &Device, stream: &Stream) -> hccl::Result<DeviceBuffer<Flag>> {
    device.zeros::<Flag>(8, stream)
}
