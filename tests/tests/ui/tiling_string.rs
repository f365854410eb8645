//~ E0080 there: use bytes that end in a 0, `[u8; N]`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: String, // misuse
    // correct: pub field: [u8; 64],
}
