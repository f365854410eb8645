//~ E0277: `u64` cannot be an argument of a kernel
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
pub fn sums(
    k: Kernel<Sizes>,
    y: Output<u64>,
    length: u64, // misuse
) {
    // correct: let length = k.tiling().length;
    y.set(0, length);
}
