//~ E0080 there: `Option<u64>` cannot be in a tiling struct
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 1..)] pub rows: Option<u64>, // misuse
    // correct: #[tiling(range = 1..)] pub rows: u64,
    pub last: u64,
}
