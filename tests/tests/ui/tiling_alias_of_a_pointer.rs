//~ E0080 there: `Address` cannot be in a tiling struct
use hccl::kernel::Tiling;

pub type Address = *const u64;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: Address, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
