//~ E0382: borrow of moved value: `tensor`
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
pub fn copies(k: Kernel<Sizes>, x: Input<f32>) {
    let queue = k.queue::<f32>(Position::VecIn, 2, k.tiling().length);
    let tensor = queue.alloc();
    // correct: k.copy_in(&tensor, x, 16);
    queue.enqueue(tensor);
    k.copy_in(&tensor, x, 16); // misuse
}
