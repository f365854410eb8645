//~ E0599: no method named `stride` found
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
pub fn reduce(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    let t = k.tiling();
    let hccl = k.hccl(0).init().configure(&t.gather);
    let task = hccl.all_reduce(x, y, t.length, Sum).stride(t.length).commit_all(); // misuse
    // correct: let task = hccl.all_reduce(x, y, t.length, Sum).commit_all();
    hccl.wait(&task);
    hccl.finalise();
}
