//~ macro there: use bytes that end in a 0, `[u8; N]`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: u64,
    pub field: str, // misuse
    // correct: pub field: [u8; 8],
}
