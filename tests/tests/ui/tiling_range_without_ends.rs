//~ macro there: `range` takes a range with at least one end
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = ..)] pub rows: u64, // misuse
    // correct: #[tiling(range = 1..)] pub rows: u64,
    pub last: u64,
}
