//~ macro there: `size` takes a whole number of bytes: write `size = 592`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(size = "8")] // misuse
// correct: #[repr(C)] #[tiling(size = 8)]
pub struct Data {
    pub rows: u64,
}
