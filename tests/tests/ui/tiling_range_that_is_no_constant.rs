//~ E0015 there: cannot call non-const
use hccl::kernel::Tiling;

pub const LIMIT: u64 = 4;
pub fn limit() -> u64 {
    LIMIT
}

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 1..limit())] pub rows: u64, // misuse
    // correct: #[tiling(range = 1..LIMIT)] pub rows: u64,
    pub last: u64,
}
