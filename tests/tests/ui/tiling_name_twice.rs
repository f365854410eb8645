//~ macro there: `name` is given twice
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(name = "a")] #[tiling(name = "b")] pub rows: u64, // misuse
    // correct: #[tiling(name = "a")] pub rows: u64,
    pub last: u64,
}
