//~ E0277: cannot add
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
pub fn sums(k: Kernel<Sizes>, y: Output<u64>) {
    let t = k.tiling();
    y.set(0, t.length + t.narrow); // misuse
    // correct: y.set(0, t.length + t.narrow.cast::<u64>());
}
