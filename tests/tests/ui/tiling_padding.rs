//~ E0080 there: 3 bytes of implicit padding before `rows`: add `_pad: [u8; 3]` before it, or put the fields with the greatest alignment first
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub last: bool,
    pub rows: u32, // misuse
    // correct: pub _pad: [u8; 3],
    // correct: pub rows: u32,
}
