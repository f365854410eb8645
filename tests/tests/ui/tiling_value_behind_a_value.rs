//~ macro there: a comma before the next entry
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(name = "a" range = 1..)] pub rows: u64, // misuse
    // correct: #[tiling(name = "a", range = 1..)] pub rows: u64,
    pub last: u64,
}
