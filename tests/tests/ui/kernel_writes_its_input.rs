//~ E0599: no method named `set` found
use hccl::kernel::*;

#[derive(Tiling)]
#[repr(C)]
pub struct Sizes {
    init: Mc2InitTiling,
    gather: Mc2CcTiling,
    length: u64,
    narrow: u32,
    _pad: [u8; 4],
}

#[kernel(mix = "aiv_only")]
pub fn writes(
    k: Kernel<Sizes>,
    x: Input<f32>, // misuse
    // correct: x: Output<f32>,
) {
    x.set(k.tiling().length, 1.0);
}
