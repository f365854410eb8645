//~ macro there: `a b` is no name in C++
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(name = "a b")] // misuse
// correct: #[repr(C)] #[tiling(name = "a")]
pub struct Data {
    pub rows: u64,
}
