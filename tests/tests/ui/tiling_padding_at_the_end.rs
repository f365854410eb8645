//~ E0080 there: 4 bytes of implicit padding at the end, and the size must be a multiple of 8: add `_pad: [u8; 4]` as the last field
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub length: u64,
    pub rows: u32, // misuse
    // correct: pub rows: u32,
    // correct: pub _pad: [u8; 4],
}
