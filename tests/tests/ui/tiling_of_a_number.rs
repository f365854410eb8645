//~ E0517: attribute should be applied to an enum
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(u8)] // misuse
// correct: #[repr(C)]
pub struct Data {
    pub rows: u64,
}
