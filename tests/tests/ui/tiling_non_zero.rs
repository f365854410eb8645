//~ E0080 there: use the plain number with `#[tiling(range = 1..)]`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub field: std::num::NonZeroU64, // misuse
    // correct: pub field: u64,
}
