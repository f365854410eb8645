//~ E0599: no method named `all_gather` found
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
pub fn gather(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    let hccl = k.hccl(0).init(); // misuse
    // correct: let hccl = k.hccl(0).init().configure(&t.gather);
    let _ = hccl.all_gather(x, y, t.length).commit_all();
}
