//~ macro there: a `u8` lies in 0..=255: write an end that it can be
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = 0..=300)] pub rows: [u8; 8], // misuse
    // correct: #[tiling(range = 0..=200)] pub rows: [u8; 8],
    pub last: u64,
}
