//~ E0080 there: the range `..0` is empty
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = ..0)] pub rows: u64, // misuse
    // correct: #[tiling(range = ..1)] pub rows: u64,
    pub last: u64,
}
