//~ E0599: Declaration
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

#[kernel(mix = "aiv_1_0")]
pub fn gather(k: Kernel<Sizes>) {
    let hccl = k.hccl(0).configure(&k.tiling().gather); // misuse
    // correct: let hccl = k.hccl(0).init().configure(&k.tiling().gather);
    hccl.finalise();
}
