//~ E0080 there: `Vec<u64>` cannot be
//~ macro there: pass tensors as arguments
//~ macro there: `double` is a keyword
//~ E0080 there: the range `3..1` is empty
//~ E0080 there: `none` is an array of length 0
//~ macro there: a field takes `name` and `range`
//~ macro there: `range` is given twice
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    pub rows: Vec<u64>, // misuse
    pub columns: *const u8, // misuse
    pub double: u64, // misuse
    #[tiling(range = 3..1)] pub tiles: u64, // misuse
    pub none: [u64; 0], // misuse
    #[tiling(sized = 3, range = 1.., range = 2..)] pub tail: u64, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
