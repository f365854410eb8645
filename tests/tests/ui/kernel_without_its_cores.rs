//~ : which cores run `sums`? Write `#[kernel(mix = ..)]`
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

#[kernel] // misuse
// correct: #[kernel(mix = "aiv_only")]
pub fn sums(k: Kernel<Sizes>, y: Output<u64>) {
    y.set(0, k.tiling().length);
}
