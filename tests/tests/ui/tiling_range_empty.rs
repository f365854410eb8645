//~ E0080 there: the range `5..5` is empty: it contains no value
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 5..5)] pub rows: u64, // misuse
    // correct: #[tiling(range = 5..=5)] pub rows: u64,
    pub last: u64,
}
