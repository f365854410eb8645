//~ macro there: `a b` is not a name in C++
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)] #[tiling(name = "a b")] // misuse
// correct: #[repr(C)] #[tiling(name = "a")]
pub struct Data {
    pub rows: u64,
}
