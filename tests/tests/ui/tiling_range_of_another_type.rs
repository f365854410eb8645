//~ macro there: a `u64` is a whole number: write a whole number
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 0.5..=1.0)] // misuse
    // correct: #[tiling(range = 1..=2)]
    pub rows: u64,
}
