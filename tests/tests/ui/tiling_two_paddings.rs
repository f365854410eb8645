//~ E0080 there: 4 bytes of implicit padding before `rows`
//~ E0080 there: 7 bytes of implicit padding before `columns`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub first: u32, // misuse
    // correct: pub first: u64,
    pub rows: u64, // misuse
    // correct: pub rows: u64,
    pub flag: bool, // misuse
    // correct: pub flag: [bool; 8],
    pub columns: u64, // misuse
    // correct: pub columns: u64,
}
