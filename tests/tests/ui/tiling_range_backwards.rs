//~ E0080 there: the range `7..=3` is empty
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 7..=3)] pub rows: [u64; 2], // misuse
    // correct: #[tiling(range = 3..=7)] pub rows: [u64; 2],
    pub last: u64,
}
