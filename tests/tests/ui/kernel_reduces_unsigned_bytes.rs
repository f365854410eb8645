//~ E0277: no Ascend product reduces `u8` with
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
pub fn reduce(
    k: Kernel<Sizes>,
    x: Input<u8>, // misuse
    y: Output<u8>, // misuse
    // correct: x: Input<i8>,
    // correct: y: Output<i8>,
) {
    let t = k.tiling();
    let hccl = k.hccl(0).init().configure(&t.gather);
    let task = hccl.all_reduce(x, y, t.length, Sum).commit_all();
    hccl.wait(&task);
    hccl.finalise();
}
