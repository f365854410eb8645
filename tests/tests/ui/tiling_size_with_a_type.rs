//~ macro there: `size` takes a whole number of bytes
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(size = 8u64)] // misuse
// correct: #[repr(C)] #[tiling(size = 8)]
pub struct Data {
    pub rows: u64,
}
