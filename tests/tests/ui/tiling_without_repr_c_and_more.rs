//~ macro there: `#[repr(C)]` is missing
//~ macro there: `size` takes a whole number of bytes
//~ macro there: `double` is a keyword of Ascend C
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[tiling(size = "16")] // misuse
// correct: #[tiling(size = 16)]
pub struct Data { // misuse
// correct: #[repr(C)]
// correct: pub struct Data {
    pub double: u64, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
