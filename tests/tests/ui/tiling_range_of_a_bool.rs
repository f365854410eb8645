//~ E0277 there: is not a range of `bool`
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling(range = false..=true)] pub rows: [bool; 8], // misuse
    // correct: pub rows: [bool; 8],
    pub last: u64,
}
