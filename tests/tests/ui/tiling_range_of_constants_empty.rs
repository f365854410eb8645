//~ E0080 there: the range `FIRST..=LAST` is empty
use hccl::kernel::Tiling;

pub const FIRST: u64 = 4;
pub const LAST: u64 = 3;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = FIRST..=LAST)] pub rows: u64, // misuse
    // correct: #[tiling(range = LAST..=FIRST)] pub rows: u64,
    pub last: u64,
}
