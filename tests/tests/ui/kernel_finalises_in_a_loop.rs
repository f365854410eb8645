//~ E0507: cannot move out of `hccl`
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
    let t = k.tiling();
    let hccl = k.hccl(0).init().configure(&t.gather);
    k.range(..t.length, |_| hccl.finalise()); // misuse
    // correct: k.when(t.length.gt(0), || hccl.finalise());
}
