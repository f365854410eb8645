//~ macro there: `tiling` takes its entries in parentheses
use hccl::kernel::Tiling;

#[derive(Tiling)]
#[repr(C)]
pub struct Data {
    #[tiling] pub rows: u64, // misuse
    // correct: pub rows: u64,
    pub last: u64,
}
