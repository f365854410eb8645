//~ macro there: `range` is followed by `=`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range(1..5))] pub rows: u64, // misuse
    // correct: #[tiling(range = 1..5)] pub rows: u64,
    pub last: u64,
}
