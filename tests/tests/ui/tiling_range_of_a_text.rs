//~ E0277 there: is not a range of `u64`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = "1".."2")] pub rows: u64, // misuse
    // correct: #[tiling(range = 1..2)] pub rows: u64,
    pub last: u64,
}
