//~ E0080 there: the struct has 4 bytes, and the size must be a multiple of 8: add `_pad: [u8; 4]` as the last field
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u32, // misuse
    // correct: pub rows: u32,
    // correct: pub _pad: [u8; 4],
}
