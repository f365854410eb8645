//~ macro there: a `u64` is in 0..=18446744073709551615
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = -1..)] pub rows: u64, // misuse
    // correct: #[tiling(range = 1..)] pub rows: u64,
    pub last: u64,
}
