//~ E0425 there: cannot find type `u46`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u46, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
