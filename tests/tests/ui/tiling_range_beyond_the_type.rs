//~ macro there: a `u8` is in 0..=255: write an end in this range
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 0..=300)] pub rows: [u8; 8], // misuse
    // correct: #[tiling(range = 0..=200)] pub rows: [u8; 8],
    pub last: u64,
}
