//~ macro there: `range` takes a range
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 64)] // misuse
    // correct: #[tiling(range = 64..=64)]
    pub rows: u64,
}
