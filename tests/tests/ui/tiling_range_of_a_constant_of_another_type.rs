//~ E0277 there: RangeInclusive<u32>` is not a range of `u64`
use hccl::kernel::Tiling;

pub const LAST: u32 = 3;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 1..=LAST)] pub rows: u64, // misuse
    // correct: #[tiling(range = 1..=LAST as u64)] pub rows: u64,
    pub last: u64,
}
