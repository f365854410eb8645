//~ E0080 there: 1 byte of implicit padding before `rows`: add `_pad2: [u8; 1]` before it
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub _pad: u8,
    pub rows: u16, // misuse
    // correct: pub _pad2: [u8; 1],
    // correct: pub rows: u16,
    pub columns: u32,
}
