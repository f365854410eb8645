//~ E0080 there: the struct has 16 bytes, and 24 were promised: correct one of the two numbers
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
#[tiling(size = 24)] // misuse
// correct: #[tiling(size = 16)]
pub struct Data {
    pub rows: u64,
    pub columns: u64,
}
