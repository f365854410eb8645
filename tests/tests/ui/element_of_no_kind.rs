//~ E0277 there: `bool` is not an element type of HCCL
use hccl::prelude::*;

pub fn flags(_: &DeviceBuffer<bool>) {} // misuse
// correct: pub fn flags(_: &DeviceBuffer<u8>) {}
