//~ E0080 there: C++ has no standard type of 128 bits: use `[u64; 2]`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: u128, // misuse
    // correct: pub field: [u64; 2],
}
